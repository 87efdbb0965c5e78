/* Policies from outside: one that is right, and one for every way of being wrong. Whatever they do,
 * every request is dispatched exactly once.
 *
 *   policies PATH-OF-A-POLICY PATH-OF-A-LIBRARY-WITHOUT-ONE */
#include <errno.h>
#include <forebay.h>
#include <stdint.h>
#include <string.h>

#include "check.h"

#define REQUESTS 40

enum wrong { NOTHING, LOSES, INVENTS, TWICE, EMPTY, IDLE, PAST, MISCOUNTS, NONSENSE, TOO_MANY, FORGETS, UNSORTED, WAYS };

struct policy {
    enum wrong wrong;
    uint64_t held[REQUESTS + 1], count;
    unsigned selections;
};

static int created, destroyed;

static void *create(void *user)
{
    struct policy *policy = calloc(1, sizeof *policy);
    policy->wrong = *(enum wrong *)user;
    created++;
    return policy;
}

static void destroy(void *state)
{
    destroyed++;
    free(state);
}

static void add(void *state, uint64_t now, const struct forebay_policy_request *request)
{
    struct policy *policy = state;
    (void)now;
    if (policy->wrong == LOSES && policy->count == 5)
        return;
    policy->held[policy->count++] = request->request;
}

static int select_next(void *state, uint64_t now, uint64_t *chosen, uint32_t capacity, uint32_t *count, uint64_t *until)
{
    struct policy *policy = state;
    if (policy->count == 0)
        return FOREBAY_SELECT_IDLE;
    enum wrong wrong = ++policy->selections == 4 ? policy->wrong : NOTHING;
    *count = 1;
    chosen[0] = policy->held[--policy->count]; /* the latest first */
    switch (wrong) {
    case INVENTS: chosen[0] = 12345; break;
    case TWICE: chosen[1] = chosen[0]; *count = 2; break;
    case EMPTY: *count = 0; break;
    case IDLE: *count = 0; return FOREBAY_SELECT_IDLE;
    case PAST: *count = 0; *until = now; return FOREBAY_SELECT_WAIT;
    case NONSENSE: return 77;
    case TOO_MANY: *count = capacity + 1; break;
    default: break;
    }
    return FOREBAY_SELECT_BATCH;
}

static int cancel(void *state, uint64_t now, const struct forebay_policy_request *request)
{
    struct policy *policy = state;
    (void)now;
    if (policy->wrong == FORGETS)
        return 0;
    for (uint64_t i = 0; i < policy->count; i++)
        if (policy->held[i] == request->request) {
            memmove(policy->held + i, policy->held + i + 1, (--policy->count - i) * sizeof *policy->held);
            return 1;
        }
    return 0;
}

static uint64_t drain(void *state, uint64_t *requests, uint64_t capacity)
{
    struct policy *policy = state;
    uint64_t count = policy->count < capacity ? policy->count : capacity;
    for (uint64_t i = 0; i < count; i++)
        requests[i] = policy->held[policy->wrong == UNSORTED ? count - 1 - i : i];
    policy->count = 0;
    return count;
}

static void *refuse(void *user)
{
    (void)user;
    return NULL;
}

static uint64_t held_count(void *state)
{
    struct policy *policy = state;
    return policy->count + (policy->wrong == MISCOUNTS && policy->count > 3);
}

static const struct forebay_policy_ops ops = {
    .size = sizeof ops,
    .version = FOREBAY_POLICY_VERSION,
    .name = "latest-first",
    .create = create,
    .destroy = destroy,
    .add = add,
    .select = select_next,
    .cancel = cancel,
    .drain = drain,
    .count = held_count,
};

static unsigned seen[REQUESTS], order[REQUESTS], seen_count;
static uint64_t first_ticket;

static void on_batch(struct forebay *controller, const struct forebay_batch *batch, void *user)
{
    (void)user;
    for (uint32_t i = 0; i < batch->count; i++) {
        const struct forebay_turn *turn = &batch->turns[i];
        seen[turn->id]++;
        order[seen_count++] = (unsigned)turn->id;
        if (turn->id == 0)
            first_ticket = turn->ticket;
        else
            CHECK(forebay_complete(controller, turn->ticket, 1) == 0);
    }
}

static struct forebay *make(uint32_t sharing, const char *policy)
{
    struct forebay_options options;
    struct forebay *controller;
    forebay_options_init(&options, sizeof options);
    options.on_batch = on_batch;
    options.depth = 1;
    options.sharing = sharing;
    if (policy)
        options.policy = policy;
    CHECK(forebay_create(&options, &controller) == 0);
    memset(seen, 0, sizeof seen);
    seen_count = 0;
    return controller;
}

/* One in flight, the others behind it in the policy; two are cancelled; then everything goes. */
static void go(struct forebay *controller, uint64_t length_step)
{
    uint64_t tickets[REQUESTS];
    for (uint64_t id = 0; id < REQUESTS; id++) {
        struct forebay_request asked = {
            .id = id, .file = { 1, id }, .length = 1000 + length_step * (REQUESTS - id), .operation = FOREBAY_READ,
        };
        CHECK(forebay_submit(controller, &asked, &tickets[id]) == 0);
    }
    CHECK(forebay_cancel(controller, tickets[10]) == 0 && forebay_cancel(controller, tickets[20]) == 0);
    CHECK(forebay_complete(controller, first_ticket, 1) == 0);
    CHECK(forebay_drain(controller, -1) == 0);
    CHECK(seen_count == REQUESTS - 2);
    for (unsigned id = 0; id < REQUESTS; id++)
        CHECK(seen[id] == (id != 10 && id != 20));
}

static unsigned has_failed(struct forebay *controller)
{
    struct forebay_counters counters;
    CHECK(forebay_read_counters(controller, &counters, sizeof counters) == 0);
    return (unsigned)counters.policy_failed;
}

static void check_text(struct forebay *controller, const char *policy, const char *absent)
{
    char text[65536];
    CHECK(forebay_statistics(controller, text, sizeof text) > 0);
    CHECK(strstr(text, policy) != NULL && (!absent || strstr(text, absent) == NULL));
}

int main(int count, char **arguments)
{
    CHECK(count == 3);
    for (enum wrong wrong = NOTHING; wrong < WAYS; wrong++) {
        for (uint32_t sharing = FOREBAY_SHARE_NONE; sharing <= FOREBAY_SHARE_SFQ; sharing++) {
            struct forebay *controller = make(sharing, NULL);
            CHECK(forebay_use_policy(controller, &ops, &wrong) == 0);
            go(controller, 0);
            if (wrong == NOTHING)
                CHECK(order[1] == REQUESTS - 1 && order[2] == REQUESTS - 2);
            if (wrong == UNSORTED) {
                /* Found out when it has to give up what it holds. */
                CHECK(!has_failed(controller));
            } else {
                CHECK(has_failed(controller) == (wrong != NOTHING));
                check_text(controller, wrong == NOTHING ? "\"policy\":\"latest-first\"" : "\"policy\":\"TO\"",
                           wrong != NOTHING && sharing == FOREBAY_SHARE_NONE ? "latest-first" : NULL);
                /* It is replaced where it was wrong. */
                if (sharing != FOREBAY_SHARE_NONE)
                    check_text(controller,
                               wrong == NOTHING ? "\"class\":0,\"policy\":\"latest-first\"" : "\"class\":0,\"policy\":\"TO\"",
                               NULL);
            }
            CHECK(forebay_destroy(controller) == 0);
            CHECK(created > 0 && created == destroyed);
        }
    }

    /* Switched away with requests queued, by one that hands them back in the wrong order. */
    enum wrong wrong = UNSORTED;
    struct forebay *controller = make(FOREBAY_SHARE_NONE, NULL);
    CHECK(forebay_use_policy(controller, &ops, &wrong) == 0);
    for (uint64_t id = 0; id < REQUESTS; id++) {
        struct forebay_request asked = { .id = id, .file = { 1, id }, .length = 8 };
        CHECK(forebay_submit(controller, &asked, NULL) == 0);
    }
    CHECK(forebay_set(controller, "policy", "TO") == 0);
    CHECK(forebay_complete(controller, first_ticket, 1) == 0 && forebay_drain(controller, -1) == 0);
    CHECK(seen_count == REQUESTS);
    for (unsigned id = 0; id < REQUESTS; id++)
        CHECK(order[id] == id);
    CHECK(forebay_destroy(controller) == 0 && created == destroyed);

    /* By path: at the start, and while it works. */
    controller = make(FOREBAY_SHARE_NONE, arguments[1]);
    go(controller, 16);
    check_text(controller, "\"policy\":\"smallest-first\"", NULL);
    CHECK(!has_failed(controller) && order[1] == REQUESTS - 1);
    CHECK(forebay_destroy(controller) == 0);
    controller = make(FOREBAY_SHARE_SFQ, "TO");
    CHECK(forebay_set(controller, "policy", arguments[1]) == 0);
    go(controller, 16);
    CHECK(forebay_set(controller, "policy", "/nonexistent.so") == -ELIBACC);
    CHECK(forebay_set(controller, "policy", arguments[2]) == -ELIBBAD);
    CHECK(strstr(forebay_message(), "has no `forebay_policy`") != NULL);
    /* Of one class only, which goes on when the others' changes. */
    CHECK(forebay_set(controller, "policy", "SJF") == 0 && forebay_set(controller, "class.0.policy", arguments[1]) == 0);
    CHECK(forebay_set(controller, "wait_ns", "1000") == 0);
    memset(seen, 0, sizeof seen);
    seen_count = 0;
    go(controller, 16);
    CHECK(!has_failed(controller) && order[1] == REQUESTS - 1);
    check_text(controller, "\"class\":0,\"policy\":\"smallest-first\"", NULL);
    check_text(controller, "\"policy\":\"SJF\"", NULL);
    CHECK(forebay_destroy(controller) == 0);

    struct forebay_policy_ops bad = ops;
    controller = make(FOREBAY_SHARE_NONE, NULL);
    bad.version = 2;
    CHECK(forebay_use_policy(controller, &bad, NULL) == -EPROTONOSUPPORT);
    bad = ops, bad.size = 8;
    CHECK(forebay_use_policy(controller, &bad, NULL) == -EPROTONOSUPPORT);
    bad = ops, bad.select = NULL;
    CHECK(forebay_use_policy(controller, &bad, NULL) == -EINVAL && strstr(forebay_message(), "select is NULL"));
    bad = ops, bad.name = "";
    CHECK(forebay_use_policy(controller, &bad, NULL) == -EINVAL);
    bad = ops, bad.name = NULL;
    CHECK(forebay_use_policy(controller, &bad, NULL) == -EINVAL);
    bad = ops, bad.name = "a name of more than thirty-one bytes";
    CHECK(forebay_use_policy(controller, &bad, NULL) == -EINVAL && strstr(forebay_message(), "1 to 31"));
    bad = ops, bad.create = refuse;
    CHECK(forebay_use_policy(controller, &bad, NULL) == -ENOMEM && strstr(forebay_message(), "create gave NULL"));
    check_text(controller, "\"policy\":\"TO-agg\"", NULL);
    CHECK(forebay_destroy(controller) == 0);
    puts("ok");
    return 0;
}
