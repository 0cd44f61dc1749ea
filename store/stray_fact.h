/*
 * store/stray_fact.h: what is done about a fact that contradicts a final attempt or payment
 * (protocol D), in one transaction and by this one function for everybody: the contradicting
 * evidence is stored, a stray fact made (once per account, object and kind), its case opened, the
 * payment's version raised without a change of status, the target held, attempts of the target
 * that have not been sent failed, and the event written.
 *
 * Blocking: stray_fact_write. Non-blocking: send stray_fact_load_call, read it, send
 * stray_fact_calls as one transaction; on STATUS_LOST_RACE start again from the load.
 */
#ifndef ONCEPAY_STORE_STRAY_FACT_H
#define ONCEPAY_STORE_STRAY_FACT_H

#include "pipeline/answer.h"
#include "pipeline/case.h"
#include "pipeline/command.h"
#include "store/attempt_store.h"
#include "store/store.h"

enum {
    STRAY_FACT_CALLS_MAX =
        5, /* of STORE_CALLS_MAX: the caller's own may follow in the same transaction */
    STRAY_FACT_ATTEMPTS_MAX =
        4, /* unsent attempts of a target: one per payment that can have one */
    EVIDENCE_CONFLICT_CALLS_MAX = 2,
};

/* Ids are drawn once, when the fact is observed: a repeat meets its own rows (protocol H5). */
struct stray_fact_input {
    struct uuid id;
    struct case_id case_id;
    struct outbox_id case_event;
    /* A late success becomes a second success when something else of the target holds money. */
    enum stray_kind kind;
    struct payment_id payment;
    struct attempt_id attempt;
    const char *channel_account;
    const char *provider_object; /* the PSP's id of what moved, or what else names it there */
    bool has_amount;
    struct money amount;
    struct evidence_id evidence;
    /* The observation, if its evidence is not stored yet; its verdict changes nothing. */
    const struct attempt_outcome *observed;
    /* Settle: this version of the attempt counts as applied to the payment. 0: not. */
    int32_t applied_version;
    const char *actor;
};

/* The rows around the fact as they are now. Text lives in the arena. */
struct stray_fact_rows {
    bool has_payment;
    bool is_known; /* recorded before: nothing but the evidence is to be stored */
    const char *merchant;
    const char *target_kind;
    const char *target_id;
    const char *traceparent;
    struct payment_view view;
    struct payment_id pointer_payment; /* nil: the target has no pointer */
    int32_t pointer_version;
    bool other_holds_money;
    bool is_case_closed; /* an earlier fact's case of this attempt */
    struct attempt_id unsent[STRAY_FACT_ATTEMPTS_MAX];
    struct payment_id unsent_payments[STRAY_FACT_ATTEMPTS_MAX];
    size_t unsent_count;
};

/* What the calls do. */
struct stray_fact_plan {
    bool is_new; /* false: known before, or no such payment */
    enum stray_kind kind;
    enum event_type event;
    size_t call_count;
    size_t local_end_call; /* place among the calls; call_count: there is none */
    struct local_end ends[STRAY_FACT_ATTEMPTS_MAX];
    size_t end_count;
};

void stray_fact_load_call(struct sql_call *call, struct arena *arena,
                          const struct stray_fact_input *input);
void stray_fact_load_read(const struct store_result *result, struct arena *arena,
                          struct stray_fact_rows *out_rows);

/* plan.call_count may be 0: then there is nothing to send. */
void stray_fact_calls(const struct stray_fact_input *input, const struct stray_fact_rows *rows,
                      struct arena *arena, struct sql_call out_calls[STRAY_FACT_CALLS_MAX],
                      struct stray_fact_plan *out_plan);

/*
 * After the commit: the settle commands of the attempts that were failed, to be announced on their
 * payments' subject_settle. results: of the calls, in their order.
 */
size_t stray_fact_commands(const struct stray_fact_plan *plan, const struct store_result *results,
                           struct arena *arena,
                           struct command out_commands[STRAY_FACT_ATTEMPTS_MAX]);

struct stray_fact_outcome {
    bool is_new;
    enum stray_kind kind;
    struct command commands[STRAY_FACT_ATTEMPTS_MAX];
    size_t command_count;
};

/* All of it, blocking. STATUS_NOT_FOUND: no such payment. */
enum status stray_fact_write(struct store *store, const struct stray_fact_input *input,
                             struct arena *arena,
                             struct stray_fact_outcome *out_outcome) MUST_CHECK;

/*
 * A failure after a success is no stray fact: its evidence, and a case (protocol D). One
 * transaction; returns the number of calls. The last call's rows are the ids of new cases: if there
 * is one, one retrieve of the object is due.
 */
size_t evidence_conflict_calls(const struct attempt_outcome *observed, const char *merchant,
                               const char *account, struct case_id case_id,
                               struct outbox_id case_event, const char *actor, struct arena *arena,
                               struct sql_call out_calls[EVIDENCE_CONFLICT_CALLS_MAX]);

#endif
