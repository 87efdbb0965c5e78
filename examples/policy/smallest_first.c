/* A policy from outside: the smallest request goes first, and after every seven of those the oldest.
 *
 *   make
 *   options.policy = "./smallest_first.so";            at start, or
 *   forebay_set(controller, "policy", "./smallest_first.so");   while it works
 *
 * A policy decides about order only. Requests that conflict never meet here, so nothing that it
 * does can make a read miss a write; and should it lose or invent a request, the library notices,
 * says so, and goes on with TO. Choosing walks all requests, O(n): it is an example. */
#include <forebay.h>
#include <stdlib.h>
#include <string.h>

#define TURNS 8 /* of so many, one is the oldest's: nothing starves */

struct smallest_first {
    struct forebay_policy_request *held;
    uint64_t count, capacity;
    unsigned turn;
};

static void *create(void *user)
{
    (void)user;
    return calloc(1, sizeof(struct smallest_first));
}

static void destroy(void *state)
{
    struct smallest_first *policy = state;
    free(policy->held);
    free(policy);
}

static void add(void *state, uint64_t now, const struct forebay_policy_request *request)
{
    struct smallest_first *policy = state;
    (void)now;
    if (policy->count == policy->capacity) {
        uint64_t capacity = policy->capacity ? 2 * policy->capacity : 64;
        void *larger = realloc(policy->held, capacity * sizeof *policy->held);
        if (!larger)
            return; /* The count says that it was not taken over, so TO takes over instead. */
        policy->held = larger;
        policy->capacity = capacity;
    }
    policy->held[policy->count++] = *request;
}

static uint64_t take(struct smallest_first *policy, uint64_t index)
{
    uint64_t request = policy->held[index].request;
    policy->held[index] = policy->held[--policy->count];
    return request;
}

static int select_next(void *state, uint64_t now, uint64_t *chosen, uint32_t capacity,
                       uint32_t *count, uint64_t *until)
{
    struct smallest_first *policy = state;
    (void)now, (void)capacity, (void)until;
    if (policy->count == 0)
        return FOREBAY_SELECT_IDLE;
    int is_oldest = ++policy->turn % TURNS == 0;
    uint64_t best = 0;
    for (uint64_t i = 1; i < policy->count; i++) {
        const struct forebay_policy_request *a = &policy->held[i], *b = &policy->held[best];
        int is_better = is_oldest || a->length == b->length ? a->seq < b->seq : a->length < b->length;
        if (is_better)
            best = i;
    }
    chosen[0] = take(policy, best);
    *count = 1;
    return FOREBAY_SELECT_BATCH;
}

static int cancel(void *state, uint64_t now, const struct forebay_policy_request *request)
{
    struct smallest_first *policy = state;
    (void)now;
    for (uint64_t i = 0; i < policy->count; i++)
        if (policy->held[i].request == request->request) {
            take(policy, i);
            return 1;
        }
    return 0;
}

static int by_age(const void *a, const void *b)
{
    uint64_t left = ((const struct forebay_policy_request *)a)->seq;
    uint64_t right = ((const struct forebay_policy_request *)b)->seq;
    return (left > right) - (left < right);
}

static uint64_t drain(void *state, uint64_t *requests, uint64_t capacity)
{
    struct smallest_first *policy = state;
    uint64_t count = policy->count < capacity ? policy->count : capacity;
    if (policy->count > 0)
        qsort(policy->held, policy->count, sizeof *policy->held, by_age);
    for (uint64_t i = 0; i < count; i++)
        requests[i] = policy->held[i].request;
    policy->count = 0;
    return count;
}

static uint64_t held_count(void *state)
{
    return ((struct smallest_first *)state)->count;
}

const struct forebay_policy_ops forebay_policy = {
    .size = sizeof(struct forebay_policy_ops),
    .version = FOREBAY_POLICY_VERSION,
    .name = "smallest-first",
    .create = create,
    .destroy = destroy,
    .add = add,
    .select = select_next,
    .cancel = cancel,
    .drain = drain,
    .count = held_count,
};
