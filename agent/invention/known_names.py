"""What code that a model writes may use beside the program's own names, and what it may not bring in by any name.

Both are lists of what is allowed or meant: a name that stands in neither is refused as unknown, so that the next way into the
operating system needs no entry here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# --------------------------------------------------------------------------------------------------------------- includes

INCLUDES = _words("""
    cuda_runtime.h cuda_runtime_api.h device_launch_parameters.h cuda_fp16.h cuda_fp16.hpp cuda_bf16.h cuda_bf16.hpp cuda_fp8.h
    cuda_pipeline.h cuda_pipeline_primitives.h cuda_awbarrier.h cooperative_groups.h cooperative_groups/reduce.h
    cooperative_groups/scan.h cooperative_groups/memcpy_async.h mma.h vector_types.h vector_functions.h math_constants.h
    device_functions.h sm_61_intrinsics.h cuComplex.h
    algorithm array bit bitset cassert cfloat climits cmath complex concepts cstddef cstdint cstring deque functional
    initializer_list iterator limits list map memory new numbers numeric optional queue ratio set span stack stdexcept string
    string_view tuple type_traits unordered_map unordered_set utility valarray variant vector
    math.h float.h limits.h stdint.h stddef.h string.h
    """)
_INCLUDE_FOLDERS = ("cub/", "thrust/", "cuda/std/")
_INCLUDES_OF_CUDA = _words("cuda/atomic cuda/barrier cuda/pipeline cuda/annotated_ptr cuda/cmath cuda/ptx")


def include_allowed(name: str) -> bool:
    """Whether a header that is not the program's own may be included anew; `name` without its brackets."""
    if ".." in name or "\\" in name or name.startswith("/"):
        return False
    return name in INCLUDES or name in _INCLUDES_OF_CUDA or name.startswith(_INCLUDE_FOLDERS)


# ------------------------------------------------------------------------------------------------------------------ words

KEYWORDS = _words("""
    alignas alignof and and_eq auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl concept const
    consteval constexpr constinit const_cast continue decltype default delete do double dynamic_cast else enum explicit export
    extern false final float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq
    override private protected public register reinterpret_cast requires return short signed sizeof static static_assert static_cast
    struct switch template this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile
    wchar_t while xor xor_eq
    __global__ __device__ __host__ __shared__ __constant__ __managed__ __restrict__ __restrict __forceinline__ __noinline__
    __inline__ __align__ __launch_bounds__ __grid_constant__ __cluster_dims__ __maxnreg__ __attribute__ __volatile__ __const__
    __func__ asm __asm __asm__ defined define include pragma unroll once ifdef ifndef elif endif undef line error warning
    """)
ATTRIBUTES = _words(
    "nodiscard maybe_unused likely unlikely fallthrough noreturn aligned __aligned__ packed unused always_inline noinline"
)
CONDITIONS = _words("__CUDA_ARCH__ __CUDACC__ __cplusplus")  # that a new `#if` inside device code may ask

_MATHS = _words("""
    abs acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh cospi cyl_bessel_i0 cyl_bessel_i1 erf erfc erfcinv erfcx
    erfinv exp exp10 exp2 expm1 fabs fdim fdivide floor fma fmax fmin fmod frexp hypot ilogb isfinite isinf isnan j0 j1 ldexp lgamma
    log log10 log1p log2 logb max min modf nearbyint nextafter norm norm3d norm4d normcdf normcdfinv pow rcbrt remainder remquo rint
    rhypot rnorm rnorm3d rnorm4d round rsqrt scalbn signbit sin sincos sincospi sinh sinpi sqrt tan tanh tgamma trunc y0 y1 lrint
    llrint lround llround labs llabs
""")
_PLAIN = (
    _MATHS
    | frozenset(f"{name}f" for name in _MATHS)
    | _words("""
        umin umax llmin llmax ullmin ullmax
        threadIdx blockIdx blockDim gridDim warpSize dim3 tex1D tex2D tex3D tex1Dfetch
        size_t ssize_t ptrdiff_t intptr_t uintptr_t int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t uint ushort
        uchar ulong NULL INFINITY NAN HUGE_VAL HUGE_VALF M_PI M_PI_2 M_PI_4 M_E M_LOG2E M_LOG10E M_LN2 M_LN10 M_SQRT2 M_SQRT1_2
        M_2_SQRTPI memcpy memset memmove memcmp assert main std cub thrust cooperative_groups cuda nvcuda wmma
        half half2 nv_bfloat16 nv_bfloat162 __half __half2 __nv_bfloat16 __nv_bfloat162 cuComplex cuDoubleComplex cuFloatComplex
        this_thread_block this_grid this_cluster tiled_partition coalesced_threads thread_block thread_block_tile thread_group
        grid_group cluster_group coalesced_group reduce plus less greater memcpy_async wait_prior
        CUDART_VERSION CUDA_VERSION __CUDA_ARCH__ __CUDACC__ __cplusplus __VA_ARGS__ __VA_OPT__
        """)
)
_PATTERN = re.compile(
    r"""
    (?:make_)?(?:u?(?:char|short|int|long|longlong)|float|double|half|ulonglong|ulong)[1234](?:_16a|_32a)?
  | atomic(?:Add|Sub|Exch|Min|Max|Inc|Dec|CAS|And|Or|Xor)(?:_block|_system)?
  | __[fd](?:add|sub|mul|div|ma|maf|rcp|sqrt|rsqrt|fma|divide)f?(?:_ieee)?(?:_r[nzud])?
  | __(?:fma|fmul|fadd|fsub|fdiv|frcp|fsqrt|frsqrt|fmaf)(?:_ieee)?_r[nzud] | __fmaf_ieee_r[nzud] | __saturatef
  | __(?:sin|cos|tan|exp|exp10|log|log2|log10|pow|sincos|fdivide)f
  | __u?(?:mul24|mulhi|mul64hi|sad|hadd|rhadd) | __ull?mulhi | __(?:popc|clz|ffs|brev)(?:ll)? | __byte_perm | __funnelshift_\w+
  | __dp[24]a\w* | __\w+2\w+_r[nzud] | __\w+_as_\w+ | __(?:half|float|bfloat16|bfloat162|half2|double|int|uint|short|ushort|ll|ull)\w*2\w+
  | __(?:shfl|shfl_up|shfl_down|shfl_xor|all|any|ballot|match_any|match_all|reduce_(?:add|min|max|and|or|xor))_sync
  | __activemask | __syncwarp | __syncthreads(?:_count|_and|_or)? | __threadfence(?:_block|_system)?
  | __ld(?:g|cg|ca|cs|lu|cv) | __st(?:wb|cg|cs|wt) | __pipeline_(?:memcpy_async|commit|wait_prior|arrive_on) | __cvta_\w+
  | __hiloint2double | __vi[ab]?(?:add|max|min)\w* | __viaddm\w+
  | __is(?:Shared|Global|Constant|Local|Grid) | __h(?:2|add|sub|mul|fma|div|max|min|abs|neg|eq|ne|le|lt|ge|gt|isnan|isinf)\w*
  | __(?:low|high|lows|highs|halves)\w*2\w+ | __v(?:add|sub|abs|abs2|max|min|set|cmp|avg|neg|sad)\w*[24s]?
  | h2?(?:exp|exp2|exp10|log|log2|log10|sqrt|rsqrt|rcp|sin|cos|floor|ceil|rint|trunc|tanh)
  | (?:U?(?:INT|INT8|INT16|INT32|INT64|SIZE|CHAR|SHRT|LONG|LLONG)|USHRT|FLT|DBL|LDBL)_(?:MAX|MIN|EPSILON|DIG|MANT_DIG|MAX_EXP|MIN_EXP)
  | FLT_(?:RADIX|TRUE_MIN) | CUDART_\w+ | cuC(?:add|sub|mul|div|real|imag|abs|onj|fma)f? | make_cu\w*Complex
    """,
    re.VERBOSE,
)
STANDARD = _words("""
    abs accumulate adjacent_find advance all_of any_of apply array as_const back_inserter basic_string begin bit_cast bool_constant
    byte cbegin ceil cend clamp common_type common_type_t complex conditional conditional_t conj constructible_from convertible_to
    copy copy_if copy_n count count_if countl_zero countr_zero cos data decay decay_t declval deque distance div divides empty
    enable_if enable_if_t end equal equal_to erase exception exchange exclusive_scan exp fabs false_type fill fill_n find find_if
    floating_point floor fma fmax fmin for_each forward forward_list function generate get gcd greater greater_equal hash
    has_single_bit holds_alternative identity imag inclusive_scan index_sequence initializer_list inner_product inplace_merge
    input_iterator insert int8_t int16_t int32_t int64_t integral integral_constant integer_sequence invalid_argument invoke
    invoke_result_t iota is_arithmetic is_arithmetic_v is_base_of is_base_of_v is_const is_const_v is_constant_evaluated is_enum_v
    is_floating_point is_floating_point_v is_integral is_integral_v is_pointer_v is_same is_same_v is_signed_v is_sorted is_trivial_v
    is_trivially_copyable is_trivially_copyable_v is_unsigned_v is_void_v isfinite isinf isnan iter_swap iterator_traits launder lcm
    length_error less less_equal lexicographical_compare list log log2 logic_error logical_and logical_or lower_bound
    make_index_sequence make_integer_sequence make_move_iterator make_optional make_pair make_shared make_tuple make_unique map max
    max_element memcpy memmove memset merge min min_element minmax minmax_element minus modulus monostate move move_backward
    multimap multiplies multiset negate next next_permutation none_of norm not_equal_to nth_element nullopt nullptr_t numbers
    numeric_limits optional out_of_range overflow_error pair partial_sort partial_sum partition pi plus popcount pow prev
    priority_queue ptrdiff_t queue random_access_iterator range_error rank ranges real reduce ref reference_wrapper remainder remove_const_t
    remove_cv remove_cv_t remove_cvref_t remove_pointer_t remove_reference remove_reference_t replace reverse reverse_iterator rint
    rotate round runtime_error same_as search set shared_ptr shuffle sin size size_t sort span sqrt stable_sort stack string
    string_view string_literals swap swap_ranges tan tanh tie to_string transform transform_reduce true_type trunc tuple tuple_cat
    tuple_element tuple_element_t tuple_size tuple_size_v u8string uint8_t uint16_t uint32_t uint64_t underlying_type_t
    uninitialized_copy unique unique_ptr unordered_map unordered_multimap unordered_set upper_bound valarray variant vector visit void_t
    weak_ptr wstring literals max_size copy_backward remove_if bad_alloc in_place_t type_identity_t
    """)
_TRAITS = re.compile(
    r"(?:is|has)_[a-z_]+|(?:add|remove)_(?:const|cv|volatile|pointer|extent|all_extents|[lr]value_reference|reference|cvref)(?:_t)?"
    r"|make_(?:un)?signed(?:_t)?|aligned_storage(?:_t)?|aligned_union(?:_t)?|alignment_of(?:_v)?|extent(?:_v)?|negation(?:_v)?"
    r"|(?:con|dis)junction(?:_v)?|conditional(?:_t)?|type_identity(?:_t)?|invoke_result(?:_t)?|underlying_type(?:_t)?|common_reference(?:_t)?"
)


def standard(word: str) -> bool:
    """A name of the C++ library that is about numbers, containers, algorithms or types."""
    return word in STANDARD or _TRAITS.fullmatch(word) is not None


ROOTS = _words("thrust cub cooperative_groups cg nvcuda wmma cuda")  # whose members are all about device code

_CUDA = re.compile(r"cuda[A-Z]\w*")
_CUDA_DENIED = re.compile(
    r"cuda\w*(?:Reset$|Profiler|Ipc|External|Export|Import|DriverEntryPoint|Library|Module|LaunchHostFunc|HostNode|AddCallback"
    r"|SetDevice|ValidDevices|DeviceSetLimit|DeviceSetCacheConfig|GL|EGL|D3D|VDPAU|Graphics|Persist|Coredump|Log|UserObject"
    r"|ElapsedTime|PeerAccess|DebugDot|InitDevice|ThreadExit|SetFlags|SharedMemConfig|AccessPolicy|StreamSetAttribute|SetMempool"
    r"|DeviceSetMemPool|EnableLegacy|GreenCtx|ExecutionCtx|DevResource|DevSm|Checkpoint)"
)
_LIBRARY = re.compile(r"(?:cublas|CUBLAS|cufft|CUFFT|cusparse|CUSPARSE|curand|CURAND|cudnn|CUDNN|cusolver|CUSOLVER)\w*")
_LIBRARY_DENIED = re.compile(r"\w*(?:Logger|Callback|File|Xt)\w*")


@lru_cache(maxsize=4096)
def allowed(word: str) -> bool:
    """A name of the language, of CUDA or of C that new code may use."""
    if word in KEYWORDS or word in _PLAIN or _PATTERN.fullmatch(word):
        return True
    return _CUDA.fullmatch(word) is not None and denied_cuda(word) == ""


def of_library(word: str, included: frozenset[str]) -> bool:
    """A name of a CUDA library that the program includes already."""
    match = _LIBRARY.fullmatch(word)
    if match is None or _LIBRARY_DENIED.fullmatch(word):
        return False
    family = re.split(r"[A-Z_]", word.lower() if word.isupper() else word)[0]
    return any(name.rpartition("/")[2].lower().startswith(family[:6]) for name in included)


def denied_cuda(word: str) -> str:
    """The kind of a CUDA call that reaches beyond the program's own device work, "" for the others."""
    if _CUDA_DENIED.match(word):
        return "timer" if word.endswith("ElapsedTime") else "device"
    return ""


# ----------------------------------------------------------------------------------------------------------------- denied

_KINDS: Mapping[str, str] = {
    "process": """
        system popen _popen fork vfork clone execl execlp execle execv execvp execvpe execve fexecve posix_spawn posix_spawnp waitpid
        _exit _Exit quick_exit atexit at_quick_exit on_exit daemon ptrace prctl syscall __syscall setrlimit sched_setaffinity
        CreateProcess WinExec ShellExecute wordexp longjmp setjmp _longjmp _setjmp siglongjmp sigsetjmp set_terminate getpid getppid
        execveat posix_spawnattr_init posix_spawn_file_actions_init killpg tgkill pidfd_open pidfd_send_signal pidfd_getfd unshare setns
        waitid wait3 wait4 setuid setgid seteuid setegid setreuid setregid setresuid setresgid setfsuid setfsgid setgroups initgroups
        setsid setpgid setpgrp setpriority sched_setscheduler sched_setparam sched_setattr pivot_root chroot umount umount2 reboot
        process_vm_readv process_vm_writev process_madvise process_mrelease init_module delete_module finit_module create_module modify_ldt
        arch_prctl ioperm setcontext makecontext swapcontext getcontext prlimit vhangup swapon swapoff forkpty pthread_exit pthread_atfork
        setdomainname sethostname sethostid quotactl klogctl wordfree sysctl ulimit
        __libc_start_main __libc_system _start _init _fini __builtin_trap __builtin_longjmp __builtin_setjmp __cxa_atexit getrusage
    """,
    "network": """
        socket socketpair accept4 sendto sendmsg recvfrom recvmsg getaddrinfo gethostbyname gethostname inet_pton inet_addr htons
        curl_easy_init setsockopt getsockopt
        recvmmsg sendmmsg getnameinfo getaddrinfo_a getpeername getsockname gethostbyaddr gethostbyname2 getifaddrs getdomainname
    """,
    "file": """
        FILE fopen fopen64 freopen fdopen open64 openat creat pread pwrite readv writev fread fwrite fgets fgetc getc getchar gets
        scanf fscanf vscanf vfscanf fseek ftell fclose fflush setvbuf setbuf ifstream ofstream fstream filebuf basic_ifstream
        basic_ofstream basic_fstream filesystem opendir readdir mkdir rmdir unlink symlink readlink fstat lstat chmod chown tmpfile
        tmpnam mkstemp mkdtemp mktemp truncate ftruncate mmap mmap64 munmap mprotect mremap shm_open sem_open ioctl fcntl dup2
        epoll_create inotify_init random_device sendfile stdin cin wcin iopl
        unlinkat renameat renameat2 linkat symlinkat mkdirat mknod mknodat mkfifo mkfifoat readlinkat fchmod fchmodat lchmod fchown fchownat
        lchown fchdir chdir fstatat statx faccessat euidaccess eaccess utime utimes lutimes futimes futimens futimesat utimensat tempnam
        tmpnam_r mkostemp mkostemps mkstemps open_memstream open_wmemstream fmemopen fopencookie open_tree open_by_handle_at
        name_to_handle_at copy_file_range sync_file_range syncfs fdatasync fallocate posix_fallocate posix_fadvise readahead fcloseall
        fileno fgetpos fsetpos fseeko ftello ungetc ungetwc getdelim getw getwc fgetwc fgetws getwchar fwscanf wscanf vwscanf vfwscanf
        fputs_unlocked preadv preadv2 pwritev pwritev2 vmsplice closefrom close_range dup3 pipe2 fpathconf pathconf scandir scandirat
        fdopendir telldir seekdir rewinddir realpath canonicalize_file_name getxattr setxattr lsetxattr fsetxattr removexattr shmat shmget
        shmctl shmdt shm_unlink msgget msgsnd msgrcv msgctl mq_open mq_send mq_receive mq_unlink semget semop semctl lockf
        aio_read aio_write lio_listio posix_openpt grantpt unlockpt ptsname openpty inotify_init1 inotify_add_watch fanotify_init
        epoll_create1 epoll_ctl epoll_wait pselect ppoll msync remap_file_pages madvise posix_madvise mlock mlock2 mlockall sbrk
        fsopen fsmount move_mount mount_setattr getentropy getrandom
    """,
    "environment": """
        getenv secure_getenv setenv putenv unsetenv clearenv environ __environ _environ envp getauxval program_invocation_name
        program_invocation_short_name __progname uname sysconf backtrace dl_iterate_phdr getpwuid getcwd getwd
        get_current_dir_name getpwnam getgrgid getlogin getlogin_r getuid geteuid getgid getegid gettid getpgid getpgrp getsid getpass
        getrlimit sysinfo getloadavg sched_getaffinity sched_getcpu getcpu confstr setlocale localeconv gethostid ttyname ttyname_r isatty
        __argv __argc _dl_argv
    """,
    "loading": """
        dlopen dlsym dlmopen dladdr dladdr1 dlinfo dlvsym dlclose LoadLibrary LoadLibraryA GetProcAddress cuModuleLoad cuModuleLoadData cuLibraryLoadData
        cuGetProcAddress cuGetExportTable cudaGetExportTable nvrtcCompileProgram nvrtcCreateProgram cuLinkCreate
    """,
    "signal": "bsd_signal sysv_signal sigqueue sigsuspend sigwait sigset timerfd_create timerfd_settime timer_settime sigaction sigprocmask setitimer timer_create pthread_kill sigaltstack signalfd eventfd ualarm",
    "timer": """
        clock_gettime gettimeofday clock64 times usleep nanosleep sleep_for sleep_until __nanosleep chrono steady_clock system_clock
        high_resolution_clock clock_settime settimeofday timespec_get globaltimer __rdtsc _rdtsc rdtsc __builtin_ia32_rdtsc
        __builtin_readcyclecounter clock_getres clock_nanosleep clock_adjtime
        adjtimex adjtime ftime stime timespec_getres getitimer __TIME__ __DATE__ __TIMESTAMP__ __FILE__ __BASE_FILE__ __COUNTER__ __INCLUDE_LEVEL__
    """,
    "thread": "pthread_create pthread_cancel thrd_exit thrd_sleep sched_yield jthread std_thread thrd_create promise packaged_task condition_variable omp_set_num_threads",
    "output": """
        printf fprintf vprintf vfprintf dprintf vdprintf puts fputs fputc putc putchar putchar_unlocked perror cout cerr clog wcout
        wcerr stdout stderr syslog vsyslog
        fputc_unlocked putc_unlocked fwrite_unlocked fputwc fputws putwc putwchar wprintf fwprintf vwprintf vfwprintf putw psiginfo
        ostream osyncstream basic_ostream psignal error_at_line __assert_fail
    """,
}
DENIED: Mapping[str, str] = {
    name: kind for kind, words in _KINDS.items() for word in words.split() for name in (word, f"{word}64")
}

# Plain English that programs use for names of their own: these are meant only where they are called or handed on.
_AMBIGUOUS_KINDS: Mapping[str, str] = {
    "process": "wait kill raise abort exit nice pause terminate mount personality acct",
    "network": "connect bind listen accept send recv shutdown",
    "file": "open close read write remove rename link stat access pipe select poll dup rewind getline splice lseek fsync sync tee glob flock",
    "signal": "signal alarm",
    "timer": "clock time sleep",
    "thread": "thread async future",
    "output": "print println write_line",
}
AMBIGUOUS: Mapping[str, str] = {word: kind for kind, words in _AMBIGUOUS_KINDS.items() for word in words.split()}

# What PTX may do in new inline assembly: arithmetic, conversions, memory of the kernel, and waiting for its own block.
PTX = _words("""
    abs add addc and atom bar barrier bfe bfi bfind bmsk brev clz cnot copysign cos cp createpolicy cvt cvta div dp2a dp4a elect ex2
    fence fma fns isspacep ld ldmatrix ldu lg2 lop3 mad mad24 madc mapa match max mbarrier membar min mma mov movmatrix mul mul24
    multimem neg not or popc prefetch prefetchu prmt rcp red redux rem rsqrt sad selp set setp shf shfl shl shr sin slct sqrt st
    stmatrix sub subc szext tanh testp vote wgmma xor activemask griddepcontrol cvt discard applypriority
    """)

_OF_C = _words(
    """
    memcpy memset memmove memcmp memchr malloc calloc realloc free aligned_alloc posix_memalign strlen strcmp strncmp strcpy strncpy
    strcat strchr strrchr strstr strtok strdup strtol strtoul strtoll strtoull strtod strtof atoi atol atoll atof sprintf snprintf
    vsnprintf sscanf isdigit isalpha isspace isalnum toupper tolower bsearch qsort rand srand drand48 srand48
    """
)


_OF_CUDA = re.compile(
    r"cuda[A-Z]\w*|cu(?:Array|Coredump|Ctx|Device|Driver|Event|External|Flush|Func|Get|Graph|Green|Import|Init|Ipc|Kernel|Launch|Library"
    r"|Link|Mem|Memcpy|Memset|Mipmapped|Module|Multicast|Occupancy|Param|Pointer|Profiler|Stream|Surf|Tensor|Tex|Thread|User)(?:[A-Z]\w*)?"
    r"|threadIdx|blockIdx|blockDim|gridDim|warpSize|dim3|__\w+|(?:cublas|cudnn|cufft|curand|cusparse|cusolver)[A-Z]\w*"
    r"|atomic(?:Add|Sub|Exch|Min|Max|Inc|Dec|CAS|And|Or|Xor)(?:_block|_system)?"
)


def is_of_cuda(name: str) -> bool:
    """A name that CUDA's own headers have, or may have: two leading underscores are the compiler's."""
    return _OF_CUDA.fullmatch(name) is not None


def is_of_c(name: str) -> bool:
    """A function of C that a program's own function of that name would stand in for."""
    return name in _OF_C or name in _MATHS or (name.endswith("f") and name[:-1] in _MATHS)
