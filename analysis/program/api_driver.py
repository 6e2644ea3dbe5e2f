"""Rows of the CUDA driver API (see `api.py` for the format). Most graph, pool and query functions have the runtime
function's shape under another prefix: `api.lookup` falls back to the runtime row, so only the others are listed."""

ROWS = """
cuInit                      neutral flags
cuGetErrorString            neutral - out
cuGetErrorName              neutral - out
cuDeviceGet                 neutral out -
cuDeviceGetName             neutral out - device
cuDeviceGetUuid             neutral out device
cuDeviceGetLuid             neutral out out device
cuDeviceTotalMem            neutral out device
cuDeviceGetProperties       neutral out device
cuDeviceComputeCapability   neutral out out device
cuDeviceGetExecAffinitySupport neutral out - device
cuDevicePrimaryCtxRetain    neutral out device
cuDevicePrimaryCtxRelease   neutral device / may-sync
cuDevicePrimaryCtxSetFlags  neutral device flags
cuDevicePrimaryCtxGetState  neutral device out out
cuDevicePrimaryCtxReset     reset device
cuCtxCreate                 neutral out flags device
cuCtxCreate#4               neutral out - flags device
cuCtxCreate_v3              neutral out - - flags device
cuCtxDestroy                neutral - / may-sync
cuCtxPushCurrent            neutral -
cuCtxPopCurrent             neutral out
cuCtxSetCurrent             neutral -
cuCtxGetCurrent             neutral out
cuCtxGetDevice              neutral out
cuCtxGetFlags               neutral out
cuCtxSetFlags               neutral flags
cuCtxGetId                  neutral - out
cuCtxSynchronize            device_sync
cuCtxSetLimit               neutral - value
cuCtxGetLimit               neutral out -
cuCtxGetCacheConfig         neutral out
cuCtxSetCacheConfig         neutral value
cuCtxGetApiVersion          neutral - out
cuCtxGetStreamPriorityRange neutral out out
cuCtxResetPersistingL2Cache neutral
cuCtxRecordEvent            unmodelled - event
cuCtxWaitEvent              unmodelled - event
cuCtxAttach                 neutral out flags
cuCtxDetach                 neutral -
cuCtxGetSharedMemConfig     neutral out
cuCtxSetSharedMemConfig     neutral value
cuCtxEnablePeerAccess       neutral - flags
cuCtxDisablePeerAccess      neutral -
cuModuleLoad                neutral out - / may-sync
cuModuleLoadData            neutral out - / may-sync
cuModuleLoadDataEx          neutral out - - - - / may-sync
cuModuleLoadFatBinary       neutral out - / may-sync
cuModuleUnload              neutral - / may-sync
cuModuleGetLoadingMode      neutral out
cuModuleGetFunction         device_pointer out - kernel / function
cuModuleGetFunctionCount    neutral out -
cuModuleEnumerateFunctions  neutral out - -
cuModuleGetGlobal           device_pointer out out - src / symbol
cuModuleGetTexRef           neutral out - -
cuModuleGetSurfRef          neutral out - -
cuLinkCreate                neutral - - - out
cuLinkAddData               neutral -
cuLinkAddFile               neutral -
cuLinkComplete              neutral - out out
cuLinkDestroy               neutral -
cuLibraryGetModule          neutral out -
cuKernelGetFunction         device_pointer out kernel / function
cuKernelGetLibrary          neutral out -
cuKernelGetAttribute        neutral out - - device
cuKernelSetAttribute        neutral - value - device
cuKernelSetCacheConfig      neutral - value device
cuKernelGetName             neutral out -
cuKernelGetParamInfo        neutral - - out out

cuMemAlloc                  alloc out bytes
cuMemAllocPitch             alloc out pitch_out width height - / pitched 2d
cuMemAllocManaged           alloc out bytes flags / managed
cuMemAllocAsync             alloc out bytes stream / pooled async
cuMemAllocFromPoolAsync     alloc out bytes pool stream / pooled async
cuMemAllocHost              host_alloc out bytes
cuMemHostAlloc              host_alloc out bytes flags
cuMemFree                   free ptr
cuMemFreeAsync              free ptr stream / pooled async
cuMemFreeHost               host_free ptr
cuMemHostRegister           register ptr bytes flags
cuMemHostUnregister         unregister ptr
cuMemHostGetDevicePointer   device_pointer out src flags
cuMemHostGetFlags           neutral out ptr
cuMemGetInfo                neutral out out
cuMemGetAddressRange        neutral out out ptr
cuArrayCreate               alloc out params / array 2d
cuArray3DCreate             alloc out params / array 3d
cuMipmappedArrayCreate      alloc out params - / array 3d
cuArrayDestroy              free ptr / array
cuMipmappedArrayDestroy     free ptr / array
cuMemAddressReserve         device_pointer out bytes - - flags / resource
cuMemAddressFree            neutral ptr bytes
cuMemCreate                 neutral out bytes - flags
cuMemRelease                neutral -
cuMemMap                    neutral ptr bytes offset - flags
cuMemMapArrayAsync          library_call - - stream / async interop
cuMemUnmap                  neutral ptr bytes
cuMemSetAccess              neutral ptr bytes - -
cuMemGetAccess              neutral out - ptr
cuMemExportToShareableHandle neutral out - - flags
cuMemImportFromShareableHandle neutral out - -
cuMemGetAllocationGranularity neutral out - -
cuMemGetAllocationPropertiesFromHandle neutral out -
cuMemRetainAllocationHandle neutral out ptr
cuMemGetHandleForAddressRange neutral out ptr bytes - flags
cuMemBatchDecompressAsync   unmodelled params - flags - stream / async
cuMulticastCreate           neutral out -
cuMulticastAddDevice        neutral - device
cuMulticastBindMem          neutral - - - - bytes flags
cuMulticastBindAddr         neutral - - ptr bytes flags
cuMulticastUnbind           neutral - device - bytes
cuMulticastGetGranularity   neutral out - -

cuMemcpy                    copy dst src bytes
cuMemcpyAsync               copy dst src bytes stream / async
cuMemcpyPeer                copy dst dst_device src src_device bytes / peer async barrier
cuMemcpyPeerAsync           copy dst dst_device src src_device bytes stream / peer async
cuMemcpyHtoD                copy dst src bytes / h2d
cuMemcpyDtoH                copy dst src bytes / d2h
cuMemcpyDtoD                copy dst src bytes / d2d
cuMemcpyDtoA                copy dst offset src bytes / d2d array
cuMemcpyAtoD                copy dst src offset bytes / d2d array
cuMemcpyHtoA                copy dst offset src bytes / h2d array
cuMemcpyAtoH                copy dst src offset bytes / d2h array
cuMemcpyAtoA                copy dst offset src - bytes / d2d array
cuMemcpyHtoDAsync           copy dst src bytes stream / h2d async
cuMemcpyDtoHAsync           copy dst src bytes stream / d2h async
cuMemcpyDtoDAsync           copy dst src bytes stream / d2d async
cuMemcpyHtoAAsync           copy dst offset src bytes stream / h2d array async
cuMemcpyAtoHAsync           copy dst src offset bytes stream / d2h array async
cuMemcpy2D                  copy params / 2d
cuMemcpy2DUnaligned         copy params / 2d
cuMemcpy2DAsync             copy params stream / 2d async
cuMemcpy3D                  copy params / 3d
cuMemcpy3DAsync             copy params stream / 3d async
cuMemcpy3DPeer              copy params / 3d peer async barrier
cuMemcpy3DPeerAsync         copy params stream / 3d peer async
cuMemcpyBatchAsync          unmodelled dst src bytes - - - - stream / async
cuMemcpyBatchAsync#9        unmodelled dst src bytes - - - - - stream / async
cuMemcpy3DBatchAsync        unmodelled - params flags stream / async
cuMemsetD8                  memset dst value bytes
cuMemsetD16                 memset dst value -
cuMemsetD32                 memset dst value -
cuMemsetD8Async             memset dst value bytes stream / async
cuMemsetD16Async            memset dst value - stream / async
cuMemsetD32Async            memset dst value - stream / async
cuMemsetD2D8                memset dst dpitch value width height / 2d
cuMemsetD2D16               memset dst dpitch value width height / 2d
cuMemsetD2D32               memset dst dpitch value width height / 2d
cuMemsetD2D8Async           memset dst dpitch value width height stream / 2d async
cuMemsetD2D16Async          memset dst dpitch value width height stream / 2d async
cuMemsetD2D32Async          memset dst dpitch value width height stream / 2d async
cuMemPrefetchAsync          prefetch ptr bytes device flags stream / async
cuMemPrefetchAsync#4        prefetch ptr bytes device stream / async
cuPointerGetAttribute       neutral out - ptr
cuPointerGetAttributes      neutral - - out ptr
cuPointerSetAttribute       neutral value - ptr

cuStreamCreate              stream_create out flags
cuStreamCreateWithPriority  stream_create out flags -
cuGreenCtxStreamCreate      stream_create out - flags -
cuStreamDestroy             stream_destroy stream
cuStreamSynchronize         stream_sync stream
cuStreamQuery               query stream
cuStreamGetCtx              neutral stream out out
cuStreamGetGreenCtx         neutral stream out
cuStreamWaitValue32         neutral stream ptr value flags / async stream-memory
cuStreamWaitValue64         neutral stream ptr value flags / async stream-memory
cuStreamWriteValue32        neutral stream ptr value flags / async stream-memory
cuStreamWriteValue64        neutral stream ptr value flags / async stream-memory
cuStreamBatchMemOp          library_call stream - params flags / async awaits
cuStreamBeginCapture#1      capture_begin stream
cuEventCreate               event_create out flags
cuGreenCtxCreate            neutral out - device flags
cuGreenCtxDestroy           neutral - / may-sync
cuGreenCtxRecordEvent       unmodelled - event
cuGreenCtxWaitEvent         unmodelled - event
cuGreenCtxGetDevResource    neutral - out -
cuGreenCtxGetId             neutral - out
cuCtxFromGreenCtx           neutral out -
cuDeviceGetDevResource      neutral device out -
cuCtxGetDevResource         neutral - out -
cuDevSmResourceSplitByCount neutral out out - out - -
cuDevResourceGenerateDesc   neutral out - -

cuFuncGetAttribute          neutral out - kernel
cuFuncSetAttribute          neutral kernel - value
cuFuncGetModule             neutral out kernel
cuFuncIsLoaded              neutral out kernel
cuFuncLoad                  neutral kernel
cuFuncSetBlockShape         neutral kernel - - -
cuFuncSetSharedSize         neutral kernel bytes
cuParamSetSize              neutral kernel -
cuParamSeti                 neutral kernel - -
cuParamSetf                 neutral kernel - -
cuParamSetv                 neutral kernel - ptr -
cuParamSetTexRef            neutral kernel - -
cuLaunchKernel              launch kernel - - - - - - shared stream packed - / async
cuLaunchCooperativeKernel   launch kernel - - - - - - shared stream packed / async cooperative
cuLaunchKernelEx            launch config kernel packed - / async
cuLaunchCooperativeKernelMultiDevice unmodelled params - flags / async cooperative multi-device
cuLaunch                    unmodelled kernel / async
cuLaunchGrid                unmodelled kernel - - / async
cuLaunchGridAsync           unmodelled kernel - - stream / async
cuGraphInstantiate_v2       graph_instantiate out graph out - -
cuGraphConditionalHandleCreate neutral out graph - value flags / graph-node
cuGraphAddMemcpyNode        neutral out graph - - params - / graph-node
cuGraphAddMemsetNode        neutral out graph - - params - / graph-node
cuGraphAddBatchMemOpNode    neutral out graph - - params / graph-node
cuGraphBatchMemOpNodeGetParams neutral - out
cuGraphBatchMemOpNodeSetParams neutral - params / graph-node
cuGraphExecBatchMemOpNodeSetParams graph_update exec - params
cuGraphExecMemcpyNodeSetParams graph_update exec - params -
cuGraphExecMemsetNodeSetParams graph_update exec - params -

cuTexRefSetArray            neutral - - flags
cuTexRefSetAddress          neutral out - ptr bytes
cuTexRefSetAddress2D        neutral - - ptr -
cuTexRefSetFormat           neutral - - -
cuTexRefSetAddressMode      neutral - - -
cuTexRefSetFilterMode       neutral - -
cuTexRefSetFlags            neutral - flags
cuTexRefSetMaxAnisotropy    neutral - -
cuTexRefSetMipmappedArray   neutral - - flags
cuTexRefSetMipmapFilterMode neutral - -
cuTexRefSetMipmapLevelBias  neutral - -
cuTexRefSetMipmapLevelClamp neutral - - -
cuTexRefSetBorderColor      neutral - -
cuTexRefCreate              neutral out
cuTexRefDestroy             neutral -
cuSurfRefSetArray           neutral - - flags
cuTexObjectCreate           neutral out params - - / fetched
cuTexObjectDestroy          neutral -
cuTexObjectGetResourceDesc  neutral out -
cuTexObjectGetTextureDesc   neutral out -
cuTexObjectGetResourceViewDesc neutral out -
cuSurfObjectCreate          neutral out params / fetched
cuSurfObjectDestroy         neutral -
cuSurfObjectGetResourceDesc neutral out -
cuTensorMapEncodeTiled      neutral out
cuTensorMapEncodeIm2col     neutral out
cuTensorMapEncodeIm2colWide neutral out
cuTensorMapReplaceAddress   neutral out ptr
cuArrayGetDescriptor        neutral out -
cuArray3DGetDescriptor      neutral out -
cuMipmappedArrayGetLevel    device_pointer out src -
cuGetProcAddress            neutral - out - flags out
cuFlushGPUDirectRDMAWrites  neutral - -
cuCoredumpGetAttribute      neutral - out out
cuCoredumpGetAttributeGlobal neutral - out out
cuCoredumpSetAttribute      neutral - - -
cuCoredumpSetAttributeGlobal neutral - - -
cuDeviceGetCount            neutral out
cuCtxGetExecAffinity        neutral out -
cuTexRefGetAddress          neutral out -
cuTexRefGetArray            neutral out -
cuTexRefGetMipmappedArray   neutral out -
cuTexRefGetAddressMode      neutral out - -
cuTexRefGetFilterMode       neutral out -
cuTexRefGetFormat           neutral out out -
cuTexRefGetMipmapFilterMode neutral out -
cuTexRefGetMipmapLevelBias  neutral out -
cuTexRefGetMipmapLevelClamp neutral out out -
cuTexRefGetMaxAnisotropy    neutral out -
cuTexRefGetBorderColor      neutral out -
cuTexRefGetFlags            neutral out -
cuSurfRefGetArray           neutral out -
cuDeviceGetTexture1DLinearMaxWidth neutral out - - device
cuProfilerStart             neutral
cuProfilerStop              neutral
cuProfilerInitialize        neutral - - -
"""
