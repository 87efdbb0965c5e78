/* Drives the file server, and checks what it gets.
 *
 *   file-client SOCKET [THREADS [BLOCKS]]
 *
 * The threads write one file together in strides, each block twice without waiting in between, and
 * ask for it back at once. Whatever the server's policy makes of that, a read must see the second
 * write. */
#define _GNU_SOURCE
#include <forebay.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "wire.h"

#define BLOCK 4096u
#define WINDOW 8u

static const char *path;
static unsigned threads = 4, blocks = 64;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void fill(unsigned char *block, unsigned thread, unsigned number, unsigned version)
{
    for (unsigned i = 0; i < BLOCK; i++)
        block[i] = (unsigned char)(thread * 131 + number * 31 + version * 17 + i * 7);
}

static void ask(int server, uint32_t operation, uint64_t offset, uint64_t cookie, const void *data)
{
    struct wire_request request = { operation, BLOCK, offset, cookie, "shared" };
    if (transmit(server, &request, sizeof request) != 0
        || (data && transmit(server, data, BLOCK) != 0))
        fail("file-client: ask");
}

static void *stride(void *argument)
{
    unsigned me = (unsigned)(uintptr_t)argument;
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(server, (struct sockaddr *)&address, sizeof address) < 0)
        fail("file-client: connect");
    unsigned char block[BLOCK], expected[BLOCK];
    for (unsigned begin = 0; begin < blocks; begin += WINDOW) {
        unsigned end = begin + WINDOW < blocks ? begin + WINDOW : blocks, answers = 0;
        for (unsigned number = begin; number < end; number++) {
            uint64_t offset = ((uint64_t)number * threads + me) * BLOCK;
            for (unsigned version = 1; version <= 2; version++, answers++) {
                fill(block, me, number, version);
                ask(server, FOREBAY_WRITE, offset, UINT64_MAX, block);
            }
            ask(server, FOREBAY_READ, offset, number, NULL);
            answers++;
        }
        for (; answers > 0; answers--) {
            struct wire_answer answer;
            if (receive(server, &answer, sizeof answer) != 0)
                fail("file-client: receive");
            if (answer.result != BLOCK) {
                fprintf(stderr, "file-client: result %lld\n", (long long)answer.result);
                exit(1);
            }
            if (answer.cookie == UINT64_MAX)
                continue;
            if (receive(server, block, BLOCK) != 0)
                fail("file-client: receive");
            fill(expected, me, (unsigned)answer.cookie, 2);
            if (memcmp(block, expected, BLOCK) != 0) {
                fprintf(stderr, "file-client: thread %u block %u: not what was written last\n", me,
                        (unsigned)answer.cookie);
                exit(1);
            }
        }
    }
    close(server);
    return NULL;
}

int main(int count, char **arguments)
{
    if (count < 2) {
        fprintf(stderr, "usage: file-client SOCKET [THREADS [BLOCKS]]\n");
        return 2;
    }
    path = arguments[1];
    if (count > 2)
        threads = (unsigned)atoi(arguments[2]);
    if (count > 3)
        blocks = (unsigned)atoi(arguments[3]);
    pthread_t *all = calloc(threads, sizeof *all);
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&all[i], NULL, stride, (void *)(uintptr_t)i) != 0)
            fail("file-client: pthread_create");
    for (unsigned i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
    free(all);
    printf("ok: %u requests\n", threads * blocks * 3);
    return 0;
}
