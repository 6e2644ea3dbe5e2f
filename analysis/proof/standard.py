"""What a file can call without its code being here, when it includes the standard library and CUDA alone.

A name that the program neither defines nor declares then comes from one of those headers, and no function of the standard
library touches the device.
"""

from __future__ import annotations

from stitchcuda.analysis.program.ir import Program

_CXX = (
    "algorithm any array atomic barrier bit bitset cassert cctype cerrno cfenv cfloat charconv chrono cinttypes climits clocale"
    " cmath codecvt compare complex concepts condition_variable csetjmp csignal cstdarg cstddef cstdint cstdio cstdlib"
    " cstring ctime cuchar cwchar cwctype deque exception execution expected filesystem format forward_list fstream functional"
    " future initializer_list iomanip ios iosfwd iostream istream iterator latch limits list locale map memory memory_resource"
    " mutex new numbers numeric optional ostream print queue random ranges ratio regex scoped_allocator semaphore set"
    " shared_mutex source_location span sstream stack stdexcept stop_token streambuf string string_view syncstream"
    " system_error thread tuple type_traits typeindex typeinfo unordered_map unordered_set utility valarray variant vector"
    " version"
)
_C = (
    "assert complex ctype errno fenv float inttypes limits locale math setjmp signal stdalign stdarg stdbool stddef stdint"
    " stdio stdlib string time uchar wchar wctype"
    " dirent fcntl getopt libgen strings unistd sys/mman sys/resource sys/stat sys/time sys/types"
)
_CUDA = (
    "cuda cuda_runtime cuda_runtime_api cuda_fp16 cuda_bf16 cuda_fp8 cuComplex device_launch_parameters cooperative_groups"
    " driver_types vector_types math_constants device_functions"
)
STANDARD = frozenset(_CXX.split()) | frozenset(f"{name}.h" for name in f"{_C} {_CUDA}".split())


class Standard:
    """Which files of a program see nothing else. Memoised."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._files: dict[str, bool] = {}

    def sees_only(self, path: str) -> bool:
        """All headers that a file includes, directly or not, are of the standard library, of CUDA, or here."""
        known = self._files.get(path)
        if known is None:
            seen = self._program.visible.get(path, frozenset({path}))
            known = self._files[path] = all(
                self._here_or_standard(include, seen) for p in seen for include in self._of(p)
            )
        return known

    def declares(self, name: str) -> bool:
        """The program declares a function of that name, or defines one."""
        return name in self._program.declarations or name in self._program.by_name

    def _of(self, path: str) -> tuple[str, ...]:
        module = self._program.modules.get(path)
        return module.includes if module is not None else ()

    def _here_or_standard(self, include: str, seen: frozenset[str]) -> bool:
        if include in STANDARD:
            return True
        last = include.rsplit("/", 1)[-1]
        return any(path.rsplit("/", 1)[-1] == last for path in seen)
