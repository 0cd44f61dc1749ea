/*
 * config/recovery_policy.h: recovery.yaml (design §7): which strategies, delays and budgets an
 * attempt of a channel, method and operation gets when nobody knows its end. A policy is a version:
 * its number and the SHA-256 of its bytes; each task pins one, so an old text can be parsed again.
 */
#ifndef ONCEPAY_CONFIG_RECOVERY_POLICY_H
#define ONCEPAY_CONFIG_RECOVERY_POLICY_H

#include "config/config.h"

enum recovery_strategy {
    RECOVERY_IDEMPOTENT_REPLAY = 1,
    RECOVERY_RETRIEVE,
    RECOVERY_MERCHANT_REFERENCE_SEARCH,
    RECOVERY_WAIT_WEBHOOK,
    RECOVERY_RECONCILIATION,
};
/* "idempotent_replay" …; NULL for a code that is none. */
const char *recovery_strategy_name(int code);

enum { RECOVERY_STRATEGY_MAX = 5, RECOVERY_DELAY_MAX = 32, RECOVERY_VERSION_SIZE = 32 };

struct recovery_rule {
    const char *channel;        /* a PSP's or an account's name; NULL: any */
    const char *payment_method; /* NULL: any */
    int operation;              /* enum operation; 0: any */
    enum recovery_strategy strategies[RECOVERY_STRATEGY_MAX];
    size_t strategy_count;
    int64_t delays_ms[RECOVERY_DELAY_MAX];
    size_t delay_count;
    int64_t
        unknown_age_max_s; /* from the first UNKNOWN; then a case, lookups go on (protocol B7) */
    int64_t query_qps;
    int64_t query_concurrency;
    int line;
    int column;
};

struct recovery_policy {
    struct arena arena; /* owns everything below */
    int64_t number;
    uint8_t hash[32];
    char version[RECOVERY_VERSION_SIZE]; /* "3-9f86d081884c7d65": number and start of the hash */
    struct span source;                  /* the file's bytes, to be stored beside the version */
    struct recovery_rule *rules;
    size_t rule_count;
};

/* What a channel account can do: rules that ask for more are refused. */
struct recovery_channel {
    const struct config_account *account;
    const struct psp_capability *capability;
};

/*
 * With channels: every rule must fit those that it matches, every (account, method, create) must
 * have a rule. With channel_count 0 only the text is checked (an old version that a task pinned).
 * name stands in errors. STATUS_STOP: refused, see out_error.
 */
enum status recovery_policy_parse(const char *name, struct span text,
                                  const struct recovery_channel *channels, size_t channel_count,
                                  struct recovery_policy *out_policy,
                                  struct config_error *out_error) MUST_CHECK;
enum status recovery_policy_load(const char *path, const struct recovery_channel *channels,
                                 size_t channel_count, struct recovery_policy *out_policy,
                                 struct config_error *out_error) MUST_CHECK;
void recovery_policy_finish(struct recovery_policy *policy);

/* The most specific rule; NULL only for a policy parsed without channels. */
const struct recovery_rule *recovery_policy_rule(const struct recovery_policy *policy,
                                                 const char *psp, const char *account,
                                                 const char *payment_method,
                                                 enum operation operation);
/* The delay before probe number n (from 0); after the last, the last repeats. Without jitter. */
int64_t recovery_rule_delay_ms(const struct recovery_rule *rule, size_t probe);

#endif
