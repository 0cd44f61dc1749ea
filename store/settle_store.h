/*
 * store/settle_store.h: what settle reads and writes: the payment, attempt, requests, pointer and
 * open cases that a command is about, fresh and for a whole batch in one statement; and the moves
 * of the payments, their history and events, with the pointers' holds, in one transaction.
 */
#ifndef ONCEPAY_STORE_SETTLE_STORE_H
#define ONCEPAY_STORE_SETTLE_STORE_H

#include "pipeline/command.h"
#include "pipeline/judge.h"
#include "store/payment_event.h"
#include "store/store.h"

/* The payment's row. Text lives in the arena of the reading. */
struct settle_payment {
    bool exists;
    struct payment_id id;
    const char *merchant;
    const char *out_trade_no;
    struct money amount;
    bool capture_manual;
    enum payment_state status;
    int32_t version;
    int certainty; /* enum certainty */
    const char *reason;
    int announced; /* enum settle_announced bits */
    int64_t authorised_minor;
    int64_t captured_minor;
    int64_t refunded_minor;
    const char *next_action;
    struct attempt_id applied_attempt; /* nil: no news applied yet */
    int32_t applied_ordinal;           /* 0: no news applied yet */
    int32_t applied_version;
    const char *traceparent;
};

/* payment.announced: events that come at most once. Stored: never renumbered. */
enum settle_announced {
    ANNOUNCED_PROCESSING = 1,
    ANNOUNCED_UNKNOWN = 2,
    ANNOUNCED_ACTION_REQUIRED = 4,
};

/* The attempt that a COMMAND_SETTLE names, and what it left open. */
struct settle_attempt {
    bool exists;
    struct attempt_id id;
    enum operation operation;
    int32_t ordinal;
    enum attempt_state status;
    enum certainty certainty;
    int32_t version;
    enum decline_class decline;
    const char *error_code;
    const char *channel_account;
    const char *provider_key;
    const char *provider_object; /* NULL when no fact has given one */
    struct money amount;
    bool handed_out;
    struct evidence_id evidence; /* what proves an end; nil before there is one */
    int evidence_source;         /* enum evidence_source of it; 0: none */
    bool has_evidence_amount;
    struct money evidence_amount; /* what that evidence says was paid */
    /* Of the newest parsed answer, if something was handed out to the customer; else NULL. */
    const char *last_excerpt;
    bool is_cited;         /* the payment's history cites its end: applied before */
    int64_t next_check_us; /* when its recovery task is due; 0: none */
    /* Of its creates and replays: closed neither by an answer nor by proof of no effect. */
    int64_t open_requests;
    bool has_known_answer;   /* one of them was answered, and the outcome is known */
    int64_t last_send_by_us; /* when the last one had to be handed over; 0: none was sent */
};

/* What stands around the payment. */
struct settle_around {
    bool has_pointer; /* the target's pointer names this payment */
    int32_t pointer_version;
    const char *pointer_hold;
    bool has_stray_fact;  /* one whose case is not closed */
    bool has_case;        /* any open case of the payment */
    bool has_grave_case;  /* one that questions what is proven (B5, D, unrecorded send) */
    const char *decision; /* COMMAND_NO_ROUTE: why there was no route; NULL: no such decision */
    int64_t now_us;       /* the database's clock */
};

struct settle_facts {
    struct settle_payment payment;
    struct settle_attempt attempt;
    struct settle_around around;
};

/* Reads what the commands are about: out_facts in their order, all text in the arena. */
enum status settle_read(struct store *store, const struct command *const *commands, size_t count,
                        struct arena *arena, struct settle_facts *out_facts) MUST_CHECK;

/* A payment's transition, by the version that was read. */
struct settle_move {
    const struct settle_payment *payment;
    enum payment_state next_status;
    enum certainty certainty;
    const char *reason; /* NULL: none */
    int announced;
    int64_t authorised_minor;
    int64_t captured_minor;
    const char *next_action;           /* JSON map or NULL */
    struct attempt_id applied_attempt; /* nil: as before */
    int32_t applied_version;
    const char *history_event; /* "settled.succeeded" */
    const char *why;
    struct evidence_id evidence;       /* nil: none */
    const struct payment_event *event; /* NULL: none is due */
    /* Of a payment that ends without freeing its target: */
    const char *hold; /* NULL: the pointer stays as it is */
    const struct settle_around *around;
    struct uuid timer; /* nil: no timer */
    int64_t timer_due_us;
};

/*
 * One transaction. out_moved[i] is false where the payment had moved meanwhile: nothing of that
 * move is written. STATUS_LOST_RACE and nothing at all if that befalls a move with a hold.
 */
enum status settle_write(struct store *store, const struct settle_move *moves, size_t count,
                         const char *actor, struct arena *arena, bool *out_moved) MUST_CHECK;

#endif
