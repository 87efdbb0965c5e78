/* Many threads on one controller: they submit, cancel, switch and drain; call-backs submit more.
 * Nothing is lost or doubled, and requests that conflict are never in flight together. Made to be
 * run under a sanitizer, too. */
#include <errno.h>
#include <forebay.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "check.h"

#define FILES 4
#define BLOCKS 64
#define BLOCK 4096
#define MORE (1ull << 40)

static struct forebay *controller;
static unsigned each = 2000;
/* By file and block: how many read it, or WRITER. What a sanitizer must not see change twice at a
 * time stands beside it without any protection of its own: the guard is its protection. */
#define WRITER UINT32_MAX
static _Atomic uint32_t users[FILES][BLOCKS];
static uint64_t contents[FILES][BLOCKS];
static _Atomic uint64_t submitted, finished, cancelled, taken_back;

static void carry_out(const struct forebay_file *file, uint32_t operation, const struct forebay_turn *turn)
{
    uint64_t first = turn->offset / BLOCK, count = turn->length / BLOCK;
    for (uint64_t at = first; at < first + count; at++) {
        if (operation == FOREBAY_WRITE) {
            CHECK(atomic_exchange(&users[file->low][at], WRITER) == 0);
            contents[file->low][at] = turn->id;
        } else {
            CHECK(atomic_fetch_add(&users[file->low][at], 1) != WRITER);
            volatile uint64_t seen = contents[file->low][at];
            (void)seen;
        }
    }
    for (uint64_t at = first; at < first + count; at++) {
        if (operation == FOREBAY_WRITE)
            CHECK(atomic_exchange(&users[file->low][at], 0) == WRITER);
        else
            atomic_fetch_sub(&users[file->low][at], 1);
    }
    atomic_fetch_add(&finished, 1);
    CHECK(forebay_complete(controller, turn->ticket, (int64_t)turn->length) == 0);
    CHECK(forebay_complete(controller, turn->ticket, 0) == -ENOENT);
}

static void on_batch(struct forebay *of, const struct forebay_batch *batch, void *user)
{
    (void)user;
    uint64_t end = batch->offset;
    for (uint32_t i = 0; i < batch->count; i++) {
        CHECK(batch->turns[i].offset <= end);
        if (end < batch->turns[i].offset + batch->turns[i].length)
            end = batch->turns[i].offset + batch->turns[i].length;
    }
    CHECK(end == batch->offset + batch->length);
    for (uint32_t i = 0; i < batch->count; i++) {
        const struct forebay_turn *turn = &batch->turns[i];
        if (turn->id % 5 == 1 && turn->id < MORE) {
            struct forebay_request more = {
                .id = turn->id + MORE, .file = batch->file, .offset = turn->offset, .length = turn->length,
                .operation = batch->operation,
            };
            if (forebay_submit(of, &more, NULL) == 0)
                atomic_fetch_add(&submitted, 1);
        }
        carry_out(&batch->file, batch->operation, turn);
    }
}

static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state >> 11;
}

static void *worker(void *argument)
{
    uint64_t me = (uintptr_t)argument, state = me * 7919 + 1;
    for (uint64_t number = 0; number < each; number++) {
        uint64_t length = 1 + next(&state) % 4, ticket;
        struct forebay_request asked = {
            .id = me << 24 | number,
            .file = { 1, next(&state) % FILES },
            .offset = next(&state) % (BLOCKS - length + 1) * BLOCK,
            .length = length * BLOCK,
            .operation = next(&state) % 3 == 0 ? FOREBAY_WRITE : FOREBAY_READ,
            .flags = next(&state) % 20 == 0 ? FOREBAY_WAIT : 0,
            .client = (uint32_t)me,
            .class_id = (uint32_t)me,
        };
        int error = forebay_submit(controller, &asked, &ticket);
        if (error < 0) {
            CHECK(error == -EAGAIN || error == -ESHUTDOWN);
            continue;
        }
        atomic_fetch_add(&submitted, 1);
        if (asked.flags == FOREBAY_WAIT) {
            error = forebay_wait(controller, ticket, -1);
            if (error == 0) {
                struct forebay_turn turn = { ticket, asked.id, asked.offset, asked.length, asked.client, 0 };
                carry_out(&asked.file, asked.operation, &turn);
            } else {
                CHECK(error == -ECANCELED || error == -ENOENT);
            }
        } else if (next(&state) % 8 == 0) {
            error = forebay_cancel(controller, ticket);
            CHECK(error == 0 || error == -ENOENT || error == -EBUSY);
            if (error == 0)
                atomic_fetch_add(&cancelled, 1);
        }
    }
    return NULL;
}

static void count_back(const struct forebay_turn *turn, void *user)
{
    (void)turn, (void)user;
    atomic_fetch_add(&taken_back, 1);
}

static _Atomic int is_over;

static void *operator_(void *unused)
{
    static const char *policies[] = { "NOOP", "TO", "TO-agg", "SJF", "MLF", "aIOLi", "HBRR", "SW" };
    uint64_t state = 99;
    (void)unused;
    while (!atomic_load(&is_over)) {
        struct forebay_counters counters;
        switch (next(&state) % 6) {
        case 0: CHECK(forebay_set(controller, "policy", policies[next(&state) % 8]) == 0); break;
        case 1: CHECK(forebay_set(controller, "depth", next(&state) % 2 ? "1" : "8") == 0); break;
        case 2: CHECK(forebay_take_back(controller, count_back, NULL) >= 0); break;
        case 3: CHECK(forebay_hint(controller, FOREBAY_HINT_MORE, NULL, 100000) == 0); break;
        case 4: CHECK(forebay_read_counters(controller, &counters, sizeof counters) == 0); break;
        default: {
            int error = forebay_drain(controller, 1000000);
            CHECK(error == 0 || error == -ETIMEDOUT);
        }
        }
    }
    return NULL;
}

static void storm(uint32_t sharing, unsigned threads)
{
    struct forebay_options options;
    forebay_options_init(&options, sizeof options);
    options.on_batch = on_batch;
    options.depth = 4;
    options.queue_requests_max = 600;
    options.sharing = sharing;
    options.wait_ns = 200000;
    CHECK(forebay_create(&options, &controller) == 0);
    submitted = finished = cancelled = taken_back = 0;
    is_over = 0;
    pthread_t all[16], operating;
    pthread_create(&operating, NULL, operator_, NULL);
    for (uintptr_t i = 0; i < threads; i++)
        pthread_create(&all[i], NULL, worker, (void *)(i + 1));
    for (unsigned i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
    is_over = 1;
    pthread_join(operating, NULL);
    CHECK(forebay_drain(controller, -1) == 0);
    CHECK(finished + cancelled + taken_back == submitted);
    struct forebay_counters counters;
    CHECK(forebay_read_counters(controller, &counters, sizeof counters) == 0);
    CHECK(counters.completed == finished && counters.cancelled == cancelled && counters.taken_back == taken_back);
    CHECK(counters.queued_now == 0 && counters.in_flight_now == 0);
    CHECK(forebay_destroy(controller) == 0);
}

int main(int count, char **arguments)
{
    if (count > 1)
        each = (unsigned)atoi(arguments[1]);
    storm(FOREBAY_SHARE_NONE, 4);
    storm(FOREBAY_SHARE_SFQ, 4);
    storm(FOREBAY_SHARE_DRR, 2);
    puts("ok");
    return 0;
}
