"""Rows for the libraries that enqueue work on a stream: cuBLAS, cuFFT, cuDNN, cuRAND, cuSPARSE, cuSOLVER, NCCL, NPP.

A library has hundreds of compute functions of one shape (handle first, then pointers and sizes), so only the exceptions
are rows; `guess` classifies the rest by how the libraries name things.
"""

from __future__ import annotations

import re

ROWS = """
cublasSetStream                 set_stream handle stream
cublasXtSetStream               set_stream handle stream
cublasSetKernelStream           set_stream stream
cufftSetStream                  set_stream handle stream
cudnnSetStream                  set_stream handle stream
curandSetStream                 set_stream handle stream
cusparseSetStream               set_stream handle stream
cusolverDnSetStream             set_stream handle stream
cusolverSpSetStream             set_stream handle stream
cusolverRfSetStream             set_stream handle stream
nppSetStream                    set_stream stream
cublasGetStream                 neutral handle out
cudnnGetStream                  neutral handle out
cusparseGetStream               neutral handle out
cusolverDnGetStream             neutral handle out

cublasSetVector                 copy - - src - dst - / h2d
cublasGetVector                 copy - - src - dst - / d2h
cublasSetMatrix                 copy - - - src - dst - / h2d 2d
cublasGetMatrix                 copy - - - src - dst - / d2h 2d
cublasSetVectorAsync            copy - - src - dst - stream / h2d async
cublasGetVectorAsync            copy - - src - dst - stream / d2h async
cublasSetMatrixAsync            copy - - - src - dst - stream / h2d 2d async
cublasGetMatrixAsync            copy - - - src - dst - stream / d2h 2d async
cublasAlloc                     alloc - - out
cublasFree                      free ptr
cublasInit                      neutral
cublasShutdown                  neutral / may-sync
cublasCreate                    neutral out / may-sync
cublasDestroy                   neutral handle / may-sync
cublasLtMatmul                  library_call handle - - - - - - - - - - - dst - - stream / async
cublasLtMatrixTransform         library_call handle - - - - - - - dst - stream / async
cublasLtMatmulAlgoGetHeuristic  neutral handle - - - - - - - out out
cublasXtSgemm                   library_call handle

cufftExecC2C                    library_call handle src dst - / async
cufftExecZ2Z                    library_call handle src dst - / async
cufftExecR2C                    library_call handle src dst / async
cufftExecC2R                    library_call handle src dst / async
cufftExecD2Z                    library_call handle src dst / async
cufftExecZ2D                    library_call handle src dst / async
cufftXtExec                     library_call handle src dst - / async
cufftPlan1d                     neutral out - - -
cufftPlan2d                     neutral out - - -
cufftPlan3d                     neutral out - - - -
cufftPlanMany                   neutral out
cufftCreate                     neutral out
cufftDestroy                    neutral handle / may-sync

curandGenerate                  library_call handle dst - / async
curandGenerateLongLong          library_call handle dst - / async
curandGenerateUniform           library_call handle dst - / async
curandGenerateUniformDouble     library_call handle dst - / async
curandGenerateNormal            library_call handle dst - - - / async
curandGenerateNormalDouble      library_call handle dst - - - / async
curandGenerateLogNormal         library_call handle dst - - - / async
curandGenerateLogNormalDouble   library_call handle dst - - - / async
curandGeneratePoisson           library_call handle dst - - / async
curandGenerateSeeds             library_call handle / async
curandCreateGenerator           neutral out -
curandCreateGeneratorHost       neutral out -
curandDestroyGenerator          neutral handle / may-sync
curandMakeMTGP32Constants       neutral - -
curandMakeMTGP32KernelState     neutral - - - - -

cudnnSetTensor                  library_call handle - - - / async
cudnnActivationForward          library_call handle - - - src - - dst / async
cudnnPoolingForward             library_call handle - - - src - - dst / async
cudnnSoftmaxForward             library_call handle - - - - src - - dst / async
cudnnTransformTensor            library_call handle - - src - - dst / async
cudnnAddTensor                  library_call handle - - src - - inout / async
cudnnOpTensor                   library_call handle - - - src - - src1 - - dst / async
cudnnConvolutionForward         library_call handle - - src - src1 - - - - - - dst / async
cudnnConvolutionBackwardData    library_call handle - - src - src1 - - - - - - dst / async
cudnnConvolutionBackwardFilter  library_call handle - - src - src1 - - - - - - dst / async
cudnnConvolutionBackwardBias    library_call handle - - src - - dst / async
cudnnConvolutionBiasActivationForward library_call handle - - src - src1 - - - - - - src2 - src3 - - dst / async
cudnnBatchNormalizationForwardInference library_call handle - - - - src - dst - src1 src2 src3 src4 - / async
cudnnGetErrorString             neutral -

ncclAllReduce                   library_call src dst - - - - stream / async
ncclReduce                      library_call src dst - - - - - stream / async
ncclBroadcast                   library_call src dst - - - - stream / async
ncclBcast                       library_call dst - - - - stream / async
ncclAllGather                   library_call src dst - - - stream / async
ncclReduceScatter               library_call src dst - - - - stream / async
ncclSend                        library_call src - - - - stream / async
ncclRecv                        library_call dst - - - - stream / async
ncclAlltoAll                    library_call src dst - - - stream / async
ncclGather                      library_call src dst - - - - stream / async
ncclScatter                     library_call src dst - - - - stream / async
ncclPutSignal                   library_call src - - - - - - - - - stream / async
ncclSignal                      library_call - - - - - stream / async
ncclWaitSignal                  library_call - - - stream / async
ncclGroupStart                  neutral
ncclGroupEnd                    neutral
ncclGetUniqueId                 neutral out
ncclCommInitRank                neutral out - - - / may-sync
ncclCommInitRankConfig          neutral out - - - - / may-sync
ncclCommInitAll                 neutral out - - / may-sync
ncclCommDestroy                 neutral - / may-sync
ncclCommFinalize                neutral - / may-sync
ncclCommAbort                   neutral - / may-sync
"""

_LIBRARY = re.compile(
    r"(cublasLt|cublasXt|cublas|cufftXt|cufft|cudnn|curand|cusparse|cusolver(?:Dn|Sp|Rf|Mg)?|nccl)[A-Z]\w*$"
)
# Functions that only make, describe, configure or ask: they neither enqueue nor wait.
_QUIET = re.compile(
    r"Create|Destroy|Get(?!Vector|Matrix)|Set(?!Vector|Matrix|Tensor$)|Init|Descr|Descriptor|bufferSize|BufferSize|"
    r"Workspace|Heuristic|Version|Comm|Config|Attribute|Info|Plan|MemAlloc|MemFree|Estimate|Status|Reserve"
)

# cuBLAS functions whose result is one number.
_SCALAR = re.compile(
    r"(?:[SDCZ]|Sc|Dz|I[sdcz])?(?:[Dd]ot[cu]?|[Nn]rm2|[Aa]sum|[Aa]max|[Aa]min)(?:Ex)?(?:_v2)?(?:_64)?$"
)

# Where the functions of cuBLAS take their arrays, by what their name says they compute: role of argument N.
_BLAS: dict[str, dict[int, str]] = {
    "gemm|gemm3m": {7: "src", 9: "src1", 12: "dst"},
    "gemmEx|gemm3mEx|gemmStridedBatched|gemm3mStridedBatched": {7: "src", 10: "src1", 14: "dst"},
    "gemmStridedBatchedEx": {7: "src", 11: "src1", 16: "dst"},
    "gemv": {5: "src", 7: "src1", 10: "dst"},
    "symv|hemv": {4: "src", 6: "src1", 9: "dst"},
    "symm|hemm": {6: "src", 8: "src1", 11: "dst"},
    "syrk|herk": {6: "src", 9: "dst"},
    "syr2k|her2k|syrkx|herkx": {6: "src", 8: "src1", 11: "dst"},
    "geam": {6: "src", 9: "src1", 11: "dst"},
    "dgmm": {4: "src", 6: "src1", 8: "dst"},
    "ger|geru|gerc": {4: "src", 6: "src1", 8: "inout"},
    "trsm": {8: "src", 10: "inout"},
    "trmm": {8: "src", 10: "src1", 12: "dst"},
    "trsv|trmv": {5: "src", 7: "inout"},
    "axpy": {3: "src", 5: "inout"},
    "scal|dscal|sscal": {3: "inout"},
    "copy": {2: "src", 4: "dst"},
    "swap": {2: "inout", 4: "inout1"},
    "dot|dotu|dotc": {2: "src", 4: "src1", 6: "dst"},
    "nrm2|asum|amax|amin|cnrm2|znrm2|casum|zasum": {2: "src", 4: "dst"},
}
_BLAS_ROLES = {name: roles for names, roles in _BLAS.items() for name in names.split("|")}
_BLAS_NAME = re.compile(r"(?:[SDCZH]|Sc|Dz|Cs|Zd|I[sdcz])?([A-Za-z0-9]+?)(?:_v2)?(?:_64)?$")


def _blas_roles(rest: str) -> tuple[str, ...]:
    """The roles of a cuBLAS function without its prefix, as far as they are known."""
    found = _BLAS_NAME.match(rest)
    stem = found[1] if found else ""
    known = _BLAS_ROLES.get(stem[:1].lower() + stem[1:], {})
    return ("handle", *(known.get(k, f"arg{k}") for k in range(1, max(known, default=0) + 1)))


def guess(name: str) -> tuple[str, tuple[str, ...], tuple[str, ...]] | None:
    """Kind, roles and flags of a library function that has no row, or None when `name` is not a library's."""
    found = _LIBRARY.match(name)
    if found is None:
        return None
    rest = name[len(found.group(1)) :]
    if _QUIET.search(rest):
        roles = ("out",) if rest.startswith("Create") else ("handle",)
        flags = ("library", "may-sync") if "Destroy" in rest and "Descr" not in rest else ("library",)
        return "neutral", roles, flags
    if found.group(1) == "nccl":
        return None  # what communicates has a row; many programs name functions of their own so
    if found.group(1) == "cublas":
        waits = (
            ("may-sync",) if _SCALAR.match(rest) else ()
        )  # O9: waits when the result goes to the host, as it does at first
        return "library_call", _blas_roles(rest), ("library", "async", *waits)
    return "library_call", ("handle",), ("library", "async")
