/* A child that was forked is told so by every call, whatever the parent's threads were doing; and
 * makes controllers of its own. The parent goes on as if nothing had been. */
#define _GNU_SOURCE
#include <errno.h>
#include <forebay.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static _Atomic int is_over;

static void on_batch(struct forebay *controller, const struct forebay_batch *batch, void *user)
{
    (void)user;
    for (uint32_t i = 0; i < batch->count; i++)
        forebay_complete(controller, batch->turns[i].ticket, (int64_t)batch->turns[i].length);
}

static struct forebay *make(uint32_t delivery)
{
    struct forebay_options options;
    struct forebay *controller;
    forebay_options_init(&options, sizeof options);
    options.delivery = delivery;
    options.on_batch = delivery == FOREBAY_DELIVER_POLL ? NULL : on_batch;
    CHECK(forebay_create(&options, &controller) == 0);
    return controller;
}

static void use(struct forebay *controller, uint64_t number)
{
    struct forebay_request asked = { .file = { 1, 1 }, .offset = number % 64 * 4096, .length = 4096 };
    CHECK(forebay_submit(controller, &asked, NULL) == 0);
}

static void *busy(void *controller)
{
    for (uint64_t number = 0; !atomic_load(&is_over); number++)
        use(controller, number);
    return NULL;
}

static void child(struct forebay *controller, struct forebay *polled)
{
    struct forebay_request asked = { .file = { 1, 1 }, .length = 4096 };
    struct forebay_counters counters;
    CHECK(forebay_submit(controller, &asked, NULL) == -ECHILD);
    CHECK(forebay_complete(controller, 1, 0) == -ECHILD && forebay_cancel(controller, 1) == -ECHILD);
    CHECK(forebay_wait(controller, 1, -1) == -ECHILD && forebay_drain(controller, -1) == -ECHILD);
    CHECK(forebay_take_back(controller, NULL, NULL) == -ECHILD);
    CHECK(forebay_set(controller, "depth", "3") == -ECHILD && forebay_set(controller, "policy", "TO") == -ECHILD);
    CHECK(forebay_hint(controller, FOREBAY_HINT_NO_MORE, NULL, 0) == -ECHILD);
    CHECK(forebay_read_counters(controller, &counters, sizeof counters) == -ECHILD);
    CHECK(forebay_statistics(controller, NULL, 0) == -ECHILD);
    CHECK(forebay_record(controller, "/dev/null", 1 << 20) == -ECHILD);
    CHECK(forebay_end_record(controller, NULL, NULL) == -ECHILD);
    struct forebay_share share;
    CHECK(forebay_share_init(&share, sizeof share) == 0);
    CHECK(forebay_set_class(controller, 1, &share) == -ECHILD && forebay_set_group(controller, 1, &share) == -ECHILD);
    CHECK(forebay_destroy(controller) == -ECHILD);
    struct forebay_batch batch;
    struct forebay_turn turns[4];
    CHECK(forebay_poll(polled, &batch, turns, 4) == -ECHILD && forebay_descriptor(polled) == -ECHILD);
    CHECK(forebay_submit(polled, &asked, NULL) == -ECHILD && forebay_destroy(polled) == -ECHILD);
    struct forebay *own = make(FOREBAY_DELIVER_CALL_BACK);
    for (uint64_t number = 0; number < 100; number++)
        use(own, number);
    CHECK(forebay_drain(own, -1) == 0 && forebay_destroy(own) == 0);
    _exit(0);
}

int main(void)
{
    struct forebay *controller = make(FOREBAY_DELIVER_CALL_BACK), *polled = make(FOREBAY_DELIVER_POLL);
    use(polled, 0);
    /* The parent's trace has a thread of its own, which no child has. */
    char trace[] = "/tmp/forks-XXXXXX";
    int descriptor = mkstemp(trace);
    CHECK(descriptor >= 0 && close(descriptor) == 0);
    CHECK(forebay_record(controller, trace, 1 << 20) == 0);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, busy, controller);
    for (int i = 0; i < 20; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0)
            child(controller, polled);
        int status;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    }
    is_over = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    uint64_t events;
    CHECK(forebay_end_record(controller, &events, NULL) == 0 && events > 0 && unlink(trace) == 0);
    CHECK(forebay_drain(controller, -1) == 0 && forebay_destroy(controller) == 0);
    struct forebay_batch batch;
    struct forebay_turn turn;
    CHECK(forebay_poll(polled, &batch, &turn, 1) == 1 && forebay_complete(polled, turn.ticket, 4096) == 0);
    CHECK(forebay_destroy(polled) == 0);
    puts("ok");
    return 0;
}
