/*
 * stages/route/route_decide.h: which channel account gets the first attempt of a payment: the first
 * of the configuration that serves it and has room, with a reason for each. Pure.
 */
#ifndef ONCEPAY_STAGES_ROUTE_ROUTE_DECIDE_H
#define ONCEPAY_STAGES_ROUTE_ROUTE_DECIDE_H

#include "config/config.h"
#include "store/route_store.h"

/* Why an account was taken or not, in the order of looking. */
enum route_reason {
    ROUTE_REASON_TAKEN = 1,
    ROUTE_REASON_NOT_NEEDED, /* one before it was taken */
    ROUTE_REASON_CURRENCY,
    ROUTE_REASON_METHOD,
    ROUTE_REASON_AMOUNT,
    ROUTE_REASON_TOKEN_REALM,   /* the token belongs to somebody else */
    ROUTE_REASON_INEXPRESSIBLE, /* its PSP has no words for this amount or method */
    ROUTE_REASON_FULL,          /* it serves, but has too many open attempts now */
};
const char *route_reason_name(enum route_reason reason);

struct route_candidate {
    const struct config_account *account;
    int64_t open_attempts;    /* before this payment */
    bool is_inexpressible;    /* its adapter refused to build the request */
    enum route_reason reason; /* out */
};

enum route_verdict {
    ROUTE_NOTHING = 1, /* the command is done already, or overtaken */
    ROUTE_TAKE,
    ROUTE_WAIT, /* who serves is full: a wait, never a failure (protocol F) */
    ROUTE_DENY, /* settle is told */
};

struct route_decision {
    enum route_verdict verdict;
    size_t taken;       /* ROUTE_TAKE: index of the candidate */
    const char *reason; /* a code: of the denial, or why there is nothing to do */
};

/* Sets the candidates' reasons unless the verdict is ROUTE_NOTHING. */
struct route_decision route_decide(const struct route_payment *payment,
                                   struct route_candidate *candidates, size_t count);

#endif
