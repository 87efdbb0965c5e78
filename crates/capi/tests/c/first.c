/* A program that was compiled against the first forebay.h, with its smaller structs: the library looks at
 * nothing behind them, writes nothing there, and takes what they lack as by default. */
#include <errno.h>
#include <forebay.h>
#include <stdint.h>
#include <string.h>

#include "check.h"

#define BEYOND 64

static struct {
    struct forebay_options options;
    unsigned char beyond[BEYOND];
} made_with;
static struct {
    struct forebay_share share;
    unsigned char beyond[BEYOND];
} shared;
static struct {
    struct forebay_counters counters;
    unsigned char beyond[BEYOND];
} counted;

/* On a machine of 64 bits: what stands in programs that exist. */
_Static_assert(sizeof(struct forebay_options) == 152, "the first struct forebay_options");
_Static_assert(sizeof(struct forebay_share) == 64, "the first struct forebay_share");
_Static_assert(sizeof(struct forebay_counters) == 160, "the first struct forebay_counters");
_Static_assert(sizeof(struct forebay_request) == 56, "struct forebay_request has no size of its own");
_Static_assert(sizeof(struct forebay_turn) == 40, "struct forebay_turn has no size of its own");
_Static_assert(sizeof(struct forebay_batch) == 48, "struct forebay_batch has no size of its own");

static int is_untouched(const unsigned char *beyond)
{
    for (int i = 0; i < BEYOND; i++)
        if (beyond[i] != 0xa5)
            return 0;
    return 1;
}

static unsigned carried_out;

static void on_batch(struct forebay *controller, const struct forebay_batch *batch, void *user)
{
    CHECK(user == &carried_out);
    for (uint32_t i = 0; i < batch->count; i++) {
        CHECK(forebay_complete(controller, batch->turns[i].ticket, (int64_t)batch->turns[i].length) == 0);
        carried_out++;
    }
}

int main(void)
{
    struct forebay *controller;
    memset(&made_with, 0xa5, sizeof made_with);
    memset(&shared, 0xa5, sizeof shared);
    memset(&counted, 0xa5, sizeof counted);
    CHECK(forebay_version() >= FOREBAY_VERSION);

    CHECK(forebay_options_init(&made_with.options, sizeof made_with.options) == 0);
    CHECK(made_with.options.size == sizeof made_with.options && made_with.options.depth == 64);
    CHECK(strcmp(made_with.options.policy, "TO-agg") == 0 && made_with.options.account_rows == 0);
    made_with.options.on_batch = on_batch;
    made_with.options.user = &carried_out;
    made_with.options.sharing = FOREBAY_SHARE_DRR;
    made_with.options.account_rows = 8;
    CHECK(forebay_create(&made_with.options, &controller) == 0);
    CHECK(is_untouched(made_with.beyond));

    CHECK(forebay_share_init(&shared.share, sizeof shared.share) == 0);
    CHECK(shared.share.weight == 1 && shared.share.has_group == 0);
    shared.share.weight = 3;
    /* A limit by cost, as the bytes behind would say, would be out of its range. */
    CHECK(forebay_set_class(controller, 7, &shared.share) == 0);
    CHECK(forebay_set_group(controller, 1, &shared.share) == 0);
    CHECK(is_untouched(shared.beyond));

    for (uint64_t id = 0; id < 100; id++) {
        struct forebay_request asked = {
            .id = id, .file = { 1, 2 }, .offset = id * 4096, .length = 4096, .operation = FOREBAY_WRITE,
            .class_id = 7,
        };
        CHECK(forebay_submit(controller, &asked, NULL) == 0);
    }
    CHECK(forebay_drain(controller, -1) == 0 && carried_out == 100);

    CHECK(forebay_read_counters(controller, &counted.counters, sizeof counted.counters) == 0);
    CHECK(counted.counters.size == sizeof counted.counters && counted.counters.completed == 100);
    CHECK(counted.counters.in_flight_now == 0 && counted.counters.policy_failed == 0);
    CHECK(is_untouched(counted.beyond));
    CHECK(forebay_destroy(controller) == 0);
    puts("ok");
    return 0;
}
