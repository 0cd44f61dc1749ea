/*
 * tests/simulation/database.h: the store double. One C function per statement of store/sql that the
 * deciders live on, each doing what its SQL does (the file's name stands beside it) and nothing
 * more: no function here decides what a decider decides. A function runs alone and whole, as a
 * transaction that waits for no lock would; what the triggers of 0002_guards.sql refuse is a
 * failure of the run, because no decider may get that far.
 */
#ifndef ONCEPAY_TESTS_SIMULATION_DATABASE_H
#define ONCEPAY_TESTS_SIMULATION_DATABASE_H

#include "stages/recovery_plan.h"
#include "stages/settle/settle_decide.h"
#include "store/intake_store.h"
#include "store/route_store.h"
#include "store/settle_store.h"
#include "store/stray_fact.h"
#include "store/task_store.h"
#include "tests/simulation/world.h"

enum {
    PAYMENTS_MAX = 48,
    ATTEMPTS_MAX = 64,
    REQUESTS_MAX = 1024,
    EVIDENCE_MAX = 1536,
    HISTORY_MAX = 1536,
    OUTBOX_MAX = 3072,
    TASKS_MAX = 256,
    FENCES_MAX = 192,
    FENCE_ATTEMPTS_MAX = 4,
    INBOX_MAX = 256,
    STRAYS_MAX = 64,
    CASES_MAX = 128,
    KEYS_MAX = 96,
    TARGETS_MAX = 8,
    RUNNING_MAX = 256,
};

struct payment_row {
    struct payment_id id;
    const char *merchant;
    const char *out_trade_no;
    const char *target_kind;
    const char *target_id; /* NULL: none */
    struct money amount;
    const char *method_type;
    const char *method_token;
    const char *token_realm;
    enum request_capture capture;
    const char *metadata;
    enum payment_state status;
    int32_t version;
    int certainty;
    const char *reason;
    int announced;
    int64_t authorised_minor;
    int64_t captured_minor;
    struct attempt_id applied_attempt;
    int32_t applied_version;
    int64_t start_by_us;
    int64_t expires_at_us;
    int64_t timer_due_us; /* payment_timer of kind 1; 0: none */
    bool is_told_safe;    /* somebody was told that its target may be paid again */
    bool is_dirty;        /* changed since the last check */
};

/* attempt_row of store/attempt_store.h is what is read; this is what is stored. */
struct stored_attempt {
    struct attempt_id id;
    size_t payment; /* index */
    int32_t ordinal;
    size_t account; /* index */
    const char *provider_key;
    enum attempt_state status;
    enum certainty certainty;
    int32_t version;
    struct evidence_id evidence;
    const char *provider_object;
    const char *error_code;
    enum decline_class decline;
    bool handed_out;
    int64_t first_sent_us;
    int64_t created_us;
    unsigned kills; /* how many workers its task kills yet */
};

struct stored_request {
    struct request_id id;
    size_t attempt;
    enum request_kind kind;
    int64_t send_by_us;
    int64_t started_us;
    const struct worker *worker;
};

struct stored_evidence {
    struct evidence_id id;
    size_t attempt;
    struct request_id request; /* nil: none */
    struct observation observation;
    int proves;
    enum request_closure closure;
    int64_t at_us;
};

struct history_row {
    enum entity entity;
    struct uuid id;
    size_t payment;
    int32_t version;
    int from;
    int to;
    const char *event;
    struct evidence_id evidence;
};

/* A command (kind set) or an event (type set). */
struct outbox_row {
    struct outbox_id id;
    int64_t xid;
    int64_t created_us;
    enum command_kind kind; /* 0: an event */
    size_t stream;          /* of a command: which subject */
    enum event_type type;   /* 0: a command */
    struct uuid entity;
    int32_t version;
    size_t payment; /* SIZE_MAX: none */
    bool safe_to_pay_again;
};

struct stored_task {
    struct task_id id;
    size_t attempt;
    enum task_purpose purpose;
    enum task_state status;
    int64_t due_us; /* INT64_MAX: never by itself */
    int32_t step;
    int32_t claims;
    bool stored_error;
    bool is_escalated;
    int64_t first_unknown_us;
    int32_t version;
    const struct job *locked_by; /* FOR UPDATE; NULL: nobody */
};

struct stored_fence {
    struct uuid id;
    size_t account;
    size_t attempts[FENCE_ATTEMPTS_MAX];
    size_t count;
    int64_t created_us;
    int64_t due_us;
    bool is_gone;
};

struct stored_webhook {
    struct inbox_id id;
    size_t account;
    const char *event_id;
    struct observation observation;
    int64_t received_us;
    int64_t look_at_us;
    int32_t looks;
    bool is_processed;
};

struct stored_stray {
    struct uuid id;
    size_t payment;
    size_t attempt;
    enum stray_kind kind;
    size_t account;
    const char *provider_object;
    struct money amount;
};

struct stored_case {
    struct case_id id;
    enum case_kind kind;
    size_t payment;
    size_t attempt;
    bool is_closed;
};

struct stored_key {
    const char *merchant;
    uint8_t key_hash[32];
    uint8_t fingerprint[32];
    struct intake_answer answer;
    int64_t expires_us;
    struct payment_id payment; /* nil: none */
};

struct stored_target { /* active_payment */
    const char *merchant;
    const char *kind;
    const char *target;
    size_t payment;
    int version;
    const char *hold;
};

/* routing_decision by (payment, follows); follows is 0 as long as there is no failover. */
struct stored_decision {
    struct uuid id;
    size_t payment;
    int follows;
    const char *denied; /* NULL: an account was taken */
};

struct provider_object_row {
    size_t account;
    const char *object;
    size_t attempt;
};

struct database {
    struct payment_row payments[PAYMENTS_MAX];
    size_t payment_count;
    struct stored_attempt attempts[ATTEMPTS_MAX];
    size_t attempt_count;
    struct stored_request requests[REQUESTS_MAX];
    size_t request_count;
    struct stored_evidence evidence[EVIDENCE_MAX];
    size_t evidence_count;
    struct history_row history[HISTORY_MAX];
    size_t history_count;
    struct outbox_row outbox[OUTBOX_MAX];
    size_t outbox_count;
    struct stored_task tasks[TASKS_MAX];
    size_t task_count;
    struct stored_fence fences[FENCES_MAX];
    size_t fence_count;
    struct stored_webhook inbox[INBOX_MAX];
    size_t inbox_count;
    struct stored_stray strays[STRAYS_MAX];
    size_t stray_count;
    struct stored_case cases[CASES_MAX];
    size_t case_count;
    struct stored_key keys[KEYS_MAX];
    size_t key_count;
    struct stored_target targets[TARGETS_MAX];
    size_t target_count;
    struct stored_decision decisions[PAYMENTS_MAX];
    size_t decision_count;
    struct provider_object_row objects[ATTEMPTS_MAX * 2];
    size_t object_count;
    int64_t relay_mark_xid;
    int64_t next_xid;
    const struct job *running[RUNNING_MAX]; /* transactions with a number that have not ended */
    size_t running_count;
    /* Of the statement that runs now. */
    struct worker *writer;
    int64_t xid;
    bool is_dirty; /* something changed since the last check */
    bool has_news; /* an outbox row was written since the relay was woken */
};

struct database *database_create(void);
void database_destroy(struct database *database);
void database_begin(struct world *world);

/* --- transactions ----------------------------------------------------------------------------- */

int64_t database_number(struct database *database, const struct job *job);
void database_end(struct database *database, const struct job *job);
/* The connection of a worker that died: what it had not sent is rolled back. */
void database_hang_up(struct database *database, const struct worker *worker);
void database_unlock(struct database *database, const struct job *job);
/* "xmin:xmax:xip,…" as pg_current_snapshot writes it, in the world's arena; also its xmin. */
const char *database_snapshot(struct world *world, int64_t *out_xmin);

/* --- rows by what names them; SIZE_MAX if there is none --------------------------------------- */

size_t database_payment(const struct database *database, struct payment_id id);
size_t database_payment_by_number(const struct database *database, const char *merchant,
                                  const char *out_trade_no);
size_t database_attempt(const struct database *database, struct attempt_id id);
/* Of the payment, with that ordinal. */
size_t database_attempt_of(const struct database *database, size_t payment, int32_t ordinal);
size_t database_target(const struct database *database, const char *merchant, const char *kind,
                       const char *target);
/* The pointer that names this payment. */
size_t database_pointer_of(const struct database *database, size_t payment);
size_t database_decision(const struct database *database, size_t payment, int follows);
/* The unresolved task of the attempt. */
size_t database_task_of(const struct database *database, size_t attempt);
size_t database_task(const struct database *database, struct task_id id);
size_t database_webhook(const struct database *database, struct inbox_id id);
const struct stored_evidence *database_evidence(const struct database *database,
                                                struct evidence_id id);
bool database_has_case(const struct database *database, size_t attempt, enum case_kind kind);
bool database_payment_has_open_case(const struct database *database, size_t payment,
                                    bool only_grave);
bool database_payment_has_stray(const struct database *database, size_t payment);

/* What stands open about an attempt's sending requests (attempt_load.sql, task_pick.sql). */
struct request_sums {
    bool is_answered; /* an answer or replay of known outcome */
    int64_t open;     /* except the one left out */
    int64_t sends;
    int64_t last_send_by_us; /* 0: none */
};
struct request_sums database_requests_of(const struct database *database, size_t attempt,
                                         struct request_id except, bool keeps_results);

/* --- guarded writes --------------------------------------------------------------------------- */

/* Status, version + 1 and history; a pair that is not listed fails the run. */
void database_move_payment(struct world *world, size_t payment, enum payment_state next,
                           const char *event, struct evidence_id evidence);
void database_move_attempt(struct world *world, size_t attempt, enum attempt_state next,
                           const char *event, struct evidence_id evidence);
void database_move_task(struct world *world, size_t task, enum task_state next);
void database_birth(struct world *world, enum entity entity, struct uuid id, size_t payment, int to,
                    const char *event);
void database_command(struct world *world, struct outbox_id id, enum command_kind kind,
                      size_t stream, struct uuid entity, int32_t version, size_t payment);
void database_event(struct world *world, struct outbox_id id, enum event_type type, size_t payment,
                    int32_t version, bool safe_to_pay_again);
/* A row number; fails the run when the table is full. */
size_t database_room(struct world *world, size_t *count, size_t limit, const char *table);

/* --- statements ------------------------------------------------------------------------------- */

/* intake_read.sql */
void db_intake_read(struct world *world, const struct pay_request *request,
                    struct intake_found *out);
/* intake_view.sql */
void db_intake_view(struct world *world, struct payment_id id, struct payment_view *out);
/* intake_accept.sql, intake_answer.sql, intake_reject.sql: all or STATUS_LOST_RACE. */
struct intake_accepting {
    struct payment_id id;
    const struct pay_request *request;
    int64_t start_by_us;
    int64_t key_lifetime_us;
    struct intake_answer answer;
    struct payment_id pointer_payment;
    int pointer_version;
    struct outbox_id event;
    struct outbox_id command;
};
enum status db_intake_accept(struct world *world, const struct intake_accepting *accept);
enum status db_intake_answer(struct world *world, const struct pay_request *request,
                             struct payment_id payment, int64_t key_lifetime_us,
                             const struct intake_answer *answer);
void db_intake_reject(struct world *world, struct outbox_id id);

/* route_read.sql, route_open.sql, route_take.sql, route_deny.sql */
void db_route_read(struct world *world, struct payment_id id, int follows,
                   struct route_payment *out);
int64_t db_route_open(struct world *world, size_t account);
struct route_taking {
    struct payment_id payment;
    int version;
    struct attempt_id attempt;
    int ordinal;
    size_t account;
    const char *provider_key;
    struct uuid decision;
    struct outbox_id command;
};
enum status db_route_take(struct world *world, const struct route_taking *take);
enum status db_route_deny(struct world *world, struct payment_id id, int version, int follows,
                          struct uuid decision, const char *reason, struct outbox_id command);

/* attempt_fence.sql for one attempt; the fence_batch row of all that moved follows. */
void db_attempt_fence(struct world *world, struct attempt_id id, struct request_id request,
                      size_t account, int64_t send_by_us, struct fence_row *out);
void db_fence_batch(struct world *world, struct uuid id, size_t account,
                    const struct fence_row *rows, size_t count, int64_t due_us);
/* attempt_fail_local.sql; 0: it did not move, else its new version. */
int32_t db_attempt_fail_local(struct world *world, const struct local_end *end);
/* attempt_load.sql */
bool db_attempt_load(struct world *world, struct attempt_id attempt, struct request_id except,
                     struct attempt_row *out);
/* attempt_result.sql; out 0: the CAS did not move it, else its new version. Or STATUS_LOST_RACE. */
enum status db_attempt_result(struct world *world, const struct attempt_outcome *outcome,
                              int32_t *out_version);
/* fence_done.sql, fence_claim.sql */
void db_fence_done(struct world *world, struct uuid id);
struct claimed_fence {
    struct uuid id;
    struct attempt_id attempts[FENCE_ATTEMPTS_MAX];
    struct request_id requests[FENCE_ATTEMPTS_MAX];
    size_t count; /* 0: none is left in SENDING */
};
size_t db_fence_claim(struct world *world, size_t account, int64_t lease_us,
                      struct claimed_fence *out, size_t limit);
/* case_open.sql, case_close.sql */
void db_case_open(struct world *world, const struct case_opening *opening);
void db_case_close(struct world *world, const struct case_closing *closing);

/* task_due.sql, task_pick.sql, task_claim.sql, task_schedule.sql … */
size_t db_task_due(struct world *world, size_t account, struct task_due *out, size_t limit);
bool db_task_pick(struct world *world, const struct job *job, struct task_id task,
                  struct task_row *out);
bool db_task_claim(struct world *world, const struct task_claim *claim, int64_t lease_us,
                   int64_t send_by_us, size_t account);
void db_task_schedule(struct world *world, const struct task_schedule *schedule);
void db_task_wake(struct world *world, size_t attempt);
void db_task_resolve(struct world *world, struct task_id id, int32_t version);
void db_task_confirm(struct world *world, struct task_id id, struct attempt_id attempt);
bool db_task_is_locked(const struct world *world, size_t attempt, const struct job *job);
/* timer_lift_hold.sql */
void db_timer_lift_hold(struct world *world);

/* settle_read.sql, settle_hold.sql with settle_move.sql for one payment */
void db_settle_read(struct world *world, const struct command *command, struct settle_facts *out);
enum status db_settle_move(struct world *world, const struct settle_move *move,
                           const struct settle_decision *decision, struct outbox_id event);
/* stray_load.sql; stray_hold.sql, stray_write.sql and what follows: all or STATUS_LOST_RACE */
void db_stray_load(struct world *world, const struct stray_fact_input *input,
                   struct stray_fact_rows *out);
enum status db_stray_write(struct world *world, const struct stray_fact_input *input,
                           const struct stray_fact_rows *rows, const struct stray_fact_plan *plan,
                           struct command *out_commands, size_t *out_count);

/* gateway_keep.sql, inbox_load.sql, inbox_park.sql, inbox_due.sql, inbox_done.sql */
bool db_gateway_keep(struct world *world, struct inbox_id id, size_t account,
                     const struct observation *observation, struct outbox_id command);
bool db_inbox_load(struct world *world, struct inbox_id id, struct inbox_row *out);
void db_inbox_park(struct world *world, struct inbox_id id);
size_t db_inbox_due(struct world *world, size_t account, struct inbox_id *out, size_t limit);
void db_inbox_done(struct world *world, struct inbox_id id);

/* relay_events.sql: a page of what the snapshot shows and the base does not. */
struct relay_row_double {
    int64_t xid;
    size_t outbox;
};
struct relay_page_double {
    const char *snapshot;
    int64_t xmin;
    struct relay_row_double *rows;
    size_t count;
};
void db_relay_events(struct world *world, const char *base, const char *target, int64_t after_xid,
                     struct uuid after_id, size_t limit, struct relay_page_double *out);
/* relay_events_before.sql for one payment; returns how many. */
size_t db_relay_events_before(struct world *world, size_t payment, int32_t version,
                              int64_t after_xid, struct uuid after_id, const char *text,
                              struct relay_row_double *out, size_t limit);
/* relay_unmoved_*.sql: does what the command names stand where it stood? */
bool db_relay_unmoved(struct world *world, const struct outbox_row *row);

#endif
