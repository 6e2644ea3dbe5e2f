/* What compiled functions begin with: one that would use up the stack of its thread fails with RecursionError instead, as an
   interpreted one does. mypyc counts no calls. Included in each C file; the one that defines STACK_LIMIT_HERE holds the code. */
#include <Python.h>
#include <stdint.h>

#if defined(_MSC_VER)
#define STACK_LIMIT __declspec(thread)
#elif defined(__linux__)
#define STACK_LIMIT __thread __attribute__((visibility("hidden"), tls_model("initial-exec")))
#else
#define STACK_LIMIT __thread
#endif

extern STACK_LIMIT char *stack_limit; /* of this thread; the highest address there is until it is known */
int stack_is_used_up(char *here);

#define CHECK_STACK(failure)                                       \
    do {                                                           \
        char here;                                                 \
        if (&here < stack_limit && stack_is_used_up(&here)) {      \
            return failure;                                        \
        }                                                          \
    } while (0)

#ifdef STACK_LIMIT_HERE
#if defined(_WIN32)
#include <windows.h>
#else
#include <pthread.h>
#endif

#define LEFT_TO_OTHERS (256 << 10) /* bytes: the interpreter, the parser, C libraries */
#define ASSUMED (256 << 10)        /* bytes there are where the system does not tell */

STACK_LIMIT char *stack_limit = (char *)UINTPTR_MAX;

static char *lowest_address(char *here) {
#if defined(_WIN32)
    ULONG_PTR low, high;
    GetCurrentThreadStackLimits(&low, &high);
    return (char *)low;
#elif defined(__APPLE__)
    return (char *)pthread_get_stackaddr_np(pthread_self()) - pthread_get_stacksize_np(pthread_self());
#else
#if defined(__linux__)
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        void *low = NULL;
        size_t size = 0;
        int known = pthread_attr_getstack(&attributes, &low, &size) == 0;
        pthread_attr_destroy(&attributes);
        if (known && (char *)low < here) {
            return (char *)low;
        }
    }
#endif
    return here - ASSUMED - LEFT_TO_OTHERS;
#endif
}

int stack_is_used_up(char *here) {
    if (stack_limit == (char *)UINTPTR_MAX) {
        stack_limit = lowest_address(here) + LEFT_TO_OTHERS;
        if (here >= stack_limit) {
            return 0;
        }
    }
    PyErr_SetString(PyExc_RecursionError, "the stack is used up");
    return 1;
}
#endif
