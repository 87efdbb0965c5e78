/* What the compiler's own library does to order threads, in the sanitizer's words: that library comes
 * compiled and is not instrumented. What is inlined from it into our code is, so a lock that is free, an
 * atomic or a channel need nothing; here is what it keeps inside. scripts/sanitize has the linker call
 * these in place of the real ones, whose names it hands over. */
#include <stdbool.h>
#include <stdint.h>

void __tsan_acquire(void *address);
void __tsan_release(void *address);

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define REAL(name) JOIN(__real_, name)
#define WRAP(name) JOIN(__wrap_, name)

/* Mutex: waits for one that somebody has. */
void REAL(LOCK_CONTENDED)(void *mutex);
void WRAP(LOCK_CONTENDED)(void *mutex)
{
    REAL(LOCK_CONTENDED)(mutex);
    __tsan_acquire(mutex);
}

/* Condvar: lets go of the mutex, and has it again. */
void REAL(CONDVAR_WAIT)(void *condvar, void *mutex);
void WRAP(CONDVAR_WAIT)(void *condvar, void *mutex)
{
    __tsan_release(mutex);
    REAL(CONDVAR_WAIT)(condvar, mutex);
    __tsan_acquire(mutex);
}

bool REAL(CONDVAR_WAIT_TIMEOUT)(void *condvar, void *mutex, uint64_t secs, uint32_t nanos);
bool WRAP(CONDVAR_WAIT_TIMEOUT)(void *condvar, void *mutex, uint64_t secs, uint32_t nanos)
{
    __tsan_release(mutex);
    bool is_woken = REAL(CONDVAR_WAIT_TIMEOUT)(condvar, mutex, secs, nanos);
    __tsan_acquire(mutex);
    return is_woken;
}

/* Once: the first does it, the others wait for that. */
void REAL(ONCE_CALL)(void *once, bool ignores_poison, void *function, void *functions);
void WRAP(ONCE_CALL)(void *once, bool ignores_poison, void *function, void *functions)
{
    REAL(ONCE_CALL)(once, ignores_poison, function, functions);
    __tsan_release(once);
    __tsan_acquire(once);
}
