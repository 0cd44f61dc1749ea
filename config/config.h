/*
 * config/config.h: oncepay.yaml as a struct: checked, completed with defaults, overridden by
 * ONCEPAY_* variables, secrets read from their files. A loaded configuration is consistent; what
 * is wrong is refused with "file:line:column: what". It is never changed: a reload makes a new one.
 */
#ifndef ONCEPAY_CONFIG_CONFIG_H
#define ONCEPAY_CONFIG_CONFIG_H

#include "pipeline/bus.h"
#include "pipeline/psp.h"

enum { CONFIG_ERROR_SIZE = 512 };

/* "config/oncepay.yaml:12:3: unknown key …"; never contains a secret's value. */
struct config_error {
    char text[CONFIG_ERROR_SIZE];
};

struct config_texts {
    const char *const *items;
    size_t count;
};

struct config_nats {
    const char *url;
    const char *ca_file; /* "" without TLS */
};

struct config_postgres {
    const char *url; /* a libpq connection string or URI */
    int64_t connect_timeout_ms;
    int64_t statement_timeout_ms;
    int64_t lock_timeout_ms;
};

struct config_redis {
    const char *url;
    int64_t connect_timeout_ms;
    int64_t command_timeout_ms;
    int64_t placeholder_ms;
    const char *hmac_key_file;
    struct span hmac_key; /* the file's content */
};

struct config_gateway {
    const char *address;
    int64_t port; /* 0: ephemeral */
    int64_t body_max_bytes;
    int64_t connections_max;
    int64_t answer_wait_ms;
};

struct config_metrics {
    const char *address;
    int64_t port; /* 0: ephemeral */
};

struct config_merchant {
    const char *id;
    int64_t key_lifetime_h;
};

/* Budgets of one channel account in this process (Redis budgets come later). */
struct config_limits {
    int64_t creates_per_s;
    int64_t creates_concurrent;
    int64_t lookups_per_s;
    int64_t lookups_concurrent;
    int64_t open_attempts_max; /* route stops choosing the account above it */
};

struct config_account {
    const char *id;
    const char *psp;
    const char *base_url; /* no trailing slash */
    const char *failure_domain;
    struct config_texts currencies;
    struct config_texts methods;
    struct config_texts token_realms;
    int64_t amount_minor_min;
    int64_t amount_minor_max;
    const char *api_key_file;
    const char *webhook_secret_file;
    const char *webhook_secret_old_file; /* "" unless a rotation is under way */
    int64_t webhook_tolerance_s;
    const char *accept_manual_recovery; /* the owner who works without key or lookup; "" for none */
    struct config_limits limits;
    int line; /* where the account begins in the file */
    int column;
    struct psp_account psp_account; /* the same, as the PSP adapters take it, with secrets */
};

struct config_stage {
    int64_t batch_max; /* messages or rows decided in one transaction */
    int64_t queue_max; /* messages that may wait in the process */
    int64_t
        retry_ms_min; /* waits when infrastructure is away: doubled from min to max, with jitter */
    int64_t retry_ms_max;
};

struct config_stages {
    struct config_stage intake;
    struct config_stage route;
    struct config_stage create;
    struct config_stage recover;
    struct config_stage settle;
};

struct config_relay {
    int64_t poll_ms;
    int64_t command_lag_ms; /* besides postgres.statement_timeout_ms (protocol H1) */
    int64_t batch_max;
    int64_t events_in_flight_max;
    int64_t republish_per_s_max;
};

struct config_stream {
    int64_t messages_max;
    int64_t bytes_max;
};

struct config_streams {
    int64_t replicas;
    int64_t message_bytes_max;
    int64_t duplicate_window_s;
    int64_t ack_wait_s;
    int64_t ack_pending_max;
    int64_t event_age_max_s;
    struct config_stream intake;
    struct config_stream route;
    struct config_stream create;
    struct config_stream recover;
    struct config_stream settle;
    struct config_stream event;
    struct config_stream advisory;
};

/* The times of the protocol. */
struct config_timers {
    int64_t start_by_s;     /* C8 */
    int64_t replay_until_s; /* C5 */
    int64_t send_by_ms;     /* C2: fence to hand-over */
    int64_t call_limit_ms;  /* C2: one PSP call, from hand-over to answer */
    int64_t call_connect_ms;
    int64_t fence_grace_ms;       /* C2: fence_batch due at send_by + call limit + this */
    int64_t lease_s;              /* G: outlives send_by + call limit */
    int64_t stuck_after_s;        /* I */
    int64_t late_arrival_extra_s; /* added to each capability's late-arrival window (C6) */
    int64_t pending_age_max_s;    /* I: PROCESSING longer than this gets a case */
    int64_t drain_s;              /* SIGTERM to exit */
};

struct config {
    struct arena arena; /* owns everything below */
    const char *path;
    const char *installation; /* part of every provider key (C4): never change it */
    bool development;
    const char *recovery_file;
    struct config_nats nats;
    struct config_postgres postgres;
    struct config_redis redis;
    struct config_gateway gateway;
    struct config_metrics metrics;
    struct config_merchant *merchants;
    size_t merchant_count;
    struct config_account *accounts;
    size_t account_count;
    struct config_stages stages;
    struct config_relay relay;
    struct config_streams streams;
    struct config_timers timers;
};

/*
 * path NULL: ONCEPAY_CONFIG, else config/oncepay.yaml. Files named inside are relative to the
 * file's folder. STATUS_STOP: refused, see out_error. The struct is to be finished once loaded.
 */
enum status config_load(const char *path, struct config *out_config,
                        struct config_error *out_error) MUST_CHECK;
/* Wipes the secrets, frees all. A zeroed struct is fine. */
void config_finish(struct config *config);

/* NULL if there is none. */
const struct config_merchant *config_merchant_find(const struct config *config, const char *id);
const struct config_account *config_account_find(const struct config *config, const char *id);
bool config_texts_contain(const struct config_texts *texts, const char *text);

/* card, wallet, qr, voucher, bank_transfer (design §3). */
bool config_method_is_known(const char *method);

/*
 * Can money be recovered there? An account whose PSP has no idempotency key, or no lookup, is
 * refused unless accept_manual_recovery names an owner (design §6).
 */
enum status config_account_check(const struct config *config, const struct config_account *account,
                                 const struct psp_capability *capability,
                                 struct config_error *out_error) MUST_CHECK;

/* The streams and consumers of design §3, for these accounts. Lives in the arena. */
void config_topology(const struct config *config, struct arena *arena,
                     struct bus_topology *out_topology);

/* Every key with type, default, range and help, for people. */
void config_describe(FILE *out);

#endif
