/*
 * tests/simulation/bank.h: the PSP: its own ledger of charges, idempotency keys with their
 * retention, latency, declines, what stays pending, what the customer can still pay, late arrivals,
 * webhooks. Its profile is one of design §6: faithful, keeping only successes under the key, or
 * with declined objects that stay payable (and say so, or do not).
 */
#ifndef ONCEPAY_TESTS_SIMULATION_BANK_H
#define ONCEPAY_TESTS_SIMULATION_BANK_H

#include "pipeline/psp.h"
#include "tests/simulation/streams.h"

enum bank_profile {
    BANK_FAITHFUL = 0,
    BANK_KEEPS_SUCCESSES,
    BANK_DECLINED_PAYABLE,
    BANK_DECLINED_PAYABLE_UNTOLD, /* the adapter cannot tell; webhooks are reliable then */
    BANK_PROFILES
};

enum charge_state {
    CHARGE_SUCCEEDED = 1,
    CHARGE_DECLINED,
    CHARGE_PENDING,
    CHARGE_CANCELED,
};

struct charge {
    const char *object;
    size_t account;
    const char *key;
    struct money amount;       /* what was asked for */
    struct money amount_shown; /* what it took and shows: another after a wrong echo */
    enum charge_state state;
    bool is_handed_out;
    bool is_payable;
    int64_t succeeded_us;
    unsigned tag;         /* number of the payment, as subject of its choices */
    bool is_remembered;   /* from before our database lost its last commits */
    bool is_contradicted; /* a webhook said the opposite of what the ledger says */
};

enum { CHARGES_MAX = 128, BANK_KEYS_MAX = 96 };

struct bank_key {
    size_t account;
    const char *key;
    int64_t first_us;
    bool is_running;
    bool has_result;
    struct observation result; /* the kept answer */
    unsigned executions;
};

struct bank {
    enum bank_profile profile;
    bool has_webhooks;
    struct psp_capability capability;
    struct charge charges[CHARGES_MAX];
    size_t charge_count;
    struct bank_key keys[BANK_KEYS_MAX];
    size_t key_count;
    unsigned events; /* webhook ids drawn */
    unsigned calls;
};

/* One call from a worker to the PSP. */
struct call {
    struct worker *worker;
    unsigned life;
    size_t account;
    enum request_kind kind;
    const char *key;    /* create, replay */
    const char *object; /* retrieve */
    struct money amount;
    struct request_id request;
    unsigned tag;
    bool is_over; /* the caller has its answer, or gave up */
    void (*answered)(struct world *world, struct call *call, const struct observation *observation);
    void *owner;
};

struct bank *bank_create(void);
void bank_destroy(struct bank *bank);
void bank_begin(struct world *world);
/* Right after the worker's own look at send_by. The answer, or the end of patience, comes later. */
void bank_call(struct world *world, struct call *call);
/*
 * BANK_REMEMBERS: a payment was just accepted, perhaps for the second time: the PSP may have
 * executed its create already, before our database lost its last commits.
 */
void bank_remember(struct world *world, size_t payment);

#endif
