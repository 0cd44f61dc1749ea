/*
 * stages/intake/intake_decide.h: what becomes of one valid request, given what the database says
 * (protocol E). Pure: no clock, no I/O, no allocation.
 */
#ifndef ONCEPAY_STAGES_INTAKE_INTAKE_DECIDE_H
#define ONCEPAY_STAGES_INTAKE_INTAKE_DECIDE_H

#include "store/intake_store.h"

/* In the order in which they are looked for: the first that holds is the answer. */
enum intake_verdict {
    INTAKE_REPLAY = 1, /* key and fingerprint known: the stored answer, byte for byte */
    INTAKE_CONFLICT,   /* the key is taken by another request: nothing happens, nothing is stored */
    INTAKE_CANCELED_BEFORE, /* a cancel came first and keeps the number */
    INTAKE_SAME_PAYMENT,    /* the same payment under another key: its first answer */
    INTAKE_TAKEN,           /* the out_trade_no belongs to a payment with other content */
    INTAKE_EXPIRED,         /* start_by has passed */
    INTAKE_TARGET_BUSY,     /* another payment of the target is not over */
    INTAKE_TARGET_HELD,     /* it is over, but something about it is open */
    INTAKE_NEW,
};
/* "replayed", "conflict" … "accepted": for metrics and logs. */
const char *intake_verdict_name(enum intake_verdict verdict);

struct intake_decision {
    enum intake_verdict verdict;
    enum problem_code problem;  /* PROBLEM_NONE: no refusal */
    bool writes_key;            /* the answer is stored under the key */
    struct payment_id existing; /* whose present state goes into a refusal; nil: nobody's */
};

struct intake_decision intake_decide(const struct pay_request *request, int64_t start_by_us,
                                     const struct intake_found *found);

struct intake_age {
    int64_t stored_us;       /* when the message reached the stream, by its server's clock */
    int64_t first_stored_us; /* of a replayed dead letter, as its header says; 0: none */
};

/*
 * Protocol C8: until when the payment may be started. A header counts only if it makes the message
 * older (H6), and a server whose clock runs ahead gives nobody more time than from now on.
 */
int64_t intake_start_by(const struct intake_age *age, int64_t expires_at_us, int64_t start_by_s,
                        int64_t now_us);

/* The header of a replay: microseconds since the epoch. 0 if absent or not such a number. */
#define INTAKE_FIRST_STORED_HEADER "pay-first-stored"
int64_t intake_first_stored(const char *header);

#endif
