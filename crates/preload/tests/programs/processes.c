/* fork, vfork and exec; the shared position; locks and busy text; appends from many processes. */
#include "common.h"

enum { WRITERS = 8, RECORDS = 200, RECORD = 64 };

static void record(char *text, int writer, int number) {
    memset(text, '.', RECORD);
    text[snprintf(text, RECORD, "%d/%d", writer, number)] = '.';
    text[RECORD - 1] = '\n';
}

/* Every record must be there once, whole. */
static void check_records(const char *path) {
    static char seen[WRITERS][RECORDS];
    memset(seen, 0, sizeof seen);
    int fd = open(path, O_RDONLY);
    char text[RECORD];
    int count = 0;
    while (read(fd, text, RECORD) == RECORD) {
        int writer, number;
        MUST(sscanf(text, "%d/%d", &writer, &number) == 2);
        char expected[RECORD];
        record(expected, writer, number);
        MUST(memcmp(text, expected, RECORD) == 0);
        MUST(!seen[writer][number]++);
        count++;
    }
    MUST(count == WRITERS * RECORDS);
    close(fd);
}

static void write_records(int fd, int writer) {
    char text[RECORD];
    for (int number = 0; number < RECORDS; number++) {
        record(text, writer, number);
        MUST(write(fd, text, RECORD) == RECORD);
    }
}

static void many_append(void) {
    close(open("appended", O_CREAT | O_TRUNC, 0600));
    for (int writer = 0; writer < WRITERS; writer++)
        if (fork() == 0) {
            int fd = open("appended", O_WRONLY | O_APPEND);
            write_records(fd, writer);
            exit(close(fd));
        }
    reap();
    check_records("appended");
}

static void many_share_a_descriptor(void) {
    int fd = open("shared", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    MUST(write(fd, "", 0) == 0);
    for (int writer = 0; writer < WRITERS; writer++)
        if (fork() == 0) {
            write_records(fd, writer);
            _exit(0);
        }
    reap();
    MUST(lseek(fd, 0, SEEK_CUR) == WRITERS * RECORDS * RECORD);
    close(fd);
    check_records("shared");
}

static void readers_share_a_descriptor(void) {
    int fd = open("shared", O_RDONLY);
    char text[RECORD];
    MUST(pread(fd, text, RECORD, 0) == RECORD);
    int pipes[2];
    MUST(pipe(pipes) == 0);
    for (int reader = 0; reader < WRITERS; reader++)
        if (fork() == 0) {
            long count = 0;
            ssize_t length;
            while ((length = read(fd, text, RECORD)) > 0) count += length;
            MUST(length == 0);
            MUST(write(pipes[1], &count, sizeof count) == sizeof count);
            _exit(0);
        }
    reap();
    long total = 0, count;
    for (int reader = 0; reader < WRITERS; reader++) {
        MUST(read(pipes[0], &count, sizeof count) == sizeof count);
        total += count;
    }
    MUST(total == WRITERS * RECORDS * RECORD);
    MUST(lseek(fd, 0, SEEK_CUR) == total);
    close(fd);
}

static void parent_and_child_take_turns(void) {
    int fd = open("turns", O_RDWR | O_CREAT | O_TRUNC, 0600);
    MUST(write(fd, "parent ", 7) == 7);
    if (fork() == 0) {
        MUST(write(fd, "child ", 6) == 6);
        if (fork() == 0) {
            MUST(write(fd, "grandchild ", 11) == 11);
            exit(0);
        }
        reap();
        MUST(write(fd, "child ", 6) == 6);
        _exit(0);
    }
    reap();
    MUST(write(fd, "parent", 6) == 6);
    char text[100] = {0};
    MUST(pread(fd, text, 100, 0) == 36);
    printf("%s\n", text);
    close(fd);
}

static void exec_inherits(void) {
    int fd = open("inherited", O_RDWR | O_CREAT | O_TRUNC, 0600);
    MUST(write(fd, "before ", 7) == 7);
    if (vfork() == 0) {
        dup2(fd, 1);
        execl("/bin/sh", "sh", "-c", "printf 'from exec '; printf 'and again '", NULL);
        _exit(1);
    }
    reap();
    MUST(write(fd, "after", 5) == 5);
    char text[100] = {0};
    pread(fd, text, 100, 0);
    printf("%s\n", text);
    close(fd);
    /* A failed exec leaves everything as it was. */
    fd = open("inherited", O_RDWR);
    MUST(read(fd, text, 6) == 6);
    MUST(execv("/absent", (char *[]){"absent", NULL}) == -1);
    MUST(read(fd, text, 6) == 6);
    printf("%.6s\n", text);
    close(fd);
}

/* After close nobody has the file open for writing any more. */
static void no_busy_text(void) {
    const char script[] = "#!/bin/sh\nexit 0\n";
    for (int round = 0; round < 30; round++) {
        int fd = open("script", O_WRONLY | O_CREAT | O_TRUNC, 0700);
        MUST(write(fd, script, sizeof script - 1) == sizeof script - 1);
        MUST(close(fd) == 0);
        pid_t child = vfork();
        if (child == 0) {
            execl("./script", "script", NULL);
            _exit(errno == ETXTBSY ? 26 : 1);
        }
        int status;
        MUST(waitpid(child, &status, 0) == child);
        MUST(status == 0);
    }
}

/* The last close gives the lock up. */
static void locks_go_with_the_last_close(void) {
    for (int round = 0; round < 30; round++) {
        int fd = open("locked", O_RDWR | O_CREAT, 0600);
        MUST(flock(fd, LOCK_EX | LOCK_NB) == 0);
        MUST(write(fd, "x", 1) == 1);
        int other = open("locked", O_RDWR);
        MUST(flock(other, LOCK_EX | LOCK_NB) == -1);
        MUST(close(fd) == 0);
        MUST(flock(other, LOCK_EX | LOCK_NB) == 0);
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        MUST(fcntl(other, F_SETLK, &lock) == 0);
        MUST(write(other, "y", 1) == 1);
        close(other);
    }
}

static void nothing_is_left_in_the_child(void) {
    int fd = open("turns", O_RDONLY);
    char text[10];
    MUST(read(fd, text, 5) == 5);
    pid_t child = fork();
    if (child == 0) {
        /* Closes everything, our connection included, and goes on. */
        close_range(3, ~0u, 0);
        fd = open("turns", O_RDONLY);
        MUST(read(fd, text, 5) == 5);
        MUST(memcmp(text, "paren", 5) == 0);
        _exit(0);
    }
    MUST(read(fd, text, 5) == 5);
    reap();
    /* A raw fork, that no handler sees. */
    child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        MUST(pread(fd, text, 5, 0) == 5);
        MUST(memcmp(text, "paren", 5) == 0);
        syscall(SYS_exit_group, 0);
    }
    reap();
    MUST(pread(fd, text, 5, 1) == 5);
    MUST(memcmp(text, "arent", 5) == 0);
    close(fd);
}

int main(void) {
    many_append();
    many_share_a_descriptor();
    readers_share_a_descriptor();
    parent_and_child_take_turns();
    exec_inherits();
    no_busy_text();
    locks_go_with_the_last_close();
    nothing_is_left_in_the_child();
    return 0;
}
