/*
 * store/route_store.h: what route reads afresh, and the one transaction in which a payment gets
 * its attempt (protocol C1), or settle is told that there is none.
 */
#ifndef ONCEPAY_STORE_ROUTE_STORE_H
#define ONCEPAY_STORE_ROUTE_STORE_H

#include "pipeline/money.h"
#include "pipeline/state.h"
#include "store/store.h"

struct route_question {
    struct payment_id payment;
    int follows; /* the attempt ordinal that the command follows */
};

/* A payment as route needs it. Texts live in the arena. */
struct route_payment {
    bool exists;
    int64_t now_us; /* the database's clock */
    const char *merchant;
    const char *out_trade_no;
    struct money amount;
    const char *method_type;
    const char *method_token;
    const char *token_realm; /* NULL: whoever knows the token */
    bool capture_automatic;
    const char *return_url;
    enum payment_state status;
    int version;
    int64_t start_by_us;
    bool has_attempt;  /* of the ordinal after the one that the command follows */
    bool has_decision; /* for the ordinal that the command follows */
};

struct route_account {
    const char *id;
    int64_t cap;           /* of open attempts */
    int64_t open_attempts; /* out; counting stops near the cap */
};

/* One route_payment per question, in their order, in the arena. */
enum status route_read(struct store *store, const struct route_question *questions, size_t count,
                       struct arena *arena, struct route_payment **out_payments) MUST_CHECK;

/* Sets each account's open_attempts. */
enum status route_count_open(struct store *store, struct route_account *accounts, size_t count,
                             struct arena *arena) MUST_CHECK;

/* A first attempt. */
struct route_take {
    struct payment_id payment;
    int version; /* that was read */
    struct attempt_id attempt;
    int ordinal;
    const char *account;
    const char *provider_key;
    uint8_t request_hash[32];
    struct span request_bytes;
    struct uuid decision;
    const char *reasons; /* JSON: "candidates" that were passed over, each "account" and "reason" */
    struct outbox_id command;
    const char *command_subject;
};

/* No account can take it. */
struct route_deny {
    struct payment_id payment;
    int version; /* that was read */
    int follows;
    struct uuid decision;
    const char *reasons; /* JSON: "reason", why the payment fails, and all "candidates" */
    struct outbox_id command;
    const char *command_subject;
};

struct route_writes {
    const char *actor;
    const char *routing_version;
    struct route_take *takes;
    size_t take_count;
    struct route_deny *denials;
    size_t denial_count;
};

/* All in one transaction. STATUS_LOST_RACE: a payment is not as it was read. */
enum status route_write(struct store *store, const struct route_writes *writes,
                        struct arena *arena) MUST_CHECK;

#endif
