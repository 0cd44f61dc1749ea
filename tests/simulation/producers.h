/*
 * tests/simulation/producers.h: who asks for payments, repeats itself until it hears, changes its
 * mind, and pays again when it is told that this is safe. What they were told is checked against
 * what is stored (I22).
 */
#ifndef ONCEPAY_TESTS_SIMULATION_PRODUCERS_H
#define ONCEPAY_TESTS_SIMULATION_PRODUCERS_H

#include "store/intake_store.h"
#include "tests/simulation/world.h"

enum { PRODUCER_REQUESTS_MAX = 40 };

struct producer_request {
    unsigned number;
    struct pay_request request;
    const char *key; /* header; NULL: the default */
    struct span body;
    bool has_answer;
    struct intake_answer answer; /* the first one heard … */
    int64_t key_expires_us;      /* … and until when it must be the same */
    bool is_paid_again;
    unsigned sends;
};

struct producers {
    struct producer_request requests[PRODUCER_REQUESTS_MAX];
    size_t count;
};

struct producers *producers_create(void);
void producers_destroy(struct producers *producers);
void producers_begin(struct world *world);
/* A reply of intake to the request with that number (its Pay-Reply-To). */
void producers_hear(struct world *world, const char *reply_to, const struct intake_answer *answer,
                    int64_t key_expires_us);
/* An event of the stream: row of the outbox. */
void producers_see(struct world *world, size_t outbox);

#endif
