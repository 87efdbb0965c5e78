/* What the file server and its clients say to each other, in the byte order of the machine that
 * both run on. A write's data follows its request, a read's data its answer. */
#ifndef WIRE_H
#define WIRE_H

#include <errno.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

#define NAME_BYTES 32
#define LENGTH_MAX (1u << 20)

struct wire_request {
    uint32_t operation; /* FOREBAY_READ, FOREBAY_WRITE or FOREBAY_SYNC */
    uint32_t length;
    uint64_t offset;
    uint64_t cookie; /* comes back with the answer */
    char name[NAME_BYTES];
};

struct wire_answer {
    uint64_t cookie;
    int64_t result; /* bytes, or a negative errno */
};

/* Moves exactly `length` bytes; 0, or -1 if the peer is gone. */
static inline int receive(int from, void *buffer, size_t length)
{
    for (char *at = buffer; length > 0;) {
        ssize_t moved = read(from, at, length);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved <= 0)
            return -1;
        at += moved;
        length -= (size_t)moved;
    }
    return 0;
}

static inline int transmit(int to, const void *buffer, size_t length)
{
    for (const char *at = buffer; length > 0;) {
        ssize_t moved = write(to, at, length);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved <= 0)
            return -1;
        at += moved;
        length -= (size_t)moved;
    }
    return 0;
}

#endif
