/* A steady load: threads that read or write blocks at random places of one file or of many, one call
 * at a time each. Once every thread has done one call it says "ready"; then every number on standard
 * input is a count of calls that the threads share out, answered with "done", and 0 means without end.
 *
 * "scan" reads block after block, each thread the next.
 *
 *   load read|write|scan FILE FILES BLOCK_BYTES FILE_BLOCKS THREADS
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int *files;
static int file_count, is_write, is_scan;
static long next_block;
static size_t block_bytes;
static unsigned file_blocks;
static long left;
static int is_endless;
static pthread_barrier_t barrier;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void call(uint64_t *state, char *block) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    int file = files[(*state >> 33) % (unsigned)file_count];
    off_t block_number = (off_t)((*state >> 40) % file_blocks);
    if (is_scan)
        block_number = __atomic_fetch_add(&next_block, 1, __ATOMIC_RELAXED) % file_blocks;
    off_t at = block_number * (off_t)block_bytes;
    ssize_t moved = is_write ? pwrite(file, block, block_bytes, at) : pread(file, block, block_bytes, at);
    if (moved != (ssize_t)block_bytes)
        fail(is_write ? "pwrite" : "pread");
}

static void *work(void *number) {
    uint64_t state = 88172645463325252u * ((uintptr_t)number + 1);
    char *block = malloc(block_bytes);
    memset(block, 7, block_bytes);
    call(&state, block);
    pthread_barrier_wait(&barrier);
    for (;;) {
        pthread_barrier_wait(&barrier);
        while (is_endless || __atomic_fetch_sub(&left, 1, __ATOMIC_RELAXED) > 0)
            call(&state, block);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 7)
        return 2;
    is_write = strcmp(argv[1], "write") == 0;
    is_scan = strcmp(argv[1], "scan") == 0;
    file_count = atoi(argv[3]);
    block_bytes = (size_t)atol(argv[4]);
    file_blocks = (unsigned)atoi(argv[5]);
    int threads = atoi(argv[6]);
    files = calloc((size_t)file_count, sizeof *files);
    for (int n = 0; n < file_count; n++) {
        char path[4096];
        snprintf(path, sizeof path, file_count > 1 ? "%s.%d" : "%s", argv[2], n);
        files[n] = open(path, O_RDWR | O_CREAT, 0666);
        if (files[n] < 0 || ftruncate(files[n], (off_t)block_bytes * file_blocks) != 0)
            fail(path);
    }
    pthread_barrier_init(&barrier, NULL, (unsigned)threads + 1);
    for (intptr_t n = 0; n < threads; n++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, (void *)n) != 0)
            fail("pthread_create");
    }
    pthread_barrier_wait(&barrier);
    puts("ready");
    fflush(stdout);
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        left = atol(line);
        is_endless = left == 0;
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        puts("done");
        fflush(stdout);
    }
    return 0;
}
