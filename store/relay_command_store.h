/*
 * store/relay_command_store.h: what the relay reads and writes to follow commands: pages of them by
 * subject, whether each moved what it names, new rows for the lost, and the list of the stuck
 * (protocol H1, I). All calls block.
 */
#ifndef ONCEPAY_STORE_RELAY_COMMAND_STORE_H
#define ONCEPAY_STORE_RELAY_COMMAND_STORE_H

#include "pipeline/command.h"
#include "store/store.h"

/* The outbox entity of a kind. */
int relay_command_entity(enum command_kind kind);

/* Where the relay stands with one command subject. */
struct relay_command_mark {
    const char *subject;
    int64_t mark_us;
};

/* A command as its outbox row has it, and what became of it. */
struct relay_command {
    size_t place; /* which of the subjects asked for */
    struct command command;
    bool is_foreign; /* of a later build; nothing but created_us says anything */
    int64_t created_us;
    /* relay_command_store_check: */
    bool is_unmoved;     /* false: it moved, or a dead letter of the payment waits for a person */
    int state;           /* of the payment; 0: none */
    int64_t since_us;    /* when what waits came into its state */
    const char *account; /* "": none yet */
    bool is_known_stuck; /* its row in the list decides about it */
};

struct relay_command_page {
    int64_t now_us;
    struct relay_command *commands; /* by place and created_us */
    size_t count;
};
/*
 * Per subject the next limit commands behind its mark that are at least age_ms old. Those of one
 * moment stay together, so a subject may give more. Everything lives in the arena.
 */
enum status relay_command_store_page(struct store *store, const struct relay_command_mark *marks,
                                     size_t count, int64_t age_ms, int32_t limit, int64_t floor_us,
                                     struct arena *arena,
                                     struct relay_command_page *out_page) MUST_CHECK;

/* Looks up, by primary key, whether each command moved what it names. */
enum status relay_command_store_check(struct store *store, struct relay_command *commands,
                                      size_t count, struct arena *arena) MUST_CHECK;

/* When the command was written that opens a message. STATUS_NOT_FOUND: none of ours. */
enum status relay_command_store_born(struct store *store, struct outbox_id id, const char *subject,
                                     int64_t *out_created_us) MUST_CHECK;

/* A command that goes out once more, under a new outbox id. */
struct relay_emission {
    const char *subject;
    int entity;
    struct command command; /* .outbox is the new row */
};

/* A command that has waited for too long. */
struct relay_stuck {
    enum command_kind kind;
    struct uuid entity_id;
    int32_t version;
    struct payment_id payment;
    const char *subject;
    const char *stage;
    const char *account;
    int state;
    int64_t since_us;
    /* Of a row that is in the list already: */
    int64_t emitted_us;
    int32_t emissions;
    bool is_emitted; /* now */
};

/* One transaction: the new rows, the marks behind them, and what is stuck by now. */
struct relay_command_end {
    const struct relay_emission *emissions;
    size_t emission_count;
    const struct relay_command_mark *marks; /* names: "command:<subject>" */
    size_t mark_count;
    const struct relay_stuck *stuck;
    size_t stuck_count;
    int64_t stuck_wait_ms; /* until a stuck one is looked at again */
};
enum status relay_command_store_end(struct store *store, const struct relay_command_end *end,
                                    struct arena *arena) MUST_CHECK;

/* --- the list of the stuck ---------------------------------------------------------------- */

enum status relay_command_store_due(struct store *store, int32_t limit, struct arena *arena,
                                    struct relay_stuck **out_stuck, size_t *out_count) MUST_CHECK;

/* One transaction: what moved leaves the list; what did not is looked at, or emitted, later. */
struct relay_stuck_round {
    const struct relay_stuck *moved;
    size_t moved_count;
    const struct relay_stuck *again;
    size_t again_count;
    const struct relay_emission *emissions;
    size_t emission_count;
    int64_t wait_ms_min;
    int64_t wait_ms_max;
};
enum status relay_command_store_round(struct store *store, const struct relay_stuck_round *round,
                                      struct arena *arena) MUST_CHECK;

struct relay_stuck_case {
    bool is_opened; /* else closed */
    const char *stage;
    const char *account; /* "": none */
    int64_t count;       /* stuck commands, when opened */
};
/* Opens and closes the cases of work that has been stuck for age_ms: one per stage and account. */
enum status relay_command_store_cases(struct store *store, int64_t age_ms, struct arena *arena,
                                      const struct relay_stuck_case **out_cases,
                                      size_t *out_count) MUST_CHECK;

#endif
