// Random operations on one file, checked after each against a model in memory.
//
// usage: random_ops FILE SEED OPERATIONS [append]
//
// Knows nothing of Forebay. Exits with 0 when every result and every byte was as the model says;
// otherwise says which operation of which seed differed.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE_MAX_ = 6 << 20, CALL_MAX = 300 << 10 };

static unsigned char model[SIZE_MAX_], out[CALL_MAX], in[CALL_MAX];
static size_t size;
static uint64_t state, seed;
static long step;

static uint64_t random64(void) {
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static size_t below(size_t n) { return n ? random64() % n : 0; }

static void fail(const char *what, long got, long expected) {
    fprintf(stderr, "seed %llu, operation %ld: %s: got %ld, expected %ld (errno %d)\n",
            (unsigned long long)seed, step, what, got, expected, errno);
    exit(1);
}

static void expect(const char *what, long got, long expected) {
    if (got != expected) fail(what, got, expected);
}

static size_t length(void) {
    switch (below(4)) {
    case 0: return 1 + below(16);
    case 1: return 1 + below(4096);
    case 2: return 1 + below(32768);
    default: return 1 + below(CALL_MAX - 1);
    }
}

static void fill(size_t n) {
    uint64_t word = random64();
    for (size_t i = 0; i < n; i++) out[i] = (unsigned char)(word >> (i % 8 * 8)) + (unsigned char)i;
}

static void model_write(size_t at, size_t n) {
    if (at > size) memset(model + size, 0, at - size);
    memcpy(model + at, out, n);
    if (at + n > size) size = at + n;
}

static size_t model_read(size_t at, size_t n) { return at >= size ? 0 : n < size - at ? n : size - at; }

static void check_read(const char *what, ssize_t got, size_t at, size_t n) {
    size_t expected = model_read(at, n);
    expect(what, got, (long)expected);
    if (memcmp(in, model + at, expected) != 0) fail("bytes differ", 0, 0);
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    seed = state = strtoull(argv[2], NULL, 10);
    long steps = atol(argv[3]);
    int append = argc > 4;
    int fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC | (append ? O_APPEND : 0), 0644);
    if (fd < 0) return 2;
    size_t pos = 0;
    for (step = 0; step < steps; step++) {
        size_t n = length();
        size_t at = below(SIZE_MAX_ - CALL_MAX);
        size_t half = n / 2;
        struct iovec parts_in[2] = {{in, half}, {in + half, n - half}};
        struct iovec parts_out[2] = {{out, half}, {out + half, n - half}};
        if (append && size + n > SIZE_MAX_ / 2) {
            expect("ftruncate", ftruncate(fd, 0), 0);
            size = 0;
        }
        switch (below(append ? 8 : 14)) {
        case 0:
            check_read("pread", pread(fd, in, n, (off_t)at), at, n);
            break;
        case 1:
            if (append) at = size; else if (pos + n > SIZE_MAX_ - CALL_MAX) pos = below(size), lseek(fd, (off_t)pos, SEEK_SET); 
            if (!append) at = pos;
            fill(n);
            expect("write", write(fd, out, n), (long)n);
            model_write(at, n);
            pos = at + n;
            break;
        case 2:
            check_read("read", read(fd, in, n), pos, n);
            pos += model_read(pos, n);
            break;
        case 3:
            pos = below(size + 10);
            expect("lseek", lseek(fd, (off_t)pos, SEEK_SET), (long)pos);
            break;
        case 4:
            expect("position", lseek(fd, 0, SEEK_CUR), (long)pos);
            break;
        case 5:
            check_read("preadv", preadv(fd, parts_in, 2, (off_t)at), at, n);
            break;
        case 6:
            if (append) at = size; else if (pos + n > SIZE_MAX_ - CALL_MAX) pos = below(size), lseek(fd, (off_t)pos, SEEK_SET);
            if (!append) at = pos;
            fill(n);
            expect("writev", writev(fd, parts_out, 2), (long)n);
            model_write(at, n);
            pos = at + n;
            break;
        case 7: {
            struct stat st;
            expect("fstat", fstat(fd, &st), 0);
            expect("size", (long)st.st_size, (long)size);
            expect("fsync", below(2) ? fsync(fd) : fdatasync(fd), 0);
            break;
        }
        case 8:
            fill(n);
            expect("pwrite", pwrite(fd, out, n, (off_t)at), (long)n);
            model_write(at, n);
            break;
        case 9:
            fill(n);
            expect("pwritev", pwritev(fd, parts_out, 2, (off_t)at), (long)n);
            model_write(at, n);
            break;
        case 10: {
            size_t to = below(SIZE_MAX_ - CALL_MAX);
            if (below(4)) to = size;
            expect("ftruncate", ftruncate(fd, (off_t)to), 0);
            if (to > size) memset(model + size, 0, to - size);
            size = to;
            break;
        }
        case 11: {
            int copy = below(2) ? dup(fd) : fcntl(fd, F_DUPFD_CLOEXEC, 20);
            check_read("read through a copy", read(copy, in, n), pos, n);
            pos += model_read(pos, n);
            expect("close", close(copy), 0);
            break;
        }
        case 12:
            if (size > 0) {
                unsigned char *map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
                if (map == MAP_FAILED) fail("mmap", -1, 0);
                if (memcmp(map, model, size) != 0) fail("mapped bytes differ", 0, 0);
                munmap(map, size);
            }
            break;
        default: {
            if (below(8)) break;
            // A child moves the shared offset.
            pid_t child = fork();
            if (child == 0) {
                size_t expected = model_read(pos, n);
                ssize_t got = read(fd, in, n);
                _exit(got == (ssize_t)expected && memcmp(in, model + pos, expected) == 0 ? 0 : 1);
            }
            int status = 0;
            waitpid(child, &status, 0);
            expect("read in a child", status, 0);
            pos += model_read(pos, n);
            break;
        }
        }
    }
    expect("close", close(fd), 0);
    fd = open(argv[1], O_RDONLY);
    for (size_t at = 0; at < size; at += CALL_MAX) check_read("pread at the end", pread(fd, in, CALL_MAX, (off_t)at), at, CALL_MAX);
    printf("%ld operations, %zu bytes\n", steps, size);
    return 0;
}
