/*
 * store/query_store.h: one payment as a person wants to see it: everything that the rows say about
 * it, from one snapshot. Read only; nothing here is for stages, whose reads lead to writes.
 * Secrets are not among the columns: no method token, no stored request bytes.
 */
#ifndef ONCEPAY_STORE_QUERY_STORE_H
#define ONCEPAY_STORE_QUERY_STORE_H

#include "pipeline/answer.h"
#include "pipeline/case.h"
#include "pipeline/psp.h"
#include "store/relay_store.h"
#include "store/store.h"

/* --- finding it ------------------------------------------------------------------------------- */

struct query_found {
    struct payment_id payment;
    const char *merchant;
};
/* merchant NULL: any, and then there may be several. */
enum status query_find_number(struct store *store, const char *out_trade_no, const char *merchant,
                              struct arena *arena, struct query_found **out_found,
                              size_t *out_count) MUST_CHECK;
/* The last payment of a target. STATUS_NOT_FOUND: it never had one. */
enum status query_find_target(struct store *store, const char *merchant, const char *kind,
                              const char *id, struct arena *arena,
                              struct query_found *out_found) MUST_CHECK;

/* --- what is known of it ---------------------------------------------------------------------- */

/* Times are microseconds, 0 where there is none; ids are nil, texts NULL likewise. */

struct query_payment {
    struct payment_view view; /* as answers and events show it */
    const char *merchant;
    const char *target_kind; /* NULL only in a tombstone */
    const char *target_id;   /* NULL: no object, no barrier */
    const char *method_type;
    const char *token_realm;
    bool is_capture_manual;
    int64_t authorised_minor;
    int64_t start_by_us;
    int64_t expires_at_us;
    struct attempt_id applied_attempt;
    int32_t applied_version;
    const char *traceparent;
    int64_t created_us;
    struct payment_id pointer_payment; /* nil: the target has no pointer */
    int64_t hold_lifts_us;             /* when a timer lifts the hold */
};

struct query_attempt {
    struct attempt_id id;
    enum operation operation;
    int32_t number;
    int32_t ordinal;
    const char *account;
    struct money amount;
    const char *provider_key;
    const char *provider_object;
    enum attempt_state status;
    enum certainty certainty;
    enum decline_class decline;
    const char *error_code;
    struct evidence_id evidence;
    bool handed_out;
    const char *policy_version;
    const char *routing_version;
    const char *guard_decision;
    int64_t first_sent_us;
    int32_t version;
    int64_t created_us;
    const char *method_type;
    int64_t fence_due_us; /* SENDING: when recover takes it over */
};

struct query_request {
    struct request_id id;
    struct attempt_id attempt;
    enum request_kind kind;
    int32_t step;
    int64_t send_by_us;
    const char *worker;
    int64_t started_us;
    int64_t evidence_count; /* rows that name it; 0: no result is stored */
    enum request_closure closure;
};

struct query_evidence {
    struct evidence_id id;
    struct attempt_id attempt;
    struct request_id request; /* nil: no answer to a request of ours */
    enum evidence_source source;
    enum observation_kind kind;
    enum request_phase phase;
    int32_t http_status;
    const char *error_code;
    const char *provider_status;
    const char *provider_object;
    const char *provider_event;
    const char *reference;
    bool has_amount;
    struct money amount;
    int64_t observed_us; /* the PSP's own time */
    int32_t strength;
    int proves; /* enum certainty; 0: nothing */
    enum request_closure closure;
    int64_t created_us;
};

struct query_task {
    struct task_id id;
    struct attempt_id attempt;
    enum task_purpose purpose;
    enum task_state status;
    int64_t due_us; /* 0: never by itself; LEASED: when the lease runs out */
    const char *lease_owner;
    int32_t step;
    int32_t claims;
    bool stored_error;
    const char *policy_version;
    int64_t first_unknown_us;
    int64_t escalated_us;
    int32_t version;
    int64_t created_us;
};

struct query_case {
    struct case_id id;
    enum case_kind kind;
    struct attempt_id attempt;
    const char *account;
    int32_t priority;
    const char *reason;
    bool is_open;
    int64_t opened_us;
    int64_t closed_us;
    const char *close_reason;
};

struct query_stray {
    struct uuid id;
    struct attempt_id attempt;
    enum stray_kind kind;
    const char *account;
    const char *provider_object;
    bool has_amount;
    struct money amount;
    struct evidence_id evidence;
    bool is_open;
    int64_t created_us;
};

struct query_decision {
    int32_t follows;
    const char *account; /* NULL: no route */
    struct attempt_id attempt;
    const char *routing_version;
    const char *reasons; /* JSON */
    int64_t created_us;
};

struct query_webhook {
    struct inbox_id id;
    const char *account;
    const char *event;
    enum observation_kind kind;
    const char *provider_status;
    const char *provider_object;
    int64_t received_us;
    int64_t processed_us; /* 0: it waits */
    int64_t look_us;
};

struct query_stuck {
    const char *stage;
    const char *account; /* "": none yet */
    int64_t since_us;
    int64_t emitted_us;
    int64_t next_us;
    int32_t emissions;
};

struct query_letter_of {
    struct uuid id;
    const char *consumer;
    const char *code;
    const char *field;
    int32_t replays;
    int64_t replayed_us;
    int64_t created_us;
};

struct query_history {
    enum entity entity;
    struct uuid id;
    int32_t version;
    int from; /* 0: birth */
    int to;
    const char *event;
    const char *why;
    const char *actor;
    struct evidence_id evidence;
    const char *policy_version;
    const char *routing_version;
    int64_t at_us;
};

struct query_command {
    struct outbox_id id;
    const char *subject;
    struct uuid entity;
    int32_t version;
    int64_t created_us;
};

/* All lists are in the order of their times. */
struct query_picture {
    int64_t now_us; /* the database's clock */
    struct query_payment payment;
    struct query_attempt *attempts;
    size_t attempt_count;
    struct query_request *requests;
    size_t request_count;
    struct query_evidence *evidence;
    size_t evidence_count;
    struct query_task *tasks; /* open ones */
    size_t task_count;
    struct query_case *cases;
    size_t case_count;
    struct query_stray *strays;
    size_t stray_count;
    struct query_decision *decisions;
    size_t decision_count;
    struct query_webhook *webhooks;
    size_t webhook_count;
    struct query_stuck *stuck;
    size_t stuck_count;
    struct query_letter_of *letters;
    size_t letter_count;
    struct query_history *history;
    size_t history_count;
    struct query_command *commands;
    size_t command_count;
    const struct relay_row *events;
    size_t event_count;
};

/* Blocks; everything lives in the arena. STATUS_NOT_FOUND: no such payment. */
enum status query_picture_read(struct store *store, struct payment_id payment, struct arena *arena,
                               struct query_picture *out_picture) MUST_CHECK;

/* The text of a recovery policy that a task pinned. STATUS_NOT_FOUND: it is not stored. */
enum status query_policy_text(struct store *store, const char *version, struct arena *arena,
                              const char **out_text) MUST_CHECK;

/* NULL if there is none. */
const struct query_attempt *query_attempt_find(const struct query_picture *picture,
                                               struct attempt_id id);
const struct query_evidence *query_evidence_find(const struct query_picture *picture,
                                                 struct evidence_id id);
const struct query_request *query_request_find(const struct query_picture *picture,
                                               struct request_id id);

#endif
