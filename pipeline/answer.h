/*
 * pipeline/answer.h: what a reply, an event and an HTTP body say about a payment: one shape
 * (design §3). Bytes are made once, stored, and repeated as they are.
 */
#ifndef ONCEPAY_PIPELINE_ANSWER_H
#define ONCEPAY_PIPELINE_ANSWER_H

#include "pipeline/event.h"
#include "pipeline/money.h"
#include "pipeline/problem.h"
#include "pipeline/state.h"

struct payment_view {
    struct payment_id payment;
    const char *out_trade_no;
    enum payment_state status;
    int certainty; /* enum certainty of the last attempt; 0 before there is one */
    struct money amount;
    int64_t captured_minor;
    int64_t refunded_minor;
    const char *next_action;  /* JSON map as stored: {"type":"redirect",…}; NULL when none */
    const char *reason;       /* our code, "card_declined"; NULL when none */
    bool safe_to_pay_again;   /* protocol E: FAILED or CANCELED, and nothing open */
    const char *hold;         /* why the target is held; NULL when it is not */
    int64_t next_check_at_us; /* 0 when nothing is planned */
    int64_t version;
};

/* An answer as it is stored under the idempotency key and sent: byte for byte. */
struct answer {
    int status; /* HTTP status: 202 accepted, or the problem's */
    enum content_type content;
    struct span body; /* in the arena */
};

enum { ANSWER_ACCEPTED = 202, ANSWER_CURRENT = 200 };
/* Header of a reply on the bus that carries answer.status in digits, beside content-type. */
#define ANSWER_STATUS_HEADER "pay-status"

/* A next_action that is not a JSON map is an invariant failure: it is our own column. */
struct answer answer_payment(int status, const struct payment_view *view, enum content_type content,
                             struct arena *arena);
/* existing, if given, is added under that name, and its id as `payment` (target_busy …). */
struct answer answer_problem(const struct problem *problem, const struct payment_view *existing,
                             enum content_type content, struct arena *arena);

/* The body of a payment.* event. */
struct span answer_event_body(const struct payment_view *view, enum content_type content,
                              struct arena *arena);
/* The body of request.rejected: the problem with out_trade_no and operation; both may be NULL. */
struct span answer_rejected_body(const struct problem *problem, const char *out_trade_no,
                                 const char *operation, enum content_type content,
                                 struct arena *arena);

#endif
