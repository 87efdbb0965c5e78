/* Every hooked data call with ordinary, borderline and senseless arguments. */
#include "common.h"

static char buffer[3 << 20];
static char *const bad = (char *)0x1000;

static void position(int fd) { TRY(lseek(fd, 0, SEEK_CUR)); }

static void ordinary(const char *path) {
    int fd = TRY(open(path, O_RDWR | O_CREAT | O_TRUNC, 0640) >= 0) ? open(path, O_RDWR) : -1;
    fill(buffer, sizeof buffer, 1);
    TRY(write(fd, buffer, 1));
    TRY(write(fd, buffer, 100000));
    position(fd);
    TRY(write(fd, buffer, sizeof buffer));
    position(fd);
    TRY(pwrite(fd, "xyz", 3, 50));
    TRY(pwrite(fd, "end", 3, 10 << 20));
    position(fd);
    TRY(lseek(fd, 0, SEEK_SET));
    TRY(read(fd, buffer, 10));
    position(fd);
    TRY(read(fd, buffer, sizeof buffer));
    printf("%lx\n", sum(buffer, sizeof buffer));
    TRY(pread(fd, buffer, 1000000, 40));
    printf("%lx\n", sum(buffer, 1000000));
    TRY(lseek(fd, -2, SEEK_END));
    TRY(read(fd, buffer, 100));
    TRY(read(fd, buffer, 100));
    position(fd);
    TRY(lseek(fd, 1 << 20, SEEK_END));
    TRY(read(fd, buffer, 100));
    TRY(write(fd, "tail", 4));
    position(fd);

    struct iovec vectors[3] = {{buffer, 100}, {buffer + 5000, 0}, {buffer + 6000, 100000}};
    TRY(lseek(fd, 7, SEEK_SET));
    TRY(writev(fd, vectors, 3));
    TRY(readv(fd, vectors, 3));
    position(fd);
    TRY(pwritev(fd, vectors, 3, 123));
    TRY(preadv(fd, vectors, 3, 321));
    TRY(pwritev2(fd, vectors, 3, 123, 0));
    TRY(preadv2(fd, vectors, 3, 321, 0));
    position(fd);
    TRY(pwritev2(fd, vectors, 3, -1, 0));
    TRY(preadv2(fd, vectors, 3, -1, 0));
    position(fd);
    TRY(preadv2(fd, vectors, 3, 0, RWF_HIPRI));
    TRY(pwritev2(fd, vectors, 3, 99, RWF_APPEND));
    position(fd);
    TRY(fsync(fd));
    TRY(fdatasync(fd));
    TRY(ftruncate(fd, 12345));
    TRY(fallocate(fd, 0, 0, 20000));
    TRY(fallocate(fd, FALLOC_FL_KEEP_SIZE, 20000, 20000));
    TRY(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 100, 5000));
    TRY(posix_fallocate(fd, 30000, 10));
    TRY(posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL));
    TRY(posix_fadvise(fd, 0, 100, POSIX_FADV_WILLNEED));
    struct stat st;
    TRY(fstat(fd, &st));
    printf("size %ld\n", (long)st.st_size);
    TRY(pread(fd, buffer, 40000, 0));
    printf("%lx\n", sum(buffer, 30010));
    TRY(close(fd));
    TRY(close(fd));
    TRY(read(fd, buffer, 1));
    TRY(write(fd, buffer, 1));
    TRY(fsync(fd));
}

static void senseless(const char *path) {
    int fd = open(path, O_RDWR);
    TRY(read(fd, buffer, 0));
    TRY(write(fd, buffer, 0));
    TRY(read(fd, NULL, 10));
    TRY(read(fd, bad, 10));
    position(fd);
    TRY(write(fd, NULL, 10));
    TRY(write(fd, bad, 100000));
    position(fd);
    TRY(pread(fd, bad, 10, 0));
    TRY(pwrite(fd, bad, 10, 0));
    TRY(pread(fd, buffer, 10, -1));
    TRY(pwrite(fd, buffer, 10, -1));
    TRY(pread(fd, buffer, 10, INT64_MAX - 5));
    TRY(pwrite(fd, buffer, 10, INT64_MAX - 5));
    TRY(pwrite(fd, buffer, 10, INT64_MAX - 10));
    TRY(pread(fd, buffer, 10, INT64_MAX - 10));
    TRY(read(fd, buffer, -1));
    TRY(lseek(fd, 0, SEEK_SET));
    TRY(ftruncate(fd, -1));
    TRY(fallocate(fd, 0, -1, 10));
    TRY(fallocate(fd, 0, 0, 0));
    TRY(fallocate(fd, 0x4000, 0, 10));
    TRY(posix_fallocate(fd, -1, 10));
    TRY(posix_fallocate(fd, 0, 0));
    TRY(posix_fadvise(fd, 0, 0, 99));

    struct iovec vectors[2] = {{buffer, 10}, {bad, 10}};
    TRY(readv(fd, vectors, 0));
    TRY(readv(fd, vectors, -1));
    TRY(readv(fd, vectors, 1025));
    TRY(readv(fd, (struct iovec *)bad, 1));
    TRY(writev(fd, (struct iovec *)bad, 1));
    TRY(readv(fd, vectors, 2));
    position(fd);
    TRY(lseek(fd, 0, SEEK_SET));
    TRY(writev(fd, vectors, 2));
    position(fd);
    struct iovec negative[2] = {{buffer, 10}, {buffer, SIZE_MAX}};
    TRY(readv(fd, negative, 2));
    TRY(writev(fd, negative, 2));
    TRY(preadv(fd, vectors, 1, -1));
    TRY(preadv2(fd, vectors, 1, -2, 0));
    TRY(preadv2(fd, vectors, 1, 0, 0x8000));
    /* Half of the buffer is there. */
    char *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(map + 4096, 4096);
    TRY(ftruncate(fd, 100000));
    TRY(lseek(fd, 0, SEEK_SET));
    TRY(read(fd, map, 8192));
    position(fd);
    TRY(write(fd, map, 8192));
    position(fd);
    TRY(lseek(fd, INT64_MAX, SEEK_SET));
    TRY(close(fd));

    fd = open(path, O_RDONLY);
    TRY(write(fd, buffer, 10));
    TRY(pwrite(fd, buffer, 10, 0));
    TRY(ftruncate(fd, 10));
    TRY(fallocate(fd, 0, 0, 10));
    TRY(read(fd, buffer, 10));
    close(fd);
    fd = open(path, O_WRONLY);
    TRY(read(fd, buffer, 10));
    TRY(pread(fd, buffer, 10, 0));
    TRY(write(fd, buffer, 10));
    close(fd);
    fd = open(path, O_PATH);
    TRY(read(fd, buffer, 10));
    TRY(fsync(fd));
    close(fd);
    fd = open(".", O_RDONLY | O_DIRECTORY);
    TRY(read(fd, buffer, 10));
    TRY(fsync(fd));
    close(fd);
    TRY(open("absent/file", O_RDONLY));
    TRY(read(-1, buffer, 10));
    TRY(read(1 << 20, buffer, 10));
    TRY(close(-1));
    int pipes[2];
    TRY(pipe(pipes));
    TRY(write(pipes[1], "hello", 5));
    TRY(read(pipes[0], buffer, 10));
    TRY(pread(pipes[0], buffer, 10, 0));
    TRY(read(pipes[1], buffer, 10));
    TRY(posix_fadvise(pipes[0], 0, 0, 0));
    TRY(posix_fallocate(pipes[0], 0, 10));
    close(pipes[0]);
    signal(SIGPIPE, SIG_IGN);
    TRY(write(pipes[1], "hello", 5));
    close(pipes[1]);
}

static void limited(const char *path) {
    int fd = open(path, O_RDWR | O_TRUNC);
    TRY(write(fd, "0123456789", 10));
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {15, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
    TRY(write(fd, "0123456789", 10));
    TRY(write(fd, "0123456789", 10));
    TRY(ftruncate(fd, 1000));
    position(fd);
    limit.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_FSIZE, &limit);
    TRY(write(fd, "0123456789", 10));
    close(fd);
}

static void appended(const char *path) {
    int fd = open(path, O_RDWR | O_TRUNC | O_APPEND);
    TRY(write(fd, "one", 3));
    TRY(lseek(fd, 0, SEEK_SET));
    TRY(write(fd, "two", 3));
    position(fd);
    TRY(pwrite(fd, "three", 5, 0));
    position(fd);
    TRY(lseek(fd, 100, SEEK_SET));
    struct iovec vectors[2] = {{"fo", 2}, {"ur", 2}};
    TRY(writev(fd, vectors, 2));
    position(fd);
    fill(buffer, 200000, 2);
    TRY(write(fd, buffer, 200000));
    position(fd);
    TRY(pread(fd, buffer, 100, 0));
    printf("%.15s\n", buffer);
    /* The flag comes and goes. */
    TRY(fcntl(fd, F_SETFL, 0));
    TRY(lseek(fd, 1, SEEK_SET));
    TRY(write(fd, "NE", 2));
    position(fd);
    TRY(fcntl(fd, F_SETFL, O_APPEND));
    TRY(write(fd, "last", 4));
    position(fd);
    close(fd);
}

static void direct(const char *path) {
    int fd = open(path, O_RDWR | O_TRUNC | O_DIRECT);
    if (fd < 0) return;
    char *map = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fill(map, 65536, 3);
    TRY(write(fd, map, 65536));
    TRY(pread(fd, map, 4096, 8192));
    TRY(pread(fd, map + 1, 4096, 8192));
    TRY(pread(fd, map, 4096, 8192 + 1));
    TRY(pread(fd, map, 100, 8192));
    TRY(pwrite(fd, map, 100, 0));
    TRY(pread(fd, map, 65536, 0));
    printf("%lx\n", sum(map, 65536));
    close(fd);
}

static void numbers(const char *path) {
    int fd = open(path, O_RDWR | O_TRUNC);
    TRY(write(fd, "abcdefgh", 8));
    int copy = dup(fd);
    TRY(lseek(copy, 2, SEEK_SET));
    TRY(read(fd, buffer, 2));
    TRY(read(copy, buffer + 2, 2));
    printf("%.4s\n", buffer);
    int third = fcntl(fd, F_DUPFD, 100);
    TRY(write(third, "Z", 1));
    position(fd);
    TRY(dup2(fd, copy) == copy);
    TRY(dup3(fd, 200, O_CLOEXEC));
    TRY(dup3(fd, fd, 0));
    TRY(dup2(fd, fd) == fd);
    TRY(dup2(999, fd));
    TRY(dup2(fd, -1));
    TRY(read(200, buffer, 8));
    TRY(close_range(100, 300, 0));
    TRY(read(200, buffer, 8));
    TRY(close_range(5, 4, 0));
    TRY(close(copy));
    /* The number means another file now, without a hooked call in between. */
    TRY(pread(fd, buffer, 1, 0));
    syscall(SYS_close, fd);
    int other = syscall(SYS_openat, AT_FDCWD, "other", O_RDWR | O_CREAT | O_TRUNC, 0600);
    TRY(other == fd);
    TRY(write(other, "OTHER", 5));
    TRY(pread(other, buffer, 10, 0));
    printf("%.5s\n", buffer);
    TRY(close(other));
    FILE *stream = fopen(path, "r+");
    TRY(fread(buffer, 1, 3, stream));
    TRY(pread(fileno(stream), buffer, 8, 0));
    printf("%.8s\n", buffer);
    TRY(fclose(stream));
    stream = fdopen(open(path, O_RDWR), "r+");
    TRY(fprintf(stream, "printed"));
    TRY(fflush(stream));
    TRY(write(fileno(stream), "written", 7));
    TRY(fclose(stream));
    /* Deleted, but open. */
    fd = open(path, O_RDWR);
    TRY(unlink(path));
    TRY(write(fd, "ghost", 5));
    TRY(pread(fd, buffer, 100, 0));
    printf("%.14s\n", buffer);
    TRY(close(fd));
    /* By way of a folder, a link and the working folder. */
    mkdir("sub", 0755);
    int folder = open("sub", O_RDONLY | O_DIRECTORY);
    fd = openat(folder, "../linked", O_RDWR | O_CREAT | O_TRUNC, 0600);
    TRY(write(fd, "linked", 6));
    TRY(close(fd));
    TRY(symlink("../linked", "sub/link"));
    TRY(chdir("sub"));
    fd = open("link", O_RDONLY);
    TRY(read(fd, buffer, 100));
    printf("%.6s\n", buffer);
    TRY(chdir(".."));
    TRY(close(fd));
    TRY(close(folder));
}

int main(void) {
    ordinary("file");
    senseless("file");
    limited("file");
    appended("file");
    direct("file");
    numbers("file");
    return 0;
}
