/* Programs that close, replace or use up descriptor numbers do not meet ours. */
#include "common.h"

static void works(const char *when) {
    char text[10];
    int fd = open("file", O_RDWR | O_CREAT, 0600);
    printf("%s: lowest number %d\n", when, fd);
    MUST(pwrite(fd, "hygienic", 8, 0) == 8);
    MUST(pread(fd, text, 8, 0) == 8);
    MUST(memcmp(text, "hygienic", 8) == 0);
    MUST(close(fd) == 0);
}

int main(void) {
    /* Whatever the test was started with. */
    syscall(SYS_close_range, 3, ~0u, 0);
    works("at first");
    for (int fd = 3; fd < 20000; fd++) MUST(close(fd) == -1 && errno == EBADF);
    works("after closing each");
    MUST(close_range(3, ~0u, 0) == 0);
    works("after closing all");
    closefrom(3);
    works("after closefrom");
    for (int fd = 3; fd < 20000; fd++) syscall(SYS_close, fd);
    works("after closing each behind our back");
    /* Another file at every number. */
    int other = open("other", O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (int fd = 990; fd < 1020; fd++) MUST(dup2(other, fd) == fd);
    works("after replacing each");
    for (int fd = 990; fd < 1020; fd++) MUST(write(fd, "x", 1) == 1);
    works("between");
    for (int fd = 990; fd < 1100; fd++) syscall(SYS_dup3, other, fd, 0);
    works("after replacing each behind our back");
    struct stat st;
    MUST(fstat(other, &st) == 0);
    printf("the other file has %ld bytes\n", (long)st.st_size);
    for (int fd = 990; fd < 1100; fd++) MUST(close(fd) == 0);
    works("after closing the others");
    return 0;
}
