/* forebay.h: order and sharing for the requests of an I/O service. Part of Forebay; see forebay(3).
 * Generated from crates/capi by `make header`; not to be edited. */

#ifndef FOREBAY_H
#define FOREBAY_H

#include <stddef.h>
#include <stdint.h>

/**
 * The version of this header: 1,000,000 major + 1,000 minor + patch.
 */
#define FOREBAY_VERSION 1000

/**
 * Reads its range; may be merged with adjacent reads.
 */
#define FOREBAY_READ 0

/**
 * Writes its range; may be merged with adjacent writes.
 */
#define FOREBAY_WRITE 1

/**
 * Changes its range, and is never merged or reordered by a policy: append, truncate, allocate.
 * With length 0 the range is the whole file from `offset` on.
 */
#define FOREBAY_ALONE 2

/**
 * Waits for every earlier write of the file, and holds nothing up: fsync. Its range is not looked at.
 */
#define FOREBAY_SYNC 3

/**
 * A flag of a request: its turn is not delivered; `forebay_wait` sleeps until it comes.
 */
#define FOREBAY_WAIT 1

/**
 * Batches are delivered by calling back.
 */
#define FOREBAY_DELIVER_CALL_BACK 0

/**
 * Batches are delivered when `forebay_poll` asks, and `forebay_descriptor` says when to ask.
 */
#define FOREBAY_DELIVER_POLL 1

/**
 * Requests that share a byte keep their order if one of them writes.
 */
#define FOREBAY_GUARD_OVERLAP 0

/**
 * As overlap within a client; conflicting requests of different clients exclude each other only.
 */
#define FOREBAY_GUARD_CLIENT 1

/**
 * Requests of one file keep their order if one of them writes.
 */
#define FOREBAY_GUARD_FILE 2

/**
 * Nothing but syncs keeps its order: the service has locks of its own.
 */
#define FOREBAY_GUARD_NONE 3

/**
 * No classes: one policy orders everything.
 */
#define FOREBAY_SHARE_NONE 0

/**
 * Classes share by start-time fair queueing at any depth, SFQ(D).
 */
#define FOREBAY_SHARE_SFQ 1

/**
 * Classes share by deficit round robin.
 */
#define FOREBAY_SHARE_DRR 2

/**
 * TWINS: a class is a data server and has its windows; others wait for theirs.
 */
#define FOREBAY_SHARE_TWINS_STRICT 3

/**
 * TWINS, and a server that has nothing lends its window after `twins_idle_ns`.
 */
#define FOREBAY_SHARE_TWINS 4

/**
 * At its limit, a class goes on while nobody else may go, and pays for it later.
 */
#define FOREBAY_LIMIT_BORROW 0

/**
 * At its limit, a class waits.
 */
#define FOREBAY_LIMIT_WAIT 1

/**
 * More requests follow at once: hold dispatch back for `ns`, at most 10^9.
 */
#define FOREBAY_HINT_MORE 1

/**
 * What was to follow is here.
 */
#define FOREBAY_HINT_NO_MORE 2

/**
 * The file is closed: forget it as soon as it has no request.
 */
#define FOREBAY_HINT_FORGET 3

/**
 * A policy's answer: what it has put into `chosen` goes now.
 */
#define FOREBAY_SELECT_BATCH 0

/**
 * A policy's answer: nothing goes until `*until`, or until something changes.
 */
#define FOREBAY_SELECT_WAIT 1

/**
 * A policy's answer: it holds nothing.
 */
#define FOREBAY_SELECT_IDLE 2

/**
 * The version of `struct forebay_policy_ops`.
 */
#define FOREBAY_POLICY_VERSION 1

/**
 * One scheduler and what belongs to it. Any number of threads may use one, and a process may have
 * any number of them.
 */
struct forebay;

/**
 * What a file is: any 128 bits that tell the service's files apart, for example device and inode.
 */
struct forebay_file {
    /**
     * For example the device number.
     */
    uint64_t high;
    /**
     * For example the inode number.
     */
    uint64_t low;
};

/**
 * A request that may go now.
 */
struct forebay_turn {
    /**
     * What `forebay_complete` wants to hear.
     */
    uint64_t ticket;
    /**
     * The service's own mark.
     */
    uint64_t id;
    /**
     * Where it starts, in bytes.
     */
    uint64_t offset;
    /**
     * How many bytes; 0 for everything from `offset` on.
     */
    uint64_t length;
    /**
     * Which client it came from.
     */
    uint32_t client;
    /**
     * Which class it is accounted to.
     */
    uint32_t class_id;
};

/**
 * Requests that may go now, together: one file, one operation, in offset order, without a gap.
 */
struct forebay_batch {
    /**
     * Which file.
     */
    struct forebay_file file;
    /**
     * Where the first starts, in bytes.
     */
    uint64_t offset;
    /**
     * How many bytes they cover together.
     */
    uint64_t length;
    /**
     * What all of them do.
     */
    uint32_t operation;
    /**
     * How many there are; at least 1.
     */
    uint32_t count;
    /**
     * The requests. Each is completed on its own. Valid until the call-back returns, or as long as
     * the array that was given to `forebay_poll`.
     */
    const struct forebay_turn *turns;
};

/**
 * Carries a batch out. Called without any lock held, from any thread that calls the library or from
 * a thread of the library, also from several at a time. It may call every function but those that wait.
 *
 * It returns: an exception, `longjmp`, `pthread_exit` or cancellation must not leave it. Requests behind
 * it in the same thread may have been decided already, up to 15 batches, so it must not wait for others'.
 */
typedef void (*forebay_batch_fn)(struct forebay *controller,
                                 const struct forebay_batch *batch,
                                 void *user);

/**
 * Carries one request out; as `forebay_batch_fn`.
 */
typedef void (*forebay_request_fn)(struct forebay *controller,
                                   const struct forebay_file *file,
                                   uint32_t operation,
                                   const struct forebay_turn *turn,
                                   void *user);

/**
 * What a controller is made with. `forebay_options_init` fills in the defaults.
 */
struct forebay_options {
    /**
     * `sizeof(struct forebay_options)`, by which versions are told apart.
     */
    size_t size;
    /**
     * A policy's name (NOOP, TO, TO-agg, SJF, MLF, aIOLi, HBRR, SW), `auto` for whichever fits the
     * requests, or the path, with a slash, of a shared library that has `forebay_policy`. Default:
     * "TO-agg".
     */
    const char *policy;
    /**
     * `FOREBAY_DELIVER_...`. Default: by calling back.
     */
    uint32_t delivery;
    /**
     * `FOREBAY_GUARD_...`. Default: overlap.
     */
    uint32_t guard;
    /**
     * Called for each batch; or `on_request` is, not both. With neither, every request is waited for.
     */
    forebay_batch_fn on_batch;
    /**
     * Called for each request.
     */
    forebay_request_fn on_request;
    /**
     * Handed to both.
     */
    void *user;
    /**
     * Most requests that wait, 1 to 2^24; what threads submit at the same moment may exceed it by
     * 512. Default: 2^20.
     */
    uint64_t queue_requests_max;
    /**
     * A batch leaves while fewer requests than this are in flight, 1 to 2^24. Default: 64.
     */
    uint64_t depth;
    /**
     * Requests longer than this skip the policy; 0 for none. Default: 2 MiB.
     */
    uint64_t large_bytes;
    /**
     * 0: a request steps around an empty queue; 1: never. Default: 0.
     */
    uint32_t no_bypass;
    /**
     * Most requests in a run, 1 to 65536. Default: 64.
     */
    uint32_t run_requests_max;
    /**
     * Largest run in bytes, 4 KiB to 1 GiB. Default: 1 MiB.
     */
    uint64_t run_bytes_max;
    /**
     * Largest batch of several runs in bytes, `run_bytes_max` to 4 GiB. Default: 4 MiB.
     */
    uint64_t batch_bytes_max;
    /**
     * Longest wait for a better batch, 0 to 10^9 ns. Default: 0, right for devices that gain nothing
     * from order; 900,000 suits disks that seek.
     */
    uint64_t wait_ns;
    /**
     * Files without requests that are remembered. Default: 4,096.
     */
    uint64_t idle_files_max;
    /**
     * `FOREBAY_SHARE_...`. Default: none.
     */
    uint32_t sharing;
    /**
     * Classes that are told apart at a time, 1 to 65000. Default: 1,024.
     */
    uint32_t classes_max;
    /**
     * Most requests of a class that wait, at least 1. Default: 2^18.
     */
    uint64_t class_requests_max;
    /**
     * Length of a TWINS window, 1 us to 60 s. Default: 1 ms.
     */
    uint64_t twins_window_ns;
    /**
     * After how long without requests a TWINS server lends its window, 0 to 60 s. Default: 100 us.
     */
    uint64_t twins_idle_ns;
    /**
     * Data servers that take turns, at least 1; class c is server c mod this. Default: 1.
     */
    uint32_t twins_targets;
    /**
     * Rows of the accounts by class and of those by file, 0 to 65536; 0 keeps none. Default: 0.
     */
    uint32_t account_rows;
    /**
     * Further settings, which hold over the fields above: `KEY=VALUE` with spaces or line ends
     * between, as `forebay_set` has them, such as "sharing.cost=time class.7.policy=SJF". Default:
     * NULL for none.
     */
    const char *settings;
};

/**
 * The share of a class, or of a group of classes. `forebay_share_init` fills in the defaults: weight
 * 1, no limit, no reservation, no group.
 */
struct forebay_share {
    /**
     * `sizeof(struct forebay_share)`.
     */
    size_t size;
    /**
     * Its part in proportion to others', 1 to 1,000,000.
     */
    uint32_t weight;
    /**
     * `FOREBAY_LIMIT_...`.
     */
    uint32_t at_limit;
    /**
     * Most requests a second, and how many at once after a pause; 0 a second for no limit.
     */
    uint64_t requests_per_second;
    /**
     * See above.
     */
    uint64_t requests_burst;
    /**
     * Most bytes a second, and how many at once after a pause; 0 a second for no limit.
     */
    uint64_t bytes_per_second;
    /**
     * See above.
     */
    uint64_t bytes_burst;
    /**
     * Cost a second (bytes, unless `sharing.cost` was set) that the class gets before weights are
     * looked at; 0 for none. Not for groups.
     */
    uint64_t reserved_per_second;
    /**
     * The group of the class; looked at if `has_group` is 1. Not for groups.
     */
    uint32_t group;
    /**
     * 1 if the class is in a group.
     */
    uint32_t has_group;
    /**
     * Most cost a second, and how much at once after a pause; 0 a second for no limit.
     */
    uint64_t cost_per_second;
    /**
     * See above.
     */
    uint64_t cost_burst;
};

/**
 * A request.
 */
struct forebay_request {
    /**
     * The service's own mark, a number or a pointer; handed back with its turn.
     */
    uint64_t id;
    /**
     * Which file.
     */
    struct forebay_file file;
    /**
     * Where it starts, in bytes.
     */
    uint64_t offset;
    /**
     * How many bytes; it must end at 2^63 - 1 or before. 0 with `FOREBAY_ALONE` for everything
     * from `offset` on, as an append or a truncation needs it.
     */
    uint64_t length;
    /**
     * `FOREBAY_READ`, `FOREBAY_WRITE`, `FOREBAY_ALONE` or `FOREBAY_SYNC`.
     */
    uint32_t operation;
    /**
     * 0 or `FOREBAY_WAIT`.
     */
    uint32_t flags;
    /**
     * Which client it comes from; any number.
     */
    uint32_t client;
    /**
     * Which class it is accounted to; any number below 2^32 - 1. When `classes_max` classes are
     * busy or configured, further ones have one place together, which is configured as 2^32 - 1.
     */
    uint32_t class_id;
};

/**
 * Receives a request that was taken back.
 */
typedef void (*forebay_back_fn)(const struct forebay_turn *turn, void *user);

/**
 * A request as a policy from outside sees it.
 */
struct forebay_policy_request {
    /**
     * Its name: what `select` and `drain` answer with.
     */
    uint64_t request;
    /**
     * The order of arrival.
     */
    uint64_t seq;
    /**
     * When it arrived, in nanoseconds on the controller's own clock.
     */
    uint64_t arrived;
    /**
     * Where it starts, in bytes.
     */
    uint64_t offset;
    /**
     * How many bytes.
     */
    uint64_t length;
    /**
     * A small number for its file, until `retire`.
     */
    uint32_t file;
    /**
     * `FOREBAY_READ` or `FOREBAY_WRITE`.
     */
    uint32_t operation;
    /**
     * Which client it came from.
     */
    uint32_t client;
    /**
     * Which class it is accounted to.
     */
    uint32_t class_id;
};

/**
 * A policy from outside: a table of functions. None is called by two threads at a time for one
 * `state`, none may call the library, and all must return soon: the controller is locked meanwhile.
 *
 * The controller holds the policy to its contract: a request that was added leaves exactly once, by
 * `select`, `cancel` or `drain`. The first breach is reported in `struct forebay_counters`, and TO goes
 * on with everything that has not left.
 */
struct forebay_policy_ops {
    /**
     * `sizeof(struct forebay_policy_ops)`.
     */
    size_t size;
    /**
     * `FOREBAY_POLICY_VERSION`.
     */
    uint32_t version;
    /**
     * 0.
     */
    uint32_t reserved;
    /**
     * The policy's name, of at most 31 bytes.
     */
    const char *name;
    /**
     * Makes a policy that holds nothing; NULL for failure. One is made for each class.
     */
    void *(*create)(void *user);
    /**
     * Ends a policy.
     */
    void (*destroy)(void *state);
    /**
     * Takes over a request that may go.
     */
    void (*add)(void *state, uint64_t now, const struct forebay_policy_request *request);
    /**
     * Decides what goes next, `FOREBAY_SELECT_...`: a batch of up to `capacity` requests of one file,
     * class and operation in offset order without a gap, their names in `chosen` and their number in
     * `*count`; or a wait until `*until`, later than `now`.
     */
    int (*select)(void *state,
                  uint64_t now,
                  uint64_t *chosen,
                  uint32_t capacity,
                  uint32_t *count,
                  uint64_t *until);
    /**
     * Hears that a request which it selected has moved so many bytes. May be NULL.
     */
    void (*complete)(void *state,
                     uint64_t now,
                     const struct forebay_policy_request *request,
                     uint64_t moved);
    /**
     * Gives up a request; 1 if it held it, else 0.
     */
    int (*cancel)(void *state, uint64_t now, const struct forebay_policy_request *request);
    /**
     * Gives up everything, oldest first, at most `capacity` names; how many.
     */
    uint64_t (*drain)(void *state, uint64_t *requests, uint64_t capacity);
    /**
     * Forgets what was learned about a file, of which it holds no request. May be NULL.
     */
    void (*retire)(void *state, uint32_t file);
    /**
     * How many requests it holds.
     */
    uint64_t (*count)(void *state);
};

/**
 * The state of a controller; all numbers count from its creation, or are gauges where it says so.
 */
struct forebay_counters {
    /**
     * `sizeof(struct forebay_counters)`.
     */
    size_t size;
    /**
     * Requests accepted.
     */
    uint64_t submitted;
    /**
     * Requests refused because the queue was full, or the class had as many waiting as it may.
     */
    uint64_t rejected;
    /**
     * Of the accepted, those that stepped around the queue.
     */
    uint64_t bypassed;
    /**
     * Of the accepted, those that skipped the policy.
     */
    uint64_t skipped;
    /**
     * Of the accepted, those that had to wait for an earlier conflicting request.
     */
    uint64_t blocked;
    /**
     * Batches that left, bypassed requests not counted.
     */
    uint64_t batches;
    /**
     * Requests that left together with others.
     */
    uint64_t merged;
    /**
     * Decisions to wait for a better batch.
     */
    uint64_t waits;
    /**
     * Time of those waits.
     */
    uint64_t waited_ns;
    /**
     * Time that requests have waited until they were dispatched, summed up.
     */
    uint64_t queued_ns;
    /**
     * Requests completed.
     */
    uint64_t completed;
    /**
     * Requests cancelled.
     */
    uint64_t cancelled;
    /**
     * Requests taken back.
     */
    uint64_t taken_back;
    /**
     * Policy switches.
     */
    uint64_t switches;
    /**
     * Gauge: requests that wait.
     */
    uint64_t queued_now;
    /**
     * Gauge: of them, those that wait for conflicting ones.
     */
    uint64_t blocked_now;
    /**
     * Gauge: requests dispatched and not completed.
     */
    uint64_t in_flight_now;
    /**
     * Gauge: files that are known.
     */
    uint64_t files_now;
    /**
     * 1 if a policy from outside broke its contract and TO has taken its place.
     */
    uint64_t policy_failed;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of the library, as `FOREBAY_VERSION` is of the header.
 */
uint32_t forebay_version(void);

/**
 * What went wrong in this thread's latest call that failed, for people: it names the value and what
 * would be possible. Valid until the thread's next failure; never NULL.
 */
const char *forebay_message(void);

/**
 * Fills in the defaults. `size` is `sizeof(struct forebay_options)`.
 */
int forebay_options_init(struct forebay_options *options, size_t size);

/**
 * Fills in the defaults. `size` is `sizeof(struct forebay_share)`.
 */
int forebay_share_init(struct forebay_share *share, size_t size);

/**
 * Makes a controller. `options` may be NULL for the defaults.
 */
int forebay_create(const struct forebay_options *options,
                   struct forebay **controller);

/**
 * Ends a controller, which must have no request: drain it before. No other thread may use it any more,
 * not even to return from a call: a drain does not wait for threads that are about to return from one,
 * so join them. NULL does nothing. After a failure the controller is still there: -EBUSY, or the errno of
 * a trace that could not be written to its end; the next call then ends it.
 */
int forebay_destroy(struct forebay *controller);

/**
 * The key of a file that is known by its name: a hash of 128 bits.
 */
int forebay_file_of_name(const char *name, struct forebay_file *file);

/**
 * Submits a request. It may be dispatched, and even complete, before this returns. `ticket` may be
 * NULL if the request is never to be cancelled or waited for; its turn has the ticket too.
 */
int forebay_submit(struct forebay *controller,
                   const struct forebay_request *request,
                   uint64_t *ticket);

/**
 * Says that a dispatched request is over: with the number of bytes that it moved, or a negative errno.
 * More bytes than it asked for count as what it asked for, without an end as 2^31 - 4096.
 * As every call that finds something to dispatch, it may call back before it returns, even if it fails.
 */
int forebay_complete(struct forebay *controller,
                     uint64_t ticket,
                     int64_t result);

/**
 * Takes back a request that has not been dispatched. -EBUSY if it has been: it is to be completed.
 * With polling, that may be before `forebay_poll` hands it out: a batch is dispatched as a whole.
 */
int forebay_cancel(struct forebay *controller, uint64_t ticket);

/**
 * Sleeps until it is the turn of a request that was submitted with `FOREBAY_WAIT`, at most
 * `timeout_ns`; for ever if that is negative. The caller then carries it out and completes it.
 */
int forebay_wait(struct forebay *controller, uint64_t ticket, int64_t timeout_ns);

/**
 * Asks what may go now: at most `capacity` requests of one batch, into `turns`; `batch` describes
 * them. Returns how many, 0 if nothing may go. For controllers that deliver by polling.
 */
int forebay_poll(struct forebay *controller,
                 struct forebay_batch *batch,
                 struct forebay_turn *turns,
                 uint32_t capacity);

/**
 * A descriptor that is readable when `forebay_poll` may find something. Not to be read or closed.
 */
int forebay_descriptor(struct forebay *controller);

/**
 * Says something ahead of time, `FOREBAY_HINT_...`: never changes what is right, only what is quick.
 * `file` is looked at by `FOREBAY_HINT_FORGET`, `ns` by `FOREBAY_HINT_MORE`.
 */
int forebay_hint(struct forebay *controller,
                 uint32_t hint,
                 const struct forebay_file *file,
                 uint64_t ns);

/**
 * Takes no more requests, dispatches what waits, and sleeps until nothing is alive, at most
 * `timeout_ns`; for ever if that is negative. Then, and after -ETIMEDOUT, requests are taken again.
 * With polling, another thread has to go on polling meanwhile.
 */
int forebay_drain(struct forebay *controller, int64_t timeout_ns);

/**
 * Takes back everything that has not been dispatched, and calls `on_back` for each request in the
 * order of arrival; their tickets are void. Returns how many. `on_back` may be NULL.
 */
int forebay_take_back(struct forebay *controller, forebay_back_fn on_back, void *user);

/**
 * Changes a setting while the controller works: `policy` (a name, or a path with a slash), that of a
 * class (`class.7.policy`), `device` (`disk` or `flash`, for policy `auto` and cost `time`), `depth`,
 * how classes share, or a parameter; forebay(3) lists them. After a failure nothing has changed.
 */
int forebay_set(struct forebay *controller,
                const char *key,
                const char *value);

/**
 * Puts a policy of the program in charge. The functions must stay until the controller is gone.
 */
int forebay_use_policy(struct forebay *controller,
                       const struct forebay_policy_ops *ops,
                       void *user);

/**
 * Gives a class its share from now on; NULL takes it back. -EINVAL without `sharing`.
 */
int forebay_set_class(struct forebay *controller,
                      uint32_t class_id,
                      const struct forebay_share *share);

/**
 * Gives a group of classes its share from now on; NULL takes it back.
 */
int forebay_set_group(struct forebay *controller,
                      uint32_t group,
                      const struct forebay_share *share);

/**
 * Reads the counters; `size` is `sizeof(struct forebay_counters)`. Never waits for a lock, but may call
 * back before it returns, if there is something to dispatch.
 */
int forebay_read_counters(struct forebay *controller,
                          struct forebay_counters *counters,
                          size_t size);

/**
 * Writes counters, classes, accounts and why policy `auto` has chosen as it has, as JSON, ended by a
 * zero byte, if `size` bytes are enough; forebay(3) lists the members. Returns how many bytes are
 * needed, the zero byte included: if more than `size`, nothing was written. Never waits for a lock,
 * but may call back before it returns, if there is something to dispatch.
 */
int forebay_statistics(struct forebay *controller,
                       char *buffer,
                       size_t size);

/**
 * Records every submission, decision and completion in a file, with at most `memory` bytes, 128 KiB
 * to 1 GiB, on their way to it. What the disk is too slow for is lost, and the trace says how much.
 */
int forebay_record(struct forebay *controller, const char *path, uint64_t memory);

/**
 * Ends the recording. How many events were recorded and lost; both may be NULL.
 */
int forebay_end_record(struct forebay *controller, uint64_t *events, uint64_t *lost);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FOREBAY_H */
