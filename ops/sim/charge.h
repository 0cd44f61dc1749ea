/*
 * ops/sim/charge.h: one executed create at the simulated PSP, its states and its row in the
 * ledger. Protocol-neutral: how a PSP's JSON calls these states is the protocol's business.
 */
#ifndef ONCEPAY_SIM_CHARGE_H
#define ONCEPAY_SIM_CHARGE_H

#include "ops/sim/ident.h"
#include "ops/sim/textbuf.h"

enum { CHARGE_CODE_SIZE = 40 };

enum charge_state {
    CHARGE_SUCCEEDED = 1,
    CHARGE_DECLINED,
    CHARGE_PROCESSING,
    CHARGE_ACTION_REQUIRED,
    CHARGE_CANCELED,
};

/* One merchant account; belongs to the protocol whose path first named it. Never freed singly. */
struct account {
    struct account *next;
    char name[65];
    char protocol[16];
};

struct charge {
    const struct account *account;
    char *key; /* NULL: the request carried none */
    char *method;
    char *metadata;   /* a JSON object as text */
    char *return_url; /* NULL: none */
    char object[IDENT_SIZE];
    char charge_id[IDENT_SIZE];
    int64_t amount_minor;
    char currency[4]; /* upper case */
    int64_t created_s;
    int64_t changed_s;
    enum charge_state state;
    char decline_code[CHARGE_CODE_SIZE]; /* "" unless declined */
    bool is_payable;                     /* a decline does not close it (hostile profile) */
    int64_t due_real_ms;                 /* changes by itself then; 0: does not */
    enum charge_state due_state;

    /* Lookups that a get_* rule spoiled, for the rule set of that generation. */
    int64_t spoiled_gets;
    uint64_t spoiled_generation;
};

/* "succeeded", "declined", "processing", "action_required", "canceled": in the log. */
const char *charge_state_name(enum charge_state state);
bool charge_state_parse(const char *name, enum charge_state *out);
/* "succeeded", "failed", "pending", "canceled": in GET /_sim/ledger. */
const char *charge_ledger_word(enum charge_state state);
/* The other way round, for results that tests ask for: succeeded, failed, canceled. */
bool charge_result_parse(const char *word, enum charge_state *out);

/* {account, key, object, amount, currency, state} */
void charge_render_row(const struct charge *charge, struct textbuf *out);
void charge_destroy(struct charge *charge);

#endif
