"""Rows of the CUDA runtime API (see `api.py` for the format). `name#N` is the form with N arguments."""

ROWS = """
cudaMalloc                              alloc out bytes
cudaMallocManaged                       alloc out bytes flags / managed
cudaMallocPitch                         alloc out pitch_out width height / pitched 2d
cudaMalloc3D                            alloc out params / pitched 3d
cudaMallocArray                         alloc out - width height flags / array 2d
cudaMalloc3DArray                       alloc out - params flags / array 3d
cudaMallocMipmappedArray                alloc out - params - flags / array 3d
cudaMallocAsync                         alloc out bytes stream / pooled async
cudaMallocAsync#4                       alloc out bytes pool stream / pooled async
cudaMallocFromPoolAsync                 alloc out bytes pool stream / pooled async
cudaMallocHost                          host_alloc out bytes flags
cudaHostAlloc                           host_alloc out bytes flags
cudaFree                                free ptr
cudaFreeAsync                           free ptr stream / pooled async
cudaFreeArray                           free ptr / array
cudaFreeMipmappedArray                  free ptr / array
cudaFreeHost                            host_free ptr
cudaHostRegister                        register ptr bytes flags
cudaHostUnregister                      unregister ptr
cudaHostGetDevicePointer                device_pointer out src flags
cudaGetSymbolAddress                    device_pointer out src / symbol
cudaHostGetFlags                        neutral out ptr
cudaGetSymbolSize                       neutral out symbol

cudaMemcpy                              copy dst src bytes kind
cudaMemcpyAsync                         copy dst src bytes kind stream / async
cudaMemcpy2D                            copy dst dpitch src spitch width height kind / 2d
cudaMemcpy2DAsync                       copy dst dpitch src spitch width height kind stream / 2d async
cudaMemcpy3D                            copy params / 3d
cudaMemcpy3DAsync                       copy params stream / 3d async
cudaMemcpyPeer                          copy dst dst_device src src_device bytes / peer async barrier
cudaMemcpyPeerAsync                     copy dst dst_device src src_device bytes stream / peer async
cudaMemcpy3DPeer                        copy params / peer 3d async barrier
cudaMemcpy3DPeerAsync                   copy params stream / peer 3d async
cudaMemcpyToSymbol                      copy symbol src bytes offset kind / to-symbol
cudaMemcpyToSymbolAsync                 copy symbol src bytes offset kind stream / to-symbol async
cudaMemcpyFromSymbol                    copy dst symbol bytes offset kind / from-symbol
cudaMemcpyFromSymbolAsync               copy dst symbol bytes offset kind stream / from-symbol async
cudaMemcpyToArray                       copy dst offset - src bytes kind / array
cudaMemcpyToArrayAsync                  copy dst offset - src bytes kind stream / array async
cudaMemcpyFromArray                     copy dst src offset - bytes kind / array
cudaMemcpyFromArrayAsync                copy dst src offset - bytes kind stream / array async
cudaMemcpyArrayToArray                  copy dst - - src - - bytes kind / array
cudaMemcpy2DToArray                     copy dst offset - src spitch width height kind / array 2d
cudaMemcpy2DToArrayAsync                copy dst offset - src spitch width height kind stream / array 2d async
cudaMemcpy2DFromArray                   copy dst dpitch src offset - width height kind / array 2d
cudaMemcpy2DFromArrayAsync              copy dst dpitch src offset - width height kind stream / array 2d async
cudaMemcpy2DArrayToArray                copy dst - - src - - width height kind / array 2d
cudaMemcpyBatchAsync                    unmodelled dst src bytes - - - - stream / async
cudaMemcpyBatchAsync#9                  unmodelled dst src bytes - - - - - stream / async
cudaMemcpy3DBatchAsync                  unmodelled - params flags stream / async
cudaMemcpyWithAttributesAsync           unmodelled dst src bytes params stream / async
cudaMemcpy3DWithAttributesAsync         unmodelled params flags stream / async
cudaMemset                              memset dst value bytes
cudaMemsetAsync                         memset dst value bytes stream / async
cudaMemset2D                            memset dst dpitch value width height / 2d
cudaMemset2DAsync                       memset dst dpitch value width height stream / 2d async
cudaMemset3D                            memset dst value params / 3d
cudaMemset3DAsync                       memset dst value params stream / 3d async
cudaMemPrefetchAsync                    prefetch ptr bytes device flags stream / async
cudaMemPrefetchAsync#4                  prefetch ptr bytes device stream / async
cudaMemPrefetchBatchAsync               unmodelled ptr bytes - - - - - stream / async
cudaMemDiscardBatchAsync                unmodelled ptr bytes - flags stream / async
cudaMemDiscardAndPrefetchBatchAsync     unmodelled ptr bytes - - - - - stream / async
cudaMemAdvise                           neutral ptr bytes value device
cudaMemRangeGetAttribute                neutral out - - ptr bytes
cudaMemRangeGetAttributes               neutral out - - - ptr bytes
cudaMemGetInfo                          neutral out out
cudaPointerGetAttributes                neutral out ptr
cudaStreamAttachMemAsync                prefetch stream ptr bytes flags / async

cudaStreamCreate                        stream_create out
cudaStreamCreateWithFlags               stream_create out flags
cudaStreamCreateWithPriority            stream_create out flags -
cudaStreamDestroy                       stream_destroy stream
cudaStreamSynchronize                   stream_sync stream
cudaStreamQuery                         query stream
cudaStreamWaitEvent                     event_wait stream event flags / async
cudaStreamAddCallback                   host_func stream callback user_data flags / async
cudaLaunchHostFunc                      host_func stream callback user_data / async
cudaLaunchHostFunc_v2                   host_func stream callback user_data - / async
cudaStreamGetPriority                   neutral stream out
cudaStreamGetFlags                      neutral stream out
cudaStreamGetId                         neutral stream out
cudaStreamGetDevice                     neutral stream out
cudaStreamCopyAttributes                neutral - -
cudaStreamGetAttribute                  neutral stream - out
cudaStreamSetAttribute                  neutral stream - value
cudaDeviceGetStreamPriorityRange        neutral out out
cudaCtxResetPersistingL2Cache           neutral

cudaEventCreate                         event_create out
cudaEventCreate#2                       event_create out flags
cudaEventCreateWithFlags                event_create out flags
cudaEventDestroy                        event_destroy event
cudaEventRecord                         event_record event stream / async
cudaEventRecordWithFlags                event_record event stream flags / async
cudaEventSynchronize                    event_sync event
cudaEventQuery                          query event
cudaEventElapsedTime                    elapsed_time out event end_event

cudaDeviceSynchronize                   device_sync
cudaThreadSynchronize                   device_sync
cudaDeviceReset                         reset
cudaThreadExit                          reset
cudaSetDevice                           set_device device

cudaStreamBeginCapture                  capture_begin stream mode
cudaStreamBeginCaptureToGraph           capture_begin stream graph - - - mode
cudaStreamEndCapture                    capture_end stream out
cudaStreamIsCapturing                   neutral stream out / capture-status
cudaStreamGetCaptureInfo                neutral stream out out out out out out / capture-status
cudaStreamUpdateCaptureDependencies     unmodelled stream - - - flags
cudaThreadExchangeStreamCaptureMode     neutral out / capture-mode
cudaGraphInstantiate                    graph_instantiate out graph flags
cudaGraphInstantiate#5                  graph_instantiate out graph out - -
cudaGraphInstantiateWithFlags           graph_instantiate out graph flags
cudaGraphInstantiateWithParams          graph_instantiate out graph params
cudaGraphLaunch                         graph_launch exec stream / async
cudaGraphUpload                         neutral exec stream / async
cudaGraphExecUpdate                     graph_update exec graph out
cudaGraphExecUpdate#4                   graph_update exec graph out out
cudaGraphExecKernelNodeSetParams        graph_update exec - params
cudaGraphExecMemcpyNodeSetParams        graph_update exec - params
cudaGraphExecMemcpyNodeSetParamsToSymbol graph_update exec - symbol src bytes offset kind / to-symbol
cudaGraphExecMemcpyNodeSetParamsFromSymbol graph_update exec - dst symbol bytes offset kind / from-symbol
cudaGraphExecMemcpyNodeSetParams1D      graph_update exec - dst src bytes kind
cudaGraphExecMemsetNodeSetParams        graph_update exec - params
cudaGraphExecHostNodeSetParams          graph_update exec - params
cudaGraphExecChildGraphNodeSetParams    graph_update exec - graph
cudaGraphExecEventRecordNodeSetEvent    graph_update exec - event
cudaGraphExecEventWaitNodeSetEvent      graph_update exec - event
cudaGraphExecExternalSemaphoresSignalNodeSetParams graph_update exec - params
cudaGraphExecExternalSemaphoresWaitNodeSetParams graph_update exec - params
cudaGraphExecNodeSetParams              graph_update exec - params
cudaGraphNodeSetEnabled                 graph_update exec - value
cudaGraphNodeGetEnabled                 neutral exec - out
cudaGraphCreate                         neutral out flags / graph-node
cudaGraphClone                          neutral out graph / graph-node
cudaGraphDestroy                        neutral graph / destroys
cudaGraphExecDestroy                    neutral exec / destroys
cudaGraphExecGetFlags                   neutral exec out
cudaGraphAddKernelNode                  neutral out graph - - params / graph-node
cudaGraphAddMemcpyNode                  neutral out graph - - params / graph-node
cudaGraphAddMemcpyNodeToSymbol          neutral out graph - - symbol src bytes offset kind / graph-node to-symbol
cudaGraphAddMemcpyNodeFromSymbol        neutral out graph - - dst symbol bytes offset kind / graph-node from-symbol
cudaGraphAddMemcpyNode1D                neutral out graph - - dst src bytes kind / graph-node
cudaGraphAddMemsetNode                  neutral out graph - - params / graph-node
cudaGraphAddHostNode                    neutral out graph - - params / graph-node
cudaGraphAddChildGraphNode              neutral out graph - - - / graph-node
cudaGraphAddEmptyNode                   neutral out graph - - / graph-node
cudaGraphAddEventRecordNode             neutral out graph - - event / graph-node
cudaGraphAddEventWaitNode               neutral out graph - - event / graph-node
cudaGraphAddExternalSemaphoresSignalNode neutral out graph - - params / graph-node
cudaGraphAddExternalSemaphoresWaitNode  neutral out graph - - params / graph-node
cudaGraphAddMemAllocNode                neutral out graph - - params / graph-node
cudaGraphAddMemFreeNode                 neutral out graph - - ptr / graph-node
cudaGraphAddNode                        neutral out graph - - - params / graph-node
cudaGraphAddNode#5                      neutral out graph - - params / graph-node
cudaGraphAddNode_v2                     neutral out graph - - - params / graph-node
cudaGraphAddDependencies                neutral graph - - - - / graph-node
cudaGraphAddDependencies_v2             neutral graph - - - - / graph-node
cudaGraphRemoveDependencies             neutral graph - - - - / graph-node
cudaGraphDestroyNode                    neutral - / graph-node
cudaGraphNodeSetParams                  neutral - params / graph-node
cudaGraphKernelNodeSetParams            neutral - params / graph-node
cudaGraphMemcpyNodeSetParams            neutral - params / graph-node
cudaGraphMemcpyNodeSetParamsToSymbol    neutral - symbol src bytes offset kind / graph-node to-symbol
cudaGraphMemcpyNodeSetParamsFromSymbol  neutral - dst symbol bytes offset kind / graph-node from-symbol
cudaGraphMemcpyNodeSetParams1D          neutral - dst src bytes kind / graph-node
cudaGraphMemsetNodeSetParams            neutral - params / graph-node
cudaGraphHostNodeSetParams              neutral - params / graph-node
cudaGraphEventRecordNodeSetEvent        neutral - event / graph-node
cudaGraphEventWaitNodeSetEvent          neutral - event / graph-node
cudaGraphKernelNodeSetAttribute         neutral - - value / graph-node
cudaGraphKernelNodeCopyAttributes       neutral - - / graph-node
cudaGraphConditionalHandleCreate        neutral out graph value flags / graph-node
cudaGraphKernelNodeGetParams            neutral - out
cudaGraphKernelNodeGetAttribute         neutral - - out
cudaGraphMemcpyNodeGetParams            neutral - out
cudaGraphMemsetNodeGetParams            neutral - out
cudaGraphHostNodeGetParams              neutral - out
cudaGraphMemAllocNodeGetParams          neutral - out
cudaGraphMemFreeNodeGetParams           neutral - out
cudaGraphChildGraphNodeGetGraph         neutral - out
cudaGraphEventRecordNodeGetEvent        neutral - out
cudaGraphEventWaitNodeGetEvent          neutral - out
cudaGraphExternalSemaphoresSignalNodeGetParams neutral - out
cudaGraphExternalSemaphoresSignalNodeSetParams neutral - params / graph-node
cudaGraphExternalSemaphoresWaitNodeGetParams neutral - out
cudaGraphExternalSemaphoresWaitNodeSetParams neutral - params / graph-node
cudaGraphNodeFindInClone                neutral out - graph
cudaGraphNodeGetType                    neutral - out
cudaGraphGetNodes                       neutral graph out out
cudaGraphGetRootNodes                   neutral graph out out
cudaGraphGetEdges                       neutral graph out out out out
cudaGraphNodeGetDependencies            neutral - out out out
cudaGraphNodeGetDependentNodes          neutral - out out out
cudaGraphDebugDotPrint                  neutral graph - flags
cudaUserObjectCreate                    neutral out ptr - - flags
cudaUserObjectRetain                    neutral - -
cudaUserObjectRelease                   neutral - -
cudaGraphRetainUserObject               neutral graph - - flags
cudaGraphReleaseUserObject              neutral graph - -
cudaDeviceGraphMemTrim                  neutral device
cudaDeviceGetGraphMemAttribute          neutral device - out
cudaDeviceSetGraphMemAttribute          neutral device - value

cudaMemPoolCreate                       neutral out params
cudaMemPoolDestroy                      neutral pool
cudaMemPoolTrimTo                       neutral pool bytes
cudaMemPoolSetAttribute                 neutral pool - value
cudaMemPoolGetAttribute                 neutral pool - out
cudaMemPoolSetAccess                    neutral pool - -
cudaMemPoolGetAccess                    neutral out pool -
cudaMemGetDefaultMemPool                neutral out - -
cudaMemGetMemPool                       neutral out - -
cudaMemSetMemPool                       neutral - - pool
cudaMemPoolExportToShareableHandle      neutral out pool - flags
cudaMemPoolImportFromShareableHandle    neutral out - - flags
cudaMemPoolExportPointer                neutral out ptr
cudaMemPoolImportPointer                device_pointer out pool - / resource
cudaDeviceGetDefaultMemPool             neutral out device
cudaDeviceSetMemPool                    neutral device pool
cudaDeviceGetMemPool                    neutral out device

cudaLaunchKernel                        launch kernel grid block packed shared stream / async
cudaLaunchCooperativeKernel             launch kernel grid block packed shared stream / async cooperative
cudaLaunchCooperativeKernelMultiDevice  unmodelled params - flags / async cooperative multi-device
cudaLaunchKernelExC                     launch config kernel packed / async
cudaLaunchKernelEx                      launch config kernel / async
cudaConfigureCall                       unmodelled grid block shared stream
cudaSetupArgument                       neutral - - -
cudaLaunch                              unmodelled kernel
cudaGridDependencySynchronize           neutral
cudaTriggerProgrammaticLaunchCompletion neutral
cudaGraphSetConditional                 neutral - value
cudaGetParameterBuffer                  unmodelled - -
cudaLaunchDevice                        unmodelled kernel packed grid block shared stream

cudaGetLastError                        neutral
cudaPeekAtLastError                     neutral
cudaGetErrorString                      neutral -
cudaGetErrorName                        neutral -
cudaGetDeviceCount                      neutral out
cudaGetDevice                           neutral out
cudaGetDeviceProperties                 neutral out device
cudaDeviceGetAttribute                  neutral out - device
cudaDeviceGetHostAtomicCapabilities     neutral out - - device
cudaDeviceGetP2PAttribute               neutral out - src_device dst_device
cudaDeviceGetP2PAtomicCapabilities      neutral out - - src_device dst_device
cudaDeviceGetLimit                      neutral out -
cudaDeviceSetLimit                      neutral - value
cudaDeviceGetCacheConfig                neutral out
cudaDeviceSetCacheConfig                neutral value
cudaDeviceGetSharedMemConfig            neutral out
cudaDeviceSetSharedMemConfig            neutral value
cudaDeviceGetByPCIBusId                 neutral out -
cudaDeviceGetPCIBusId                   neutral out - device
cudaDeviceGetTexture1DLinearMaxWidth    neutral out - device
cudaDeviceGetNvSciSyncAttributes        neutral out device flags
cudaDeviceCanAccessPeer                 neutral out device dst_device
cudaDeviceEnablePeerAccess              neutral device flags
cudaDeviceDisablePeerAccess             neutral device
cudaDeviceFlushGPUDirectRDMAWrites      neutral - -
cudaDeviceRegisterAsyncNotification     neutral device callback user_data out
cudaDeviceUnregisterAsyncNotification   neutral device -
cudaChooseDevice                        neutral out -
cudaInitDevice                          neutral device - flags
cudaSetValidDevices                     neutral - -
cudaSetDeviceFlags                      neutral flags
cudaGetDeviceFlags                      neutral out
cudaDriverGetVersion                    neutral out
cudaRuntimeGetVersion                   neutral out
cudaFuncGetAttributes                   neutral out kernel
cudaFuncSetAttribute                    neutral kernel - value
cudaFuncSetCacheConfig                  neutral kernel value
cudaFuncSetSharedMemConfig              neutral kernel value
cudaFuncGetName                         neutral out kernel
cudaFuncGetParamInfo                    neutral kernel - out out
cudaKernelSetAttributeForDevice         neutral kernel - value device
cudaGetFuncBySymbol                     device_pointer out kernel / function
cudaGetKernel                           device_pointer out kernel / function
cudaGetExportTable                      neutral out -
cudaGetDriverEntryPoint                 neutral - out flags out
cudaGetDriverEntryPointByVersion        neutral - out - flags out
cudaOccupancyMaxActiveBlocksPerMultiprocessor neutral out kernel block shared
cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags neutral out kernel block shared flags
cudaOccupancyAvailableDynamicSMemPerBlock neutral out kernel - block
cudaOccupancyMaxPotentialBlockSize      neutral out out kernel shared -
cudaOccupancyMaxPotentialBlockSizeWithFlags neutral out out kernel shared - flags
cudaOccupancyMaxPotentialBlockSizeVariableSMem neutral out out kernel - -
cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags neutral out out kernel - - flags
cudaOccupancyMaxPotentialClusterSize    neutral out kernel config
cudaOccupancyMaxActiveClusters          neutral out kernel config
cudaLibraryLoadData                     neutral out -
cudaLibraryLoadFromFile                 neutral out -
cudaLibraryUnload                       neutral -
cudaLibraryGetKernel                    device_pointer out - kernel / function
cudaLibraryGetGlobal                    device_pointer out out - src / symbol
cudaLibraryGetManaged                   device_pointer out out - src / symbol
cudaLibraryGetUnifiedFunction           device_pointer out - kernel / function
cudaLibraryGetKernelCount               neutral out -
cudaLibraryEnumerateKernels             neutral out - -
cudaLogsRegisterCallback                neutral callback user_data out
cudaLogsUnregisterCallback              neutral -
cudaLogsCurrent                         neutral out flags
cudaLogsDumpToFile                      neutral - - flags
cudaLogsDumpToMemory                    neutral - out out flags
cudaProfilerStart                       neutral
cudaProfilerStop                        neutral
cudaProfilerInitialize                  neutral - - -

cudaIpcGetEventHandle                   neutral out event
cudaIpcOpenEventHandle                  neutral out -
cudaIpcGetMemHandle                     neutral out ptr
cudaIpcOpenMemHandle                    device_pointer out - flags / resource
cudaIpcCloseMemHandle                   neutral ptr / may-sync
cudaImportExternalMemory                neutral out params
cudaExternalMemoryGetMappedBuffer       device_pointer out - params / resource
cudaExternalMemoryGetMappedMipmappedArray device_pointer out - params / resource
cudaDestroyExternalMemory               neutral -
cudaImportExternalSemaphore             neutral out params
cudaDestroyExternalSemaphore            neutral -
cudaSignalExternalSemaphoresAsync       library_call - params - stream / async interop
cudaWaitExternalSemaphoresAsync         library_call - params - stream / async interop awaits

cudaArrayGetInfo                        neutral out out out -
cudaArrayGetPlane                       neutral out - -
cudaArrayGetMemoryRequirements          neutral out - device
cudaMipmappedArrayGetMemoryRequirements neutral out - device
cudaArrayGetSparseProperties            neutral out -
cudaMipmappedArrayGetSparseProperties   neutral out -
cudaGetMipmappedArrayLevel              device_pointer out src -
cudaGetChannelDesc                      neutral out -
cudaCreateChannelDesc                   neutral - - - - -
cudaCreateTextureObject                 neutral out params - - / fetched
cudaDestroyTextureObject                neutral -
cudaGetTextureObjectResourceDesc        neutral out -
cudaGetTextureObjectTextureDesc         neutral out -
cudaGetTextureObjectResourceViewDesc    neutral out -
cudaCreateSurfaceObject                 neutral out params / fetched
cudaDestroySurfaceObject                neutral -
cudaGetSurfaceObjectResourceDesc        neutral out -
cudaBindTexture                         neutral out - ptr - bytes
cudaBindTexture2D                       neutral out - ptr - - - -
cudaBindTextureToArray                  neutral - - -
cudaBindTextureToMipmappedArray         neutral - - -
cudaBindSurfaceToArray                  neutral - - -
cudaUnbindTexture                       neutral -
cudaGetTextureAlignmentOffset           neutral out -
cudaGetTextureReference                 neutral out -
cudaGraphicsUnregisterResource          neutral -
cudaGraphicsResourceSetMapFlags         neutral - flags
cudaGraphicsMapResources                library_call - - stream / async interop awaits
cudaGraphicsUnmapResources              library_call - - stream / async interop
cudaGraphicsResourceGetMappedPointer    device_pointer out out src
cudaGraphicsSubResourceGetMappedArray   device_pointer out src - -
cudaGraphicsResourceGetMappedMipmappedArray device_pointer out src
cudaGraphicsGLRegisterBuffer            device_pointer out - flags / resource
cudaGraphicsGLRegisterImage             device_pointer out - - flags / resource
cudaGraphicsD3D9RegisterResource        device_pointer out - flags / resource
cudaGraphicsD3D10RegisterResource       device_pointer out - flags / resource
cudaGraphicsD3D11RegisterResource       device_pointer out - flags / resource
cudaGraphicsVDPAURegisterVideoSurface   device_pointer out - flags / resource
cudaGraphicsVDPAURegisterOutputSurface  device_pointer out - flags / resource
cudaGraphicsEGLRegisterImage            device_pointer out - flags / resource
cudaD3D9GetDevice                       neutral out -
cudaD3D10GetDevice                      neutral out -
cudaD3D11GetDevice                      neutral out -
cudaEGLStreamConsumerConnect            neutral out -
cudaEGLStreamConsumerConnectWithFlags   neutral out - flags
cudaEGLStreamConsumerDisconnect         neutral -
cudaEGLStreamConsumerAcquireFrame       neutral - out stream - / may-sync
cudaEGLStreamConsumerReleaseFrame       neutral - - stream / may-sync
cudaEGLStreamProducerConnect            neutral out - - -
cudaEGLStreamProducerDisconnect         neutral -
cudaEGLStreamProducerPresentFrame       neutral - - stream / may-sync
cudaEGLStreamProducerReturnFrame        neutral - out stream / may-sync
cudaGraphicsResourceGetMappedEglFrame   neutral out - - -
cudaGLSetGLDevice                       neutral device
cudaGLGetDevices                        neutral out out - -
cudaGLRegisterBufferObject              neutral -
cudaGLUnregisterBufferObject            neutral -
cudaGLMapBufferObject                   device_pointer out - / resource may-sync
cudaGLUnmapBufferObject                 neutral - / may-sync
"""
