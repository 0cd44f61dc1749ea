/*
 * ops/sim/idempotency.h: what a PSP remembers under an idempotency key, and what it makes of the
 * next request with that key. Keys live 24 h of virtual time, which POST /_sim/clock moves on.
 */
#ifndef ONCEPAY_SIM_IDEMPOTENCY_H
#define ONCEPAY_SIM_IDEMPOTENCY_H

#include "ops/sim/charge.h"
#include "ops/sim/faults.h"
#include "ops/sim/table.h"
#include "pipeline/hash.h"

enum { IDEMPOTENCY_RETENTION_S = 24 * 3600, IDEMPOTENCY_KEY_LENGTH_MAX = 255 };

enum idempotency_state {
    IDEMPOTENCY_SEEN = 1, /* arrived, but nothing is stored: the next request runs */
    IDEMPOTENCY_RUNNING,
    IDEMPOTENCY_ANSWERED,
};

/* The stored first answer: a server error, or a charge in the state that it had then. */
struct idempotency_answer {
    int status;
    const struct charge *charge; /* NULL: nothing was executed */
    enum charge_state state;
    char decline_code[CHARGE_CODE_SIZE];
    bool is_server_error;
};

/* The faults drawn for a create at its key's first arrival; kind is FAULT_NONE where none hit. */
struct create_plan {
    struct fault answer;
    struct fault delay;
    struct fault answer_delay;
    struct fault outcome;
    struct fault echo;
    struct fault contradiction;
};

struct idempotency_key {
    const struct account *account;
    char *key; /* NULL: a request without one, not in the index */
    uint8_t fingerprint[HASH_SIZE];
    int64_t first_seen_s; /* virtual */
    enum idempotency_state state;
    struct idempotency_answer answer;
    bool is_planned;          /* by this process */
    struct create_plan *plan; /* NULL: no fault was drawn */
};

enum idempotency_verdict {
    IDEMPOTENCY_RUN = 1,     /* execute it */
    IDEMPOTENCY_REPLAY,      /* give the stored answer */
    IDEMPOTENCY_MISMATCH,    /* the key belongs to another request */
    IDEMPOTENCY_IN_PROGRESS, /* the first is still running */
};

/* SHA-256 over path and body. */
void idempotency_fingerprint(const char *path, struct span body, uint8_t out[HASH_SIZE]);

/* NULL if the key was never seen. */
struct idempotency_key *idempotency_find(const struct table *table, const char *account,
                                         const char *key);
/* The key must not be in the table; key may be NULL for a record outside of it. */
struct idempotency_key *idempotency_add(struct table *table, const struct account *account,
                                        const char *key);
/* A key whose retention has passed is forgotten here and runs again. */
enum idempotency_verdict idempotency_judge(struct idempotency_key *entry,
                                           const uint8_t fingerprint[HASH_SIZE], int64_t now_s);
void idempotency_destroy(struct idempotency_key *entry);

#endif
