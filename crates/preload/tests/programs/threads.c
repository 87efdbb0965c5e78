/* More threads than connections, closing and reopening; signal handlers that do I/O themselves. */
#include "common.h"
#include <setjmp.h>

enum { THREADS = 40, ROUNDS = 30, LENGTH = 10000 };

static void *worker(void *argument) {
    int number = (int)(intptr_t)argument;
    static _Thread_local char out[LENGTH], in[LENGTH];
    for (int round = 0; round < ROUNDS; round++) {
        int fd = open("threads", O_RDWR);
        MUST(fd >= 0);
        fill(out, LENGTH, number * 1000 + round);
        MUST(pwrite(fd, out, LENGTH, (off_t)number * LENGTH) == LENGTH);
        MUST(pread(fd, in, LENGTH, (off_t)number * LENGTH) == LENGTH);
        MUST(memcmp(in, out, LENGTH) == 0);
        MUST(close(fd) == 0);
    }
    return NULL;
}

static void many_threads(void) {
    close(open("threads", O_CREAT | O_TRUNC, 0600));
    pthread_t threads[THREADS];
    for (intptr_t n = 0; n < THREADS; n++) MUST(pthread_create(&threads[n], NULL, worker, (void *)n) == 0);
    for (int n = 0; n < THREADS; n++) pthread_join(threads[n], NULL);
}

static int log_fd;
static volatile int handled;

static void handler(int signal) {
    int before = errno;
    (void)signal;
    char text[8];
    MUST(write(log_fd, "tick\n", 5) == 5);
    MUST(pread(log_fd, text, 5, 0) == 5 && memcmp(text, "tick\n", 5) == 0);
    handled++;
    errno = before;
}

static void handlers(void) {
    static char out[LENGTH], in[LENGTH];
    log_fd = open("log", O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
    /* On a stack of their own, with room for the frames of a debug build. */
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    MUST(sigaltstack(&stack, NULL) == 0);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    MUST(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval timer = {{0, 1000}, {0, 1000}};
    MUST(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    int fd = open("interrupted", O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (int round = 0; round < 100000 && handled < 100; round++) {
        fill(out, LENGTH, round);
        MUST(lseek(fd, 0, SEEK_SET) == 0);
        MUST(write(fd, out, LENGTH) == LENGTH);
        MUST(pread(fd, in, LENGTH, 0) == LENGTH);
        MUST(memcmp(in, out, LENGTH) == 0);
    }
    timer = (struct itimerval){{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &timer, NULL);
    struct stat st;
    MUST(fstat(log_fd, &st) == 0 && st.st_size == handled * 5);
    MUST(handled >= 100);
    close(fd);
    close(log_fd);
}

static sigjmp_buf out_of_handler;

static void jumper(int signal) {
    (void)signal;
    siglongjmp(out_of_handler, 1);
}

/* A handler that never returns finds no call half done: the position is between two records. */
static void jumps(void) {
    enum { RECORD = 5000, RECORDS = 100 };
    static char out[RECORD], in[RECORD];
    int fd = open("jumped", O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (int n = 0; n < RECORDS; n++) {
        memset(out, n, RECORD);
        MUST(write(fd, out, RECORD) == RECORD);
    }
    struct sigaction action = {.sa_handler = jumper};
    MUST(sigaction(SIGALRM, &action, NULL) == 0);
    static volatile int jumped;
    for (jumped = 0; jumped < 100;) {
        if (sigsetjmp(out_of_handler, 1)) {
            jumped++;
            MUST(lseek(fd, 0, SEEK_CUR) % RECORD == 0);
        } else {
            struct itimerval timer = {{0, 0}, {0, 300 + jumped * 10}};
            MUST(setitimer(ITIMER_REAL, &timer, NULL) == 0);
            for (;;) {
                ssize_t length = read(fd, in, RECORD);
                MUST(length == 0 || length == RECORD);
                if (length == 0) MUST(lseek(fd, 0, SEEK_SET) == 0);
            }
        }
    }
    close(fd);
}

/* A thread that waits in read can be cancelled, as without the library. */
static void *blocked(void *argument) {
    char text[1];
    read(*(int *)argument, text, 1);
    return NULL;
}

static void cancellation(void) {
    int pipes[2];
    MUST(pipe(pipes) == 0);
    pthread_t thread;
    MUST(pthread_create(&thread, NULL, blocked, &pipes[0]) == 0);
    MUST(pthread_cancel(thread) == 0);
    void *result;
    MUST(pthread_join(thread, &result) == 0);
    MUST(result == PTHREAD_CANCELED);
}

int main(void) {
    many_threads();
    handlers();
    jumps();
    cancellation();
    printf("done\n");
    return 0;
}
