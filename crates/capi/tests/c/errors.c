/* Every documented error, as a program meets it; and every way of delivery, one thread at a time where
 * one is enough. */
#include <errno.h>
#include <forebay.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "check.h"

static struct forebay_turn seen[64];
static unsigned seen_count, batch_count;
static int reentered[8];

static struct forebay_request request(uint64_t id, uint32_t operation, uint64_t offset)
{
    return (struct forebay_request){ .id = id, .file = { 1, 2 }, .offset = offset, .length = 4096, .operation = operation };
}

static void on_batch(struct forebay *controller, const struct forebay_batch *batch, void *user)
{
    (void)controller;
    CHECK(user == &seen_count && batch->count > 0 && batch->file.high == 1);
    CHECK(batch->offset == batch->turns[0].offset && batch->length >= batch->turns[0].length);
    CHECK(batch->length < 1 << 20);
    memcpy(seen + seen_count, batch->turns, batch->count * sizeof *seen);
    seen_count += batch->count;
    batch_count++;
}

static void on_request(struct forebay *controller, const struct forebay_file *file, uint32_t operation,
                       const struct forebay_turn *turn, void *user)
{
    (void)user;
    CHECK(file->low == 2 && operation == FOREBAY_READ);
    if (turn->id > 0) {
        CHECK(forebay_complete(controller, turn->ticket, 0) == 0);
        return;
    }
    /* What a call-back may not do, it is told; what it may do, it can. */
    uint64_t waiting;
    struct forebay_request waits = request(9, FOREBAY_READ, 0), more = request(1, FOREBAY_READ, 0);
    waits.flags = FOREBAY_WAIT;
    CHECK(forebay_submit(controller, &waits, &waiting) == 0);
    reentered[0] = forebay_wait(controller, waiting, -1);
    reentered[1] = forebay_drain(controller, -1);
    reentered[2] = forebay_destroy(controller);
    reentered[3] = forebay_cancel(controller, waiting);
    reentered[4] = forebay_submit(controller, &more, NULL);
    reentered[5] = forebay_complete(controller, turn->ticket, 4096);
    reentered[6] = forebay_complete(controller, turn->ticket, 4096);
    reentered[7] = forebay_set(controller, "policy", "SJF");
}

static struct forebay *make(void (*change)(struct forebay_options *))
{
    struct forebay_options options;
    struct forebay *controller = NULL;
    CHECK(forebay_options_init(&options, sizeof options) == 0);
    options.on_batch = on_batch;
    options.user = &seen_count;
    if (change)
        change(&options);
    CHECK(forebay_create(&options, &controller) == 0);
    seen_count = batch_count = 0;
    return controller;
}

static void shallow(struct forebay_options *options)
{
    options->depth = 1;
    options->queue_requests_max = 3;
}

static void null_and_size(void)
{
    struct forebay_options options;
    struct forebay *controller = NULL;
    struct { struct forebay_options known; uint64_t unknown; } newer;
    CHECK(forebay_options_init(NULL, sizeof options) == -EINVAL);
    CHECK(strstr(forebay_message(), "options = NULL"));
    CHECK(forebay_options_init(&options, 0) == -EINVAL);
    CHECK(forebay_options_init(&options, sizeof options) == 0);
    CHECK(forebay_create(&options, NULL) == -EINVAL);
    options.size = 3;
    CHECK(forebay_create(&options, &controller) == -EINVAL && controller == NULL);
    /* A program of a later version: what it does not use is no obstacle. */
    memset(&newer, 0, sizeof newer);
    CHECK(forebay_options_init(&newer.known, sizeof newer) == 0);
    CHECK(newer.known.size == sizeof newer);
    CHECK(forebay_create(&newer.known, &controller) == 0);
    CHECK(forebay_destroy(controller) == 0);
    newer.unknown = 1;
    controller = NULL;
    CHECK(forebay_create(&newer.known, &controller) == -E2BIG && controller == NULL);
    CHECK(strstr(forebay_message(), "does not know") != NULL);
    /* No version had less than the first one, and half a pointer is none. */
    for (size_t size = 0; size < 64; size++) {
        CHECK(forebay_options_init(&options, sizeof options) == 0);
        options.size = size;
        CHECK(forebay_create(&options, &controller) == -EINVAL);
        CHECK(forebay_options_init(&options, size) == -EINVAL);
    }
    CHECK(forebay_destroy(NULL) == 0);
    /* Without options all are the defaults: then every request is waited for. */
    CHECK(forebay_create(NULL, &controller) == 0 && forebay_destroy(controller) == 0);

    struct forebay_request asked = request(1, FOREBAY_READ, 0);
    struct forebay_counters counters;
    CHECK(forebay_submit(NULL, &asked, NULL) == -EINVAL);
    CHECK(forebay_complete(NULL, 1, 0) == -EINVAL && forebay_cancel(NULL, 1) == -EINVAL);
    CHECK(forebay_wait(NULL, 1, 0) == -EINVAL && forebay_drain(NULL, 0) == -EINVAL);
    CHECK(forebay_poll(NULL, NULL, NULL, 1) == -EINVAL && forebay_descriptor(NULL) == -EINVAL);
    CHECK(forebay_take_back(NULL, NULL, NULL) == -EINVAL && forebay_hint(NULL, 1, NULL, 0) == -EINVAL);
    CHECK(forebay_set(NULL, "depth", "1") == -EINVAL && forebay_use_policy(NULL, NULL, NULL) == -EINVAL);
    CHECK(forebay_set_class(NULL, 1, NULL) == -EINVAL && forebay_set_group(NULL, 1, NULL) == -EINVAL);
    CHECK(forebay_read_counters(NULL, &counters, sizeof counters) == -EINVAL);
    CHECK(forebay_statistics(NULL, NULL, 0) == -EINVAL && forebay_record(NULL, "x", 1) == -EINVAL);
    CHECK(forebay_end_record(NULL, NULL, NULL) == -EINVAL && forebay_file_of_name(NULL, NULL) == -EINVAL);
    CHECK(forebay_file_of_name("a", NULL) == -EINVAL && strstr(forebay_message(), "file = NULL"));
    controller = make(NULL);
    CHECK(forebay_submit(controller, NULL, NULL) == -EINVAL);
    /* What is not of this delivery. */
    CHECK(forebay_descriptor(controller) == -EINVAL);
    struct forebay_batch batch;
    struct forebay_turn turn;
    CHECK(forebay_poll(controller, &batch, &turn, 1) == -EINVAL);
    CHECK(forebay_set(controller, NULL, "1") == -EINVAL && forebay_set(controller, "depth", NULL) == -EINVAL);
    CHECK(forebay_read_counters(controller, NULL, sizeof counters) == -EINVAL);
    CHECK(forebay_read_counters(controller, &counters, sizeof counters - 1) == -EINVAL);
    CHECK(strstr(forebay_message(), "pass sizeof *counters") != NULL);
    struct { struct forebay_counters known; uint64_t unknown; } more_counters;
    more_counters.unknown = 7;
    CHECK(forebay_read_counters(controller, &more_counters.known, sizeof more_counters) == 0);
    CHECK(more_counters.known.size == sizeof more_counters && more_counters.unknown == 0);
    CHECK(forebay_statistics(controller, NULL, 10) == -EINVAL);
    CHECK(forebay_record(controller, NULL, 1 << 20) == -EINVAL);
    CHECK(forebay_record(controller, "x", (1 << 30) + 1) == -EINVAL && strstr(forebay_message(), "memory = 1073741825"));
    CHECK(forebay_use_policy(controller, NULL, NULL) == -EINVAL);
    CHECK(forebay_destroy(controller) == 0);
}

static void bad_options(void)
{
    struct forebay_options good, bad;
    struct forebay *controller;
    forebay_options_init(&good, sizeof good);
    good.on_batch = on_batch;
#define REFUSED(field, value, text)                                 \
    bad = good;                                                     \
    bad.field = value;                                              \
    CHECK(forebay_create(&bad, &controller) == -EINVAL);            \
    CHECK(strstr(forebay_message(), text) != NULL);
    REFUSED(policy, "fifo", "policy = fifo: unknown policy; one of")
    REFUSED(policy, NULL, "policy = NULL")
    REFUSED(policy, "\xff", "policy: not UTF-8")
    REFUSED(on_request, on_request, "only one of them")
    REFUSED(delivery, FOREBAY_DELIVER_POLL, "not used by polling")
    REFUSED(delivery, 7, "delivery = 7")
    REFUSED(guard, 4, "guard = 4: not from 0 to 3")
    REFUSED(depth, 0, "depth = 0: not from 1 to 16777216")
    REFUSED(queue_requests_max, 1ull << 40, "queue_requests_max = 1099511627776")
    REFUSED(queue_requests_max, 0, "queue_requests_max = 0: not from 1")
    REFUSED(depth, (1 << 24) + 1, "depth = 16777217")
    REFUSED(no_bypass, 2, "no_bypass = 2: not from 0 to 1")
    REFUSED(run_requests_max, 0, "run_requests_max = 0: not from 1 to 65536")
    REFUSED(run_requests_max, 65537, "run_requests_max = 65537")
    REFUSED(run_bytes_max, 4095, "run_bytes_max = 4095: not from 4096")
    REFUSED(run_bytes_max, 8 << 20, "batch_bytes_max first")
    REFUSED(batch_bytes_max, (4ull << 30) + 1, "batch_bytes_max = 4294967297")
    REFUSED(wait_ns, 1ull << 40, "wait_ns")
    REFUSED(idle_files_max, 1ull << 40, "idle_files_max")
    REFUSED(sharing, 9, "sharing = 9")
    REFUSED(settings, "depth", "settings: depth: not KEY=VALUE")
    REFUSED(settings, "depth=4 dpeth=1", "dpeth: no such setting; one of policy, device, depth")
    REFUSED(settings, "depth=0", "depth = 0: not a whole number from 1")
    REFUSED(settings, "policy=fifo", "policy = fifo: unknown policy")
    REFUSED(settings, "run_bytes_max=8388608", "batch_bytes_max first")
    REFUSED(settings, "\xff", "settings: not UTF-8")
    REFUSED(settings, "sharing.cost=time", "does not share")
    REFUSED(settings, "class.7.policy=SJF", "does not share")
    good.sharing = FOREBAY_SHARE_TWINS;
    REFUSED(twins_window_ns, 999, "twins_window_ns = 999: not from 1000 to 60000000000")
    REFUSED(twins_idle_ns, 60000000001, "twins_idle_ns = 60000000001: not from 0 to 60000000000")
    REFUSED(twins_targets, 0, "twins_targets = 0: not from 1")
    good.sharing = FOREBAY_SHARE_SFQ;
    good.settings = "sharing.discipline=twins";
    REFUSED(twins_targets, 0, "twins_targets = 0: not from 1")
    good.settings = NULL;
    REFUSED(classes_max, 0, "classes_max = 0: not from 1 to 65000")
    REFUSED(classes_max, 65001, "classes_max = 65001")
    REFUSED(class_requests_max, 0, "class_requests_max = 0: not from 1")
    REFUSED(settings, "class.x.policy=SJF", "class.x.policy: not a class's number")
    REFUSED(settings, "class.7.policy=fifo", "policy = fifo")
    REFUSED(settings, "policy=auto class.7.policy=SJF", "class.7.policy = common first")
    good.sharing = FOREBAY_SHARE_NONE;
    REFUSED(account_rows, 1u << 20, "account_rows")
    bad = good;
    bad.policy = "/nonexistent/policy.so";
    CHECK(forebay_create(&bad, &controller) == -ELIBACC);
    CHECK(strstr(forebay_message(), "/nonexistent/policy.so") != NULL);
}

static void on_back(const struct forebay_turn *turn, void *user)
{
    *(struct forebay_turn *)user = *turn;
}

static void ranges_and_tickets(void)
{
    struct forebay *controller = make(shallow), *other = make(shallow);
    struct forebay_request asked = request(1, FOREBAY_WRITE, 0);
    uint64_t first, second, foreign;
    asked.length = 0;
    CHECK(forebay_submit(controller, &asked, NULL) == -EINVAL);
    asked.length = 8;
    asked.offset = INT64_MAX - 7;
    CHECK(forebay_submit(controller, &asked, NULL) == -EOVERFLOW);
    CHECK(strstr(forebay_message(), "beyond 2^63 - 1") != NULL);
    asked.offset = UINT64_MAX - 3;
    CHECK(forebay_submit(controller, &asked, NULL) == -EOVERFLOW);
    asked = request(1, 4, 0);
    CHECK(forebay_submit(controller, &asked, NULL) == -EINVAL);
    asked = request(1, FOREBAY_WRITE, 0);
    asked.flags = 2;
    CHECK(forebay_submit(controller, &asked, NULL) == -EINVAL);
    asked.flags = 0;
    asked.class_id = UINT32_MAX;
    CHECK(forebay_submit(controller, &asked, NULL) == -EINVAL);

    asked.class_id = 0;
    CHECK(forebay_submit(controller, &asked, &first) == 0);
    asked.id = 2;
    CHECK(forebay_submit(controller, &asked, &second) == 0);
    CHECK(forebay_complete(controller, second, 8) == -EBUSY);
    CHECK(forebay_cancel(controller, first) == -EBUSY);
    CHECK(forebay_wait(controller, first, 0) == -EINVAL);
    CHECK(forebay_submit(other, &asked, &foreign) == 0);
    CHECK(forebay_complete(controller, foreign, 8) == -ENOENT && forebay_cancel(controller, foreign) == -ENOENT);
    CHECK(forebay_complete(controller, 0, 8) == -ENOENT && forebay_complete(controller, UINT64_MAX, 8) == -ENOENT);
    CHECK(forebay_destroy(controller) == -EBUSY);
    CHECK(forebay_drain(controller, 1000) == -ETIMEDOUT);
    for (asked.id = 3; asked.id < 5; asked.id++)
        CHECK(forebay_submit(controller, &asked, NULL) == 0);
    CHECK(forebay_submit(controller, &asked, NULL) == -EAGAIN);
    CHECK(forebay_cancel(controller, second) == 0 && forebay_cancel(controller, second) == -ENOENT);
    CHECK(seen_count == 2);
    CHECK(forebay_complete(controller, first, -EIO) == 0);
    CHECK(forebay_complete(controller, first, 8) == -ENOENT);
    CHECK(seen_count == 3 && seen[2].id == 3);
    struct forebay_turn back = { 0 };
    CHECK(forebay_take_back(controller, on_back, &back) == 1 && back.id == 4);
    CHECK(forebay_complete(controller, back.ticket, 8) == -ENOENT && forebay_cancel(controller, back.ticket) == -ENOENT);
    CHECK(forebay_take_back(controller, NULL, NULL) == 0);
    CHECK(forebay_cancel(controller, 0) == -ENOENT && forebay_wait(controller, UINT64_MAX, 0) == -ENOENT);
    CHECK(forebay_complete(controller, seen[2].ticket, 8) == 0);
    CHECK(forebay_complete(other, foreign, 8) == 0);

    /* Append and sync: the whole file, and no range at all. */
    asked = request(7, FOREBAY_ALONE, 0);
    asked.length = 0;
    CHECK(forebay_submit(controller, &asked, &first) == 0);
    asked.offset = 1ull << 63;
    CHECK(forebay_submit(controller, &asked, NULL) == -EOVERFLOW);
    asked = request(8, FOREBAY_SYNC, UINT64_MAX);
    CHECK(forebay_submit(controller, &asked, NULL) == 0);
    CHECK(seen_count == 4 && seen[3].length == 0 && seen[3].offset == 0);
    CHECK(forebay_complete(controller, first, INT64_MAX) == 0);
    CHECK(seen_count == 5 && forebay_complete(controller, seen[4].ticket, 0) == 0);
    CHECK(forebay_destroy(controller) == 0 && forebay_destroy(other) == 0);
}

static void reentry(void)
{
    struct forebay_options options;
    struct forebay *controller;
    struct forebay_request asked = request(0, FOREBAY_READ, 0);
    forebay_options_init(&options, sizeof options);
    options.on_request = on_request;
    options.depth = 1;
    CHECK(forebay_create(&options, &controller) == 0);
    CHECK(forebay_submit(controller, &asked, NULL) == 0);
    const int expected[8] = { -EDEADLK, -EDEADLK, -EDEADLK, 0, 0, 0, -ENOENT, 0 };
    for (int i = 0; i < 8; i++)
        CHECK(reentered[i] == expected[i]);
    CHECK(forebay_drain(controller, -1) == 0 && forebay_destroy(controller) == 0);
}

static void polling(void)
{
    struct forebay_options options;
    struct forebay *controller;
    struct forebay_batch batch;
    struct forebay_turn turns[2];
    forebay_options_init(&options, sizeof options);
    options.delivery = FOREBAY_DELIVER_POLL;
    CHECK(forebay_create(&options, &controller) == 0);
    struct pollfd descriptor = { .fd = forebay_descriptor(controller), .events = POLLIN };
    CHECK(descriptor.fd >= 0 && poll(&descriptor, 1, 0) == 0);
    CHECK(forebay_poll(controller, &batch, turns, 2) == 0);
    CHECK(forebay_poll(controller, &batch, NULL, 2) == -EINVAL && forebay_poll(controller, NULL, turns, 2) == -EINVAL);
    CHECK(forebay_poll(controller, &batch, turns, 0) == -EINVAL);
    CHECK(forebay_hint(controller, FOREBAY_HINT_MORE, NULL, 1000000000) == 0);
    for (unsigned i = 0; i < 3; i++) {
        struct forebay_request asked = request(i, FOREBAY_WRITE, 4096 * i);
        CHECK(forebay_submit(controller, &asked, NULL) == 0);
    }
    CHECK(forebay_poll(controller, &batch, turns, 2) == 0 && poll(&descriptor, 1, 0) == 0);
    CHECK(forebay_hint(controller, FOREBAY_HINT_MORE, NULL, 1000000) == 0);
    CHECK(poll(&descriptor, 1, -1) == 1);
    CHECK(forebay_hint(controller, FOREBAY_HINT_NO_MORE, NULL, 0) == 0);
    CHECK(forebay_poll(controller, &batch, turns, 2) == 2);
    CHECK(batch.count == 2 && batch.offset == 0 && batch.length == 8192 && batch.turns == turns);
    CHECK(batch.operation == FOREBAY_WRITE && turns[1].id == 1);
    CHECK(forebay_complete(controller, turns[0].ticket, 4096) == 0);
    CHECK(forebay_complete(controller, turns[1].ticket, 4096) == 0);
    CHECK(poll(&descriptor, 1, -1) == 1 && forebay_poll(controller, &batch, turns, 2) == 1);
    CHECK(batch.offset == 8192 && forebay_complete(controller, turns[0].ticket, 4096) == 0);
    CHECK(forebay_poll(controller, &batch, turns, 2) == 0 && poll(&descriptor, 1, 0) == 0);
    struct forebay_request waits = request(9, FOREBAY_READ, 0);
    waits.flags = FOREBAY_WAIT;
    CHECK(forebay_submit(controller, &waits, NULL) == -EINVAL);
    CHECK(forebay_destroy(controller) == 0);
}

static void waiting(void)
{
    struct forebay_options options;
    struct forebay *controller;
    struct forebay_request asked = request(1, FOREBAY_WRITE, 0);
    uint64_t first, second;
    forebay_options_init(&options, sizeof options);
    CHECK(forebay_create(&options, &controller) == 0);
    CHECK(forebay_descriptor(controller) == -EINVAL);
    CHECK(forebay_submit(controller, &asked, NULL) == -EINVAL);
    asked.flags = FOREBAY_WAIT;
    CHECK(forebay_submit(controller, &asked, &first) == 0 && forebay_submit(controller, &asked, &second) == 0);
    CHECK(forebay_wait(controller, first, -1) == 0 && forebay_wait(controller, first, -1) == 0);
    CHECK(forebay_wait(controller, second, 100000) == -ETIMEDOUT && forebay_wait(controller, second, 0) == -ETIMEDOUT);
    CHECK(forebay_complete(controller, first, 4096) == 0 && forebay_wait(controller, second, -1) == 0);
    CHECK(forebay_wait(controller, first, -1) == -ENOENT);
    CHECK(forebay_complete(controller, second, 4096) == 0 && forebay_destroy(controller) == 0);
}

static struct forebay *of_waiter;
static _Atomic uint64_t waits_for;
static _Atomic int waited;

static void *waiter(void *unused)
{
    waited = forebay_wait(of_waiter, waits_for, -1);
    return unused;
}

/* Who waits is told that the request was cancelled, or taken back. */
static void waiting_in_vain(void)
{
    struct forebay_options options;
    struct forebay_request asked = request(1, FOREBAY_WRITE, 0);
    uint64_t first, second;
    int told[2] = { 0, 0 };
    asked.flags = FOREBAY_WAIT;
    forebay_options_init(&options, sizeof options);
    CHECK(forebay_create(&options, &of_waiter) == 0);
    CHECK(forebay_submit(of_waiter, &asked, &first) == 0);
    /* Whoever comes too late to wait finds no such request; so until both were in time. */
    for (int round = 0; !(told[0] && told[1]); round++) {
        CHECK(round < 10000);
        pthread_t thread;
        CHECK(forebay_submit(of_waiter, &asked, &second) == 0);
        waits_for = second;
        CHECK(pthread_create(&thread, NULL, waiter, NULL) == 0);
        CHECK(forebay_wait(of_waiter, second, 100000) == -ETIMEDOUT);
        if (round % 2)
            CHECK(forebay_cancel(of_waiter, second) == 0);
        else
            CHECK(forebay_take_back(of_waiter, NULL, NULL) == 1);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(waited == -ECANCELED || waited == -ENOENT);
        told[round % 2] |= waited == -ECANCELED;
    }
    CHECK(forebay_complete(of_waiter, first, 4096) == 0 && forebay_destroy(of_waiter) == 0);
}

static void *drainer(void *of)
{
    CHECK(forebay_drain(of, -1) == 0);
    return of;
}

/* While it is drained it takes nothing, and afterwards it does. */
static void draining(void)
{
    struct forebay *controller = make(shallow);
    struct forebay_request asked = request(1, FOREBAY_READ, 0);
    pthread_t thread;
    int error;
    CHECK(forebay_submit(controller, &asked, NULL) == 0 && seen_count == 1);
    CHECK(pthread_create(&thread, NULL, drainer, controller) == 0);
    while ((error = forebay_submit(controller, &asked, NULL)) != -ESHUTDOWN) {
        CHECK(error == 0 || error == -EAGAIN);
        sched_yield();
    }
    for (unsigned i = 0; i < seen_count; i++)
        CHECK(forebay_complete(controller, seen[i].ticket, 4096) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    seen_count = 0;
    CHECK(forebay_submit(controller, &asked, NULL) == 0 && seen_count == 1);
    CHECK(forebay_complete(controller, seen[0].ticket, 4096) == 0 && forebay_destroy(controller) == 0);
}

static void settings_and_classes(void)
{
    struct forebay *controller = make(NULL);
    struct forebay_share share;
    CHECK(forebay_set(controller, "policy", "aIOLi") == 0 && forebay_set(controller, "depth", "2") == 0);
    CHECK(forebay_set(controller, "aioli.quantum_bytes", "65536") == 0);
    CHECK(forebay_set(controller, "run_bytes_max", "4096") == 0);
    CHECK(forebay_set(controller, "depth", "0") == -EINVAL && forebay_set(controller, "wait_ns", "soon") == -EINVAL);
    CHECK(forebay_set(controller, "dpeth", "1") == -EINVAL);
    CHECK(strstr(forebay_message(), "dpeth: no such setting; one of policy, device, depth") != NULL);
    CHECK(forebay_share_init(&share, sizeof share) == 0);
    CHECK(forebay_set_class(controller, 1, &share) == -EINVAL);
    CHECK(strstr(forebay_message(), "does not share") != NULL);
    CHECK(forebay_hint(controller, 9, NULL, 0) == -EINVAL && forebay_hint(controller, FOREBAY_HINT_FORGET, NULL, 0) == -EINVAL);
    CHECK(forebay_hint(controller, FOREBAY_HINT_MORE, NULL, 2000000000) == -EINVAL);
    CHECK(forebay_end_record(controller, NULL, NULL) == -ENOENT);
    CHECK(forebay_record(controller, "/nonexistent/trace", 1 << 20) == -ENOENT);
    CHECK(forebay_record(controller, "/tmp", 1 << 20) == -EISDIR && forebay_record(controller, "x", 1) == -EINVAL);
    uint64_t events = 0, lost = 7;
    struct forebay_request recorded = request(1, FOREBAY_READ, 0);
    CHECK(forebay_record(controller, "/dev/null", 1 << 20) == 0);
    CHECK(forebay_record(controller, "/dev/null", 1 << 20) == -EBUSY);
    CHECK(forebay_submit(controller, &recorded, NULL) == 0 && seen_count == 1);
    CHECK(forebay_complete(controller, seen[0].ticket, 4096) == 0);
    CHECK(forebay_end_record(controller, &events, &lost) == 0 && events >= 2 && lost == 0);
    CHECK(forebay_destroy(controller) == 0);

    struct forebay_options options;
    forebay_options_init(&options, sizeof options);
    options.on_batch = on_batch;
    options.user = &seen_count;
    options.sharing = FOREBAY_SHARE_DRR;
    options.account_rows = 8;
    CHECK(forebay_create(&options, &controller) == 0);
    share.weight = 0;
    CHECK(forebay_set_class(controller, 1, &share) == -EINVAL && strstr(forebay_message(), "weight 0"));
    share.weight = 3;
    share.has_group = 1;
    share.group = 5;
    CHECK(forebay_set_class(controller, 1, &share) == 0);
    CHECK(forebay_set_group(controller, 5, &share) == -EINVAL);
    share.has_group = 0;
    CHECK(forebay_set_group(controller, 5, &share) == 0 && forebay_set_group(controller, 5, NULL) == 0);
    struct forebay_request asked = request(1, FOREBAY_READ, 0);
    asked.class_id = 1;
    seen_count = 0;
    CHECK(forebay_submit(controller, &asked, NULL) == 0 && seen_count == 1);
    CHECK(forebay_set(controller, "policy", "MLF") == 0);
    CHECK(forebay_complete(controller, seen[0].ticket, 4096) == 0);
    char text[65536];
    int needed = forebay_statistics(controller, NULL, 0);
    CHECK(needed > 100 && needed < (int)sizeof text);
    CHECK(forebay_statistics(controller, text, 10) > 10);
    CHECK(forebay_statistics(controller, text, sizeof text) == (int)strlen(text) + 1);
    CHECK(strstr(text, "\"accounts_by_class\":[{") && strstr(text, "\"requests_completed\":1"));
    char file[100];
    snprintf(file, sizeof file, "\"file\":{\"high\":\"0x%llx\",\"low\":\"0x%llx\"}",
             (unsigned long long)asked.file.high, (unsigned long long)asked.file.low);
    CHECK(strstr(strstr(text, "\"accounts_by_file\":[{"), file));
    struct forebay_counters counters;
    CHECK(forebay_read_counters(controller, &counters, sizeof counters) == 0);
    CHECK(counters.completed == 1 && counters.files_now == 1 && counters.in_flight_now == 0);
    CHECK(forebay_set_class(controller, 1, NULL) == 0 && forebay_destroy(controller) == 0);
}

static void two_classes(struct forebay_options *options)
{
    options->sharing = FOREBAY_SHARE_SFQ;
    options->classes_max = 2;
    options->class_requests_max = 1;
    options->depth = 1;
}

static void shares(void)
{
    struct forebay *controller = make(NULL);
    struct forebay_share good, bad;
    struct { struct forebay_share known; uint64_t unknown; } newer;
    CHECK(forebay_share_init(NULL, sizeof good) == -EINVAL && forebay_share_init(&good, 8) == -EINVAL);
    CHECK(forebay_share_init(&good, sizeof good) == 0);
    CHECK(forebay_set_group(controller, 1, &good) == -EINVAL && strstr(forebay_message(), "does not share"));
    CHECK(forebay_set_class(controller, 1, NULL) == -EINVAL);
    CHECK(forebay_destroy(controller) == 0);

    controller = make(two_classes);
#define NOT_A_SHARE(field, value, text)                             \
    bad = good;                                                     \
    bad.field = value;                                              \
    CHECK(forebay_set_class(controller, 1, &bad) == -EINVAL);       \
    CHECK(strstr(forebay_message(), text) != NULL);
    NOT_A_SHARE(size, 3, "share: size = 3")
    NOT_A_SHARE(weight, 0, "weight 0 is not in 1 to 1000000")
    NOT_A_SHARE(weight, 1000001, "weight 1000001")
    NOT_A_SHARE(at_limit, 2, "at_limit = 2: not from 0 to 1")
    NOT_A_SHARE(has_group, 2, "has_group = 2: not from 0 to 1")
    NOT_A_SHARE(requests_per_second, 1ull << 60, "limit 1152921504606846976")
    NOT_A_SHARE(bytes_per_second, 1ull << 60, "limit 1152921504606846976")
    NOT_A_SHARE(cost_per_second, 1ull << 60, "limit 1152921504606846976")
    NOT_A_SHARE(reserved_per_second, 1ull << 60, "reservation 1152921504606846976")
    good.requests_per_second = good.bytes_per_second = good.cost_per_second = 1000;
    NOT_A_SHARE(requests_burst, 1ull << 60, "burst 1152921504606846976")
    NOT_A_SHARE(bytes_burst, 1ull << 60, "burst 1152921504606846976")
    NOT_A_SHARE(cost_burst, 1ull << 60, "burst 1152921504606846976")
    NOT_A_SHARE(reserved_per_second, 1001, "reservation 1001 is above the limit of 1000 by cost")
    good.requests_per_second = good.bytes_per_second = good.cost_per_second = 0;
    /* A program of a later version. */
    memset(&newer, 0, sizeof newer);
    CHECK(forebay_share_init(&newer.known, sizeof newer) == 0 && newer.known.size == sizeof newer);
    CHECK(forebay_set_class(controller, 1, &newer.known) == 0);
    newer.unknown = 1;
    CHECK(forebay_set_class(controller, 1, &newer.known) == -E2BIG);
    CHECK(forebay_set_group(controller, 1, &newer.known) == -E2BIG);
    bad = good;
    bad.reserved_per_second = 1;
    CHECK(forebay_set_group(controller, 1, &bad) == -EINVAL && strstr(forebay_message(), "not for groups"));

    /* No more places than there are; those without one have a share together. */
    CHECK(forebay_set_class(controller, 2, &good) == 0);
    CHECK(forebay_set_class(controller, 3, &good) == -EINVAL);
    CHECK(strstr(forebay_message(), "all 2 classes are configured or busy") != NULL);
    CHECK(forebay_set(controller, "class.3.policy", "SJF") == -EINVAL);
    CHECK(strstr(forebay_message(), "all 2 classes are configured or busy") != NULL);
    CHECK(forebay_set_class(controller, UINT32_MAX, &good) == 0);
    CHECK(forebay_set_class(controller, 2, NULL) == 0 && forebay_set_class(controller, 3, &good) == 0);
    CHECK(forebay_set_class(controller, 77, NULL) == 0 && forebay_set_group(controller, 77, NULL) == 0);

    /* A class has as many waiting as it may; others may go on. */
    struct forebay_request asked = request(1, FOREBAY_READ, 0);
    asked.class_id = 1;
    CHECK(forebay_submit(controller, &asked, NULL) == 0 && forebay_submit(controller, &asked, NULL) == 0);
    CHECK(forebay_submit(controller, &asked, NULL) == -EAGAIN);
    asked.class_id = 3;
    CHECK(forebay_submit(controller, &asked, NULL) == 0);
    for (unsigned i = 0; i < 3; i++)
        CHECK(seen_count == i + 1 && forebay_complete(controller, seen[i].ticket, 4096) == 0);
    CHECK(forebay_destroy(controller) == 0);
}

/* A policy of its own keeps a class's place as long as it has it. */
static void places_of_policies(void)
{
    struct forebay *controller = make(two_classes);
    struct forebay_share share;
    CHECK(forebay_share_init(&share, sizeof share) == 0);
    CHECK(forebay_set(controller, "class.5.policy", "common") == 0 && forebay_set(controller, "class.6.policy", "common") == 0);
    CHECK(forebay_set(controller, "class.7.policy", "common") == 0);
    CHECK(forebay_set(controller, "class.20.policy", "SJF") == 0 && forebay_set(controller, "class.21.policy", "SJF") == 0);
    CHECK(forebay_set(controller, "class.22.policy", "SJF") == -EINVAL);
    CHECK(forebay_set(controller, "class.20.policy", "common") == 0 && forebay_set(controller, "class.22.policy", "SJF") == 0);
    /* So does a share. */
    CHECK(forebay_set_class(controller, 21, &share) == 0 && forebay_set(controller, "class.21.policy", "common") == 0);
    CHECK(forebay_set(controller, "class.23.policy", "SJF") == -EINVAL);
    CHECK(forebay_set_class(controller, 21, NULL) == 0 && forebay_set(controller, "class.23.policy", "SJF") == 0);
    CHECK(forebay_destroy(controller) == 0);
}

static int says(struct forebay *controller, const char *what)
{
    static char text[65536];
    CHECK(forebay_statistics(controller, text, sizeof text) < (int)sizeof text);
    return strstr(text, what) != NULL;
}

/* How classes share, and by which policies they are ordered: at the start, and while it works. */
static void sharing_by_key(void)
{
    struct forebay_options options;
    struct forebay *controller;
    forebay_options_init(&options, sizeof options);
    options.on_batch = on_batch;
    options.user = &seen_count;
    options.sharing = FOREBAY_SHARE_SFQ;
    options.depth = 1;
    options.settings = "sharing.cost=time device=flash\n\tclass.7.policy=SJF depth=2 ";
    CHECK(forebay_create(&options, &controller) == 0);
    CHECK(says(controller, "\"cost_read\":{\"per_batch\":65536,\"per_mib\":1048576,\"per_request\":0}"));
    CHECK(says(controller, "\"discipline\":\"sfq\"") && says(controller, "\"policy\":\"SJF\""));
    seen_count = 0;
    for (unsigned i = 0; i < 3; i++) {
        struct forebay_request asked = request(i, FOREBAY_READ, 1 << (14 + i));
        asked.class_id = 7;
        CHECK(forebay_submit(controller, &asked, NULL) == 0);
    }
    CHECK(seen_count == 2);

    static const char *const all[][3] = {
        { "sharing.discipline", "drr", "\"discipline\":\"drr\"" },
        { "sharing.discipline", "twins", "\"discipline\":\"twins\"" },
        { "sharing.windows", "strict", "\"windows\":\"strict\"" },
        { "sharing.twins_window_ns", "2000000", "\"discipline\":\"twins\"" },
        { "sharing.twins_targets", "3", "\"discipline\":\"twins\"" },
        { "sharing.twins_shift", "1", "\"discipline\":\"twins\"" },
        { "sharing.twins_idle_ns", "5000", "\"discipline\":\"twins\"" },
        { "sharing.windows", "work-conserving", "\"windows\":\"work-conserving\"" },
        { "sharing.discipline", "sw", "\"discipline\":\"sw\"" },
        { "sharing.sw_window_ns", "1000000", "\"discipline\":\"sw\"" },
        { "sharing.discipline", "SFQ", "\"discipline\":\"sfq\"" },
        { "sharing.cost", "requests", "\"quantum\":64" },
        { "sharing.cost_write", "10,20,30", "\"cost_write\":{\"per_batch\":10,\"per_mib\":30,\"per_request\":20}" },
        { "sharing.quantum", "100000", "\"quantum\":100000" },
        { "sharing.lend_below", "4", "\"lend_below\":4" },
        { "sharing.capacity", "1000000", "\"capacity\":1000000" },
        { "sharing.capacity", "0", "\"capacity\":null" },
        { "device", "disk", "\"quantum\":100000" },
        { "class.7.policy", "HBRR", "\"policy\":\"HBRR\"" },
        { "policy", "aIOLi", "\"policy\":\"HBRR\"" },
        { "hbrr.quantum_ranges", "2", "\"policy\":\"HBRR\"" },
    };
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        CHECK(forebay_set(controller, all[i][0], all[i][1]) == 0);
        CHECK(says(controller, all[i][2]));
    }
    CHECK(forebay_set(controller, "sharing.discipline", "none") == -EINVAL);
    CHECK(strstr(forebay_message(), "classes are there as long as the controller is") != NULL);
    CHECK(forebay_set(controller, "sharing.cost_read", "1,2") == -EINVAL);
    CHECK(forebay_set(controller, "sharing.lend_below", "0") == -EINVAL && forebay_set(controller, "sharing.twins_targets", "0") == -EINVAL);
    CHECK(forebay_set(controller, "class.7.policy", "auto") == -EINVAL);
    CHECK(forebay_set(controller, "policy", "auto") == -EINVAL && strstr(forebay_message(), "class.7.policy = common"));
    CHECK(says(controller, "\"policy\":\"HBRR\"") && says(controller, "\"quantum\":100000"));
    CHECK(forebay_set_class(controller, 7, NULL) == 0 && !says(controller, "\"policy\":\"HBRR\""));
    CHECK(forebay_set(controller, "policy", "auto") == 0 && forebay_set(controller, "sharing.cost", "time") == 0);
    CHECK(says(controller, "\"per_batch\":524288") && says(controller, "\"selection\":{"));
    CHECK(forebay_set(controller, "device", "flash") == 0 && says(controller, "\"per_batch\":65536"));
    for (unsigned i = 0; i < 3; i++)
        CHECK(seen_count > i && forebay_complete(controller, seen[i].ticket, 4096) == 0);
    CHECK(forebay_destroy(controller) == 0);

    /* What comes after the start alone fails as a whole. */
    options.settings = "class.7.policy=SJF class.8.policy=MLF";
    options.classes_max = 1;
    controller = NULL;
    CHECK(forebay_create(&options, &controller) == -EINVAL && controller == NULL);
    CHECK(strstr(forebay_message(), "all 1 classes") != NULL);
    controller = make(NULL);
    CHECK(forebay_set(controller, "sharing.discipline", "drr") == -EINVAL);
    CHECK(forebay_set(controller, "class.1.policy", "SJF") == -EINVAL && strstr(forebay_message(), "does not share"));
    CHECK(forebay_destroy(controller) == 0);
}

/* Which policy is in charge while it is chosen, with and without classes, and why. */
static void a_chosen_policy(uint32_t sharing)
{
    static char text[65536];
    struct forebay_options options;
    struct forebay *controller;
    forebay_options_init(&options, sizeof options);
    options.on_batch = on_batch;
    options.user = &seen_count;
    options.policy = "auto";
    options.sharing = sharing;
    CHECK(forebay_create(&options, &controller) == 0);
    CHECK(forebay_set(controller, "device", "flash") == 0 && forebay_set(controller, "wait_ns", "1000") == 0);
    CHECK(forebay_set(controller, "device", "tape") == -EINVAL);
    CHECK(strstr(forebay_message(), "device = tape: not disk or flash") != NULL);
    for (int round = 0; round < 600; round++) {
        struct forebay_request asked = request(round, FOREBAY_WRITE, round * 65536);
        seen_count = 0;
        CHECK(forebay_submit(controller, &asked, NULL) == 0 && seen_count == 1);
        CHECK(forebay_complete(controller, seen[0].ticket, 4096) == 0);
    }
    CHECK(forebay_statistics(controller, text, sizeof text) < (int)sizeof text);
    CHECK(strstr(text, "\"selection\":{") && strstr(text, "\"requests_completed\":600"));
    CHECK(strstr(text, "\"reason\":\""));
    CHECK(forebay_set(controller, "policy", "SJF") == 0);
    CHECK(forebay_statistics(controller, text, sizeof text) < (int)sizeof text);
    CHECK(!strstr(text, "\"selection\"") && strstr(text, "\"policy\":\"SJF\""));
    CHECK(forebay_set(controller, "policy", "AUTO") == 0);
    CHECK(forebay_statistics(controller, text, sizeof text) < (int)sizeof text);
    CHECK(strstr(text, "\"selection\":{"));
    CHECK(forebay_destroy(controller) == 0);
}

int main(void)
{
    a_chosen_policy(FOREBAY_SHARE_NONE);
    a_chosen_policy(FOREBAY_SHARE_SFQ);
    null_and_size();
    bad_options();
    ranges_and_tickets();
    reentry();
    polling();
    waiting();
    waiting_in_vain();
    draining();
    settings_and_classes();
    shares();
    places_of_policies();
    sharing_by_key();
    puts("ok");
    return 0;
}
