/*
 * stages/gateway/gateway_decide.h: what is done with one webhook. Pure. Nothing that is not
 * authentic is kept or counted as evidence; the bytes are verified as they came, before anything
 * reads them (C29, C30).
 *
 * An authentic event that says nothing about a payment (another type, an unknown status) is
 * answered 200 and not kept: it decides nothing whenever it comes again, so there is nothing that
 * a replay of it could do, while PSPs send many kinds of them.
 */
#ifndef ONCEPAY_STAGES_GATEWAY_GATEWAY_DECIDE_H
#define ONCEPAY_STAGES_GATEWAY_GATEWAY_DECIDE_H

#include "pipeline/problem.h"
#include "pipeline/psp.h"

enum gateway_verdict {
    GATEWAY_KEEP = 1, /* store it, then answer 2xx */
    GATEWAY_IGNORE,   /* authentic and of no use: 200 */
    GATEWAY_REFUSE,   /* see problem */
};

struct gateway_webhook {
    const struct psp_ops *ops;
    const struct psp_account *account;
    const struct http_header *headers;
    size_t header_count;
    struct span body; /* the raw bytes */
    int64_t now_s;
};

struct gateway_decision {
    enum gateway_verdict verdict;
    struct observation observation; /* GATEWAY_KEEP; text in the arena */
    struct problem problem;         /* GATEWAY_REFUSE */
};

struct gateway_decision gateway_decide(const struct gateway_webhook *webhook, struct arena *arena);

#endif
