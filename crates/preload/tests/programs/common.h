/* What the test programs share: every call is printed with its result, so that a run under the
   preload library can be compared with one without, byte for byte. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Prints a call, its result, and its errno if it failed; a call that succeeds must leave errno alone. */
#define TRY(call)                                                                              \
    ({                                                                                         \
        errno = 77;                                                                            \
        long result_ = (long)(call);                                                           \
        int errno_ = errno;                                                                    \
        if (result_ == -1)                                                                     \
            printf("%d: %s = -1 errno %d\n", __LINE__, #call, errno_);                          \
        else                                                                                   \
            printf("%d: %s = %ld%s\n", __LINE__, #call, result_, errno_ == 77 ? "" : " ERRNO!"); \
        result_;                                                                               \
    })

/* Ends the program where something that must hold does not. */
#define MUST(condition)                                                        \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno); \
            _exit(1);                                                          \
        }                                                                      \
    } while (0)

static inline void fill(char *buffer, size_t length, unsigned seed) {
    for (size_t n = 0; n < length; n++) buffer[n] = (char)(seed * 131 + n * 7 + n / 251);
}

static inline unsigned long sum(const char *buffer, size_t length) {
    unsigned long hash = 14695981039346656037ul;
    for (size_t n = 0; n < length; n++) hash = (hash ^ (unsigned char)buffer[n]) * 1099511628211ul;
    return hash;
}

/* Waits for all children and ends the program if one failed. */
static inline void reap(void) {
    int status;
    while (wait(&status) > 0) MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
