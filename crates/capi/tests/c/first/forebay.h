/* The first forebay.h, without its comments: what a program that was compiled against it has. It stays as
 * it is. */
#ifndef FOREBAY_H
#define FOREBAY_H 
#include <stddef.h>
#include <stdint.h>
#define FOREBAY_VERSION 1000
#define FOREBAY_READ 0
#define FOREBAY_WRITE 1
#define FOREBAY_ALONE 2
#define FOREBAY_SYNC 3
#define FOREBAY_WAIT 1
#define FOREBAY_DELIVER_CALL_BACK 0
#define FOREBAY_DELIVER_POLL 1
#define FOREBAY_GUARD_OVERLAP 0
#define FOREBAY_GUARD_CLIENT 1
#define FOREBAY_GUARD_FILE 2
#define FOREBAY_GUARD_NONE 3
#define FOREBAY_SHARE_NONE 0
#define FOREBAY_SHARE_SFQ 1
#define FOREBAY_SHARE_DRR 2
#define FOREBAY_SHARE_TWINS_STRICT 3
#define FOREBAY_SHARE_TWINS 4
#define FOREBAY_LIMIT_BORROW 0
#define FOREBAY_LIMIT_WAIT 1
#define FOREBAY_HINT_MORE 1
#define FOREBAY_HINT_NO_MORE 2
#define FOREBAY_HINT_FORGET 3
#define FOREBAY_SELECT_BATCH 0
#define FOREBAY_SELECT_WAIT 1
#define FOREBAY_SELECT_IDLE 2
#define FOREBAY_POLICY_VERSION 1
struct forebay;
struct forebay_file {
    uint64_t high;
    uint64_t low;
};
struct forebay_turn {
    uint64_t ticket;
    uint64_t id;
    uint64_t offset;
    uint64_t length;
    uint32_t client;
    uint32_t class_id;
};
struct forebay_batch {
    struct forebay_file file;
    uint64_t offset;
    uint64_t length;
    uint32_t operation;
    uint32_t count;
    const struct forebay_turn *turns;
};
typedef void (*forebay_batch_fn)(struct forebay *controller,
                                 const struct forebay_batch *batch,
                                 void *user);
typedef void (*forebay_request_fn)(struct forebay *controller,
                                   const struct forebay_file *file,
                                   uint32_t operation,
                                   const struct forebay_turn *turn,
                                   void *user);
struct forebay_options {
    size_t size;
    const char *policy;
    uint32_t delivery;
    uint32_t guard;
    forebay_batch_fn on_batch;
    forebay_request_fn on_request;
    void *user;
    uint64_t queue_requests_max;
    uint64_t depth;
    uint64_t large_bytes;
    uint32_t no_bypass;
    uint32_t run_requests_max;
    uint64_t run_bytes_max;
    uint64_t batch_bytes_max;
    uint64_t wait_ns;
    uint64_t idle_files_max;
    uint32_t sharing;
    uint32_t classes_max;
    uint64_t class_requests_max;
    uint64_t twins_window_ns;
    uint64_t twins_idle_ns;
    uint32_t twins_targets;
    uint32_t account_rows;
};
struct forebay_share {
    size_t size;
    uint32_t weight;
    uint32_t at_limit;
    uint64_t requests_per_second;
    uint64_t requests_burst;
    uint64_t bytes_per_second;
    uint64_t bytes_burst;
    uint64_t reserved_per_second;
    uint32_t group;
    uint32_t has_group;
};
struct forebay_request {
    uint64_t id;
    struct forebay_file file;
    uint64_t offset;
    uint64_t length;
    uint32_t operation;
    uint32_t flags;
    uint32_t client;
    uint32_t class_id;
};
typedef void (*forebay_back_fn)(const struct forebay_turn *turn, void *user);
struct forebay_policy_request {
    uint64_t request;
    uint64_t seq;
    uint64_t arrived;
    uint64_t offset;
    uint64_t length;
    uint32_t file;
    uint32_t operation;
    uint32_t client;
    uint32_t class_id;
};
struct forebay_policy_ops {
    size_t size;
    uint32_t version;
    uint32_t reserved;
    const char *name;
    void *(*create)(void *user);
    void (*destroy)(void *state);
    void (*add)(void *state, uint64_t now, const struct forebay_policy_request *request);
    int (*select)(void *state,
                  uint64_t now,
                  uint64_t *chosen,
                  uint32_t capacity,
                  uint32_t *count,
                  uint64_t *until);
    void (*complete)(void *state,
                     uint64_t now,
                     const struct forebay_policy_request *request,
                     uint64_t moved);
    int (*cancel)(void *state, uint64_t now, const struct forebay_policy_request *request);
    uint64_t (*drain)(void *state, uint64_t *requests, uint64_t capacity);
    void (*retire)(void *state, uint32_t file);
    uint64_t (*count)(void *state);
};
struct forebay_counters {
    size_t size;
    uint64_t submitted;
    uint64_t rejected;
    uint64_t bypassed;
    uint64_t skipped;
    uint64_t blocked;
    uint64_t batches;
    uint64_t merged;
    uint64_t waits;
    uint64_t waited_ns;
    uint64_t queued_ns;
    uint64_t completed;
    uint64_t cancelled;
    uint64_t taken_back;
    uint64_t switches;
    uint64_t queued_now;
    uint64_t blocked_now;
    uint64_t in_flight_now;
    uint64_t files_now;
    uint64_t policy_failed;
};
#ifdef __cplusplus
extern "C" {
#endif
uint32_t forebay_version(void);
const char *forebay_message(void);
int forebay_options_init(struct forebay_options *options, size_t size);
int forebay_share_init(struct forebay_share *share, size_t size);
int forebay_create(const struct forebay_options *options,
                   struct forebay **controller);
int forebay_destroy(struct forebay *controller);
int forebay_file_of_name(const char *name, struct forebay_file *file);
int forebay_submit(struct forebay *controller,
                   const struct forebay_request *request,
                   uint64_t *ticket);
int forebay_complete(struct forebay *controller,
                     uint64_t ticket,
                     int64_t result);
int forebay_cancel(struct forebay *controller, uint64_t ticket);
int forebay_wait(struct forebay *controller, uint64_t ticket, int64_t timeout_ns);
int forebay_poll(struct forebay *controller,
                 struct forebay_batch *batch,
                 struct forebay_turn *turns,
                 uint32_t capacity);
int forebay_descriptor(struct forebay *controller);
int forebay_hint(struct forebay *controller,
                 uint32_t hint,
                 const struct forebay_file *file,
                 uint64_t ns);
int forebay_drain(struct forebay *controller, int64_t timeout_ns);
int forebay_take_back(struct forebay *controller, forebay_back_fn on_back, void *user);
int forebay_set(struct forebay *controller, const char *key, const char *value);
int forebay_use_policy(struct forebay *controller,
                       const struct forebay_policy_ops *ops,
                       void *user);
int forebay_set_class(struct forebay *controller,
                      uint32_t class_id,
                      const struct forebay_share *share);
int forebay_set_group(struct forebay *controller,
                      uint32_t group,
                      const struct forebay_share *share);
int forebay_read_counters(struct forebay *controller,
                          struct forebay_counters *counters,
                          size_t size);
int forebay_statistics(struct forebay *controller,
                       char *buffer,
                       size_t size);
int forebay_record(struct forebay *controller, const char *path, uint64_t memory);
int forebay_end_record(struct forebay *controller, uint64_t *events, uint64_t *lost);
#ifdef __cplusplus
}
#endif
#endif
