/* config/recovery_policy.c: see recovery_policy.h. */
#include "config/recovery_policy.h"

#include "config/schema.h"
#include "pipeline/hash.h"

#define DAY_MS INT64_C(86400000)

/* What the file says, before it is understood. */
struct rule_row {
    const struct tree_node *match;
    const struct tree_node *strategies;
    const struct tree_node *delays;
    int64_t unknown_age_max_ms;
    int64_t query_qps;
    int64_t query_concurrency;
    int line;
    int column;
};
struct policy_row {
    int64_t version;
    struct rule_row *rules;
    size_t rule_count;
};
struct match_row {
    const char *channel;
    const char *payment_method;
    const char *operation;
};

static const struct schema_field MATCH_FIELDS[] = {
    { "channel", SCHEMA_TOKEN, offsetof(struct match_row, channel), .fallback = "",
      .help = "an account, or a PSP with all its accounts" },
    { "payment_method", SCHEMA_TOKEN, offsetof(struct match_row, payment_method), .fallback = "",
      .help = "card, wallet, qr, voucher, bank_transfer" },
    { "operation", SCHEMA_TOKEN, offsetof(struct match_row, operation), .fallback = "",
      .help = "create, capture, void, cancel, refund" },
};
static const struct schema_table MATCH = { MATCH_FIELDS, COUNT_OF(MATCH_FIELDS),
                                           sizeof(struct match_row), SCHEMA_NO_PLACE };

static const struct schema_field RULE_FIELDS[] = {
    { "match", SCHEMA_NODE, offsetof(struct rule_row, match),
      .help = "channel, payment_method, operation; what is left out matches all" },
    { "strategies", SCHEMA_NODE, offsetof(struct rule_row, strategies),
      .help = "tried in this order; one that cannot run is skipped" },
    { "delays", SCHEMA_NODE, offsetof(struct rule_row, delays),
      .help = "waits before the probes; the last one repeats" },
    { "max_unknown_age", SCHEMA_DURATION, offsetof(struct rule_row, unknown_age_max_ms),
      .fallback = "24h", .min = 60000, .max = 90 * DAY_MS,
      .help = "from the first UNKNOWN to a case; lookups go on" },
    { "query_qps", SCHEMA_INTEGER, offsetof(struct rule_row, query_qps), .fallback = "10", .min = 1,
      .max = 100000, .help = "probes per second of an account" },
    { "query_concurrency", SCHEMA_INTEGER, offsetof(struct rule_row, query_concurrency),
      .fallback = "8", .min = 1, .max = 4096, .help = "probes of an account in flight" },
};
static const struct schema_table RULE = { RULE_FIELDS, COUNT_OF(RULE_FIELDS),
                                          sizeof(struct rule_row),
                                          offsetof(struct rule_row, line) };

static const struct schema_field POLICY_FIELDS[] = {
    { "version", SCHEMA_INTEGER, offsetof(struct policy_row, version), .min = 1, .max = INT32_MAX,
      .help = "raised with every change" },
    { "rules", SCHEMA_LIST, offsetof(struct policy_row, rules),
      offsetof(struct policy_row, rule_count), .min = 1, .max = 256, .table = &RULE,
      .help = "the most specific match wins; a tie is refused" },
};
static const struct schema_table POLICY = { POLICY_FIELDS, COUNT_OF(POLICY_FIELDS),
                                            sizeof(struct policy_row), SCHEMA_NO_PLACE };

struct parsing {
    struct schema_reading reading;
    const struct recovery_channel *channels;
    size_t channel_count;
};

#define REFUSE(parsing, place, ...)                                                                \
    tree_refuse((parsing)->reading.error, (parsing)->reading.name, (place)->line, (place)->column, \
                __VA_ARGS__)

const char *recovery_strategy_name(int code)
{
    static const char *const NAMES[] = {
        [RECOVERY_IDEMPOTENT_REPLAY] = "idempotent_replay",
        [RECOVERY_RETRIEVE] = "retrieve",
        [RECOVERY_MERCHANT_REFERENCE_SEARCH] = "merchant_reference_search",
        [RECOVERY_WAIT_WEBHOOK] = "wait_webhook",
        [RECOVERY_RECONCILIATION] = "reconciliation",
    };
    return code > 0 && (size_t)code < COUNT_OF(NAMES) ? NAMES[code] : NULL;
}

static bool strategy_find(const char *name, enum recovery_strategy *out_strategy)
{
    for (int code = 1; code <= RECOVERY_STRATEGY_MAX; code++) {
        if (strcmp(recovery_strategy_name(code), name) != 0) continue;
        *out_strategy = (enum recovery_strategy)code;
        return true;
    }
    return false;
}

static bool strategy_is_built(enum recovery_strategy strategy)
{
    switch (strategy) {
    case RECOVERY_IDEMPOTENT_REPLAY:
    case RECOVERY_RETRIEVE:
    case RECOVERY_WAIT_WEBHOOK:
        return true;
    case RECOVERY_MERCHANT_REFERENCE_SEARCH:
    case RECOVERY_RECONCILIATION:
        return false;
    }
    UNREACHABLE("strategy out of range");
}

static bool strategy_is_possible(enum recovery_strategy strategy,
                                 const struct psp_capability *capability)
{
    switch (strategy) {
    case RECOVERY_IDEMPOTENT_REPLAY:
        return capability->has_idempotency_key;
    case RECOVERY_RETRIEVE:
        return capability->has_retrieve;
    case RECOVERY_MERCHANT_REFERENCE_SEARCH:
        return capability->has_search;
    case RECOVERY_WAIT_WEBHOOK:
    case RECOVERY_RECONCILIATION:
        return true;
    }
    UNREACHABLE("strategy out of range");
}

static bool is_account(const struct parsing *parsing, const char *channel)
{
    for (size_t i = 0; i < parsing->channel_count; i++) {
        if (strcmp(parsing->channels[i].account->id, channel) == 0) return true;
    }
    return false;
}

static bool is_channel(const struct parsing *parsing, const char *name)
{
    for (size_t i = 0; i < parsing->channel_count; i++) {
        if (strcmp(parsing->channels[i].account->psp, name) == 0) return true;
    }
    return is_account(parsing, name);
}

static enum status read_match(const struct parsing *parsing, const struct rule_row *row,
                              const char *path, struct recovery_rule *rule)
{
    struct match_row match = { 0 };
    if (row->match == NULL) return REFUSE(parsing, row, "%s.match is missing", path);
    const char *match_path = arena_format(parsing->reading.arena, "%s.match", path);
    TRY(schema_read(&parsing->reading, &MATCH, row->match, match_path, &match));
    if (match.channel[0] != '\0') {
        if (parsing->channel_count > 0 && !is_channel(parsing, match.channel)) {
            return REFUSE(parsing, tree_find(row->match, "channel"),
                          "%s.channel: \"%s\" is neither an account nor its PSP", match_path,
                          match.channel);
        }
        rule->channel = match.channel;
    }
    if (match.payment_method[0] != '\0') {
        if (!config_method_is_known(match.payment_method)) {
            return REFUSE(parsing, tree_find(row->match, "payment_method"),
                          "%s.payment_method: \"%s\" is no payment method", match_path,
                          match.payment_method);
        }
        rule->payment_method = match.payment_method;
    }
    if (match.operation[0] == '\0') return STATUS_OK;
    for (int code = OPERATION_CREATE; code <= OPERATION_REFUND; code++) {
        if (strcmp(operation_name(code), match.operation) == 0) rule->operation = code;
    }
    if (rule->operation != 0) return STATUS_OK;
    return REFUSE(parsing, tree_find(row->match, "operation"),
                  "%s.operation: \"%s\" is no operation", match_path, match.operation);
}

/* The item as a word; sequences of words are what strategies and delays are made of. */
static enum status check_words(const struct parsing *parsing, const struct rule_row *row,
                               const struct tree_node *list, const char *path, size_t count_max)
{
    if (list == NULL) return REFUSE(parsing, row, "%s is missing", path);
    if (list->kind != TREE_SEQUENCE) return REFUSE(parsing, list, "%s: must be a list", path);
    if (list->count == 0 || list->count > count_max) {
        return REFUSE(parsing, list, "%s: has %zu items, allowed are 1..%zu", path, list->count,
                      count_max);
    }
    for (size_t i = 0; i < list->count; i++) {
        if (list->values[i]->kind != TREE_SCALAR) {
            return REFUSE(parsing, list->values[i], "%s[%zu]: must be one value", path, i);
        }
    }
    return STATUS_OK;
}

static enum status read_strategies(const struct parsing *parsing, const struct rule_row *row,
                                   const char *path, struct recovery_rule *rule)
{
    const struct tree_node *list = row->strategies;
    path = arena_format(parsing->reading.arena, "%s.strategies", path);
    TRY(check_words(parsing, row, list, path, RECOVERY_STRATEGY_MAX));
    for (size_t i = 0; i < list->count; i++) {
        const struct tree_node *item = list->values[i];
        enum recovery_strategy strategy;
        if (!strategy_find(item->text, &strategy)) {
            return REFUSE(parsing, item, "%s[%zu]: unknown strategy \"%.64s\"", path, i,
                          item->text);
        }
        if (!strategy_is_built(strategy)) {
            return REFUSE(parsing, item, "%s[%zu]: %s is not available in this version", path, i,
                          item->text);
        }
        for (size_t j = 0; j < i; j++) {
            if (rule->strategies[j] != strategy) continue;
            return REFUSE(parsing, item, "%s[%zu]: %s stands twice", path, i, item->text);
        }
        if (strategy == RECOVERY_WAIT_WEBHOOK && i + 1 < list->count) {
            return REFUSE(parsing, item, "%s[%zu]: wait_webhook must be the last", path, i);
        }
        rule->strategies[rule->strategy_count++] = strategy;
    }
    return STATUS_OK;
}

static enum status read_delays(const struct parsing *parsing, const struct rule_row *row,
                               const char *path, struct recovery_rule *rule)
{
    const struct tree_node *list = row->delays;
    path = arena_format(parsing->reading.arena, "%s.delays", path);
    TRY(check_words(parsing, row, list, path, RECOVERY_DELAY_MAX));
    for (size_t i = 0; i < list->count; i++) {
        const char *item_path = arena_format(parsing->reading.arena, "%s[%zu]", path, i);
        TRY(schema_read_duration(&parsing->reading, list->values[i], item_path, 100, DAY_MS,
                                 &rule->delays_ms[i]));
    }
    rule->delay_count = list->count;
    return STATUS_OK;
}

static enum status read_rule(const struct parsing *parsing, const struct rule_row *row,
                             size_t index, struct recovery_rule *rule)
{
    const char *path = arena_format(parsing->reading.arena, "rules[%zu]", index);
    rule->unknown_age_max_s = row->unknown_age_max_ms / 1000;
    rule->query_qps = row->query_qps;
    rule->query_concurrency = row->query_concurrency;
    rule->line = row->line;
    rule->column = row->column;
    TRY(read_match(parsing, row, path, rule));
    TRY(read_strategies(parsing, row, path, rule));
    return read_delays(parsing, row, path, rule);
}

/* More fields win; among as many, an account beats its PSP. */
static int specificity(const struct recovery_rule *rule, bool channel_is_account)
{
    const int fields =
        (rule->channel != NULL) + (rule->payment_method != NULL) + (rule->operation != 0);
    return 2 * fields + (rule->channel != NULL && channel_is_account ? 1 : 0);
}

static bool rule_matches(const struct recovery_rule *rule, const char *psp, const char *account,
                         const char *payment_method, enum operation operation)
{
    if (rule->channel != NULL && strcmp(rule->channel, account) != 0 &&
        strcmp(rule->channel, psp) != 0) {
        return false;
    }
    if (rule->payment_method != NULL && strcmp(rule->payment_method, payment_method) != 0) {
        return false;
    }
    return rule->operation == 0 || rule->operation == (int)operation;
}

const struct recovery_rule *recovery_policy_rule(const struct recovery_policy *policy,
                                                 const char *psp, const char *account,
                                                 const char *payment_method,
                                                 enum operation operation)
{
    const struct recovery_rule *best = NULL;
    int best_specificity = -1;
    for (size_t i = 0; i < policy->rule_count; i++) {
        const struct recovery_rule *rule = &policy->rules[i];
        if (!rule_matches(rule, psp, account, payment_method, operation)) continue;
        const bool by_account = rule->channel != NULL && strcmp(rule->channel, account) == 0;
        const int rank = specificity(rule, by_account);
        if (rank <= best_specificity) continue;
        best = rule;
        best_specificity = rank;
    }
    return best;
}

static bool words_meet(const char *a, const char *b)
{
    return a == NULL || b == NULL || strcmp(a, b) == 0;
}

static bool channels_meet(const struct parsing *parsing, const char *a, const char *b)
{
    if (a == NULL || b == NULL || strcmp(a, b) == 0) return true;
    for (size_t i = 0; i < parsing->channel_count; i++) {
        const struct config_account *account = parsing->channels[i].account;
        const bool has_a = strcmp(account->id, a) == 0 || strcmp(account->psp, a) == 0;
        const bool has_b = strcmp(account->id, b) == 0 || strcmp(account->psp, b) == 0;
        if (has_a && has_b) return true;
    }
    return false;
}

/* Two rules that can meet on one attempt must differ in rank, or file order would decide. */
static enum status check_ties(const struct parsing *parsing, const struct recovery_policy *policy)
{
    for (size_t i = 0; i < policy->rule_count; i++) {
        const struct recovery_rule *rule = &policy->rules[i];
        const bool by_account = rule->channel != NULL && is_account(parsing, rule->channel);
        for (size_t j = 0; j < i; j++) {
            const struct recovery_rule *other = &policy->rules[j];
            const bool other_by_account =
                other->channel != NULL && is_account(parsing, other->channel);
            const bool operations_meet = rule->operation == 0 || other->operation == 0 ||
                                         rule->operation == other->operation;
            if (specificity(rule, by_account) == specificity(other, other_by_account) &&
                operations_meet && words_meet(rule->payment_method, other->payment_method) &&
                channels_meet(parsing, rule->channel, other->channel)) {
                return REFUSE(parsing, rule,
                              "rules[%zu]: ties with rules[%zu] of line %d, neither is more "
                              "specific",
                              i, j, other->line);
            }
        }
    }
    return STATUS_OK;
}

static enum status check_capability(const struct parsing *parsing, const struct policy_row *row,
                                    const struct recovery_policy *policy,
                                    const struct recovery_rule *rule,
                                    const struct recovery_channel *channel)
{
    const size_t index = (size_t)(rule - policy->rules);
    for (size_t i = 0; i < rule->strategy_count; i++) {
        if (strategy_is_possible(rule->strategies[i], channel->capability)) continue;
        return REFUSE(parsing, row->rules[index].strategies->values[i],
                      "rules[%zu].strategies[%zu]: account %s (PSP %s) cannot do %s", index, i,
                      channel->account->id, channel->account->psp,
                      recovery_strategy_name((int)rule->strategies[i]));
    }
    return STATUS_OK;
}

/* Only rules that win somewhere must fit there; every create must have one. */
static enum status check_channel(const struct parsing *parsing, const struct policy_row *row,
                                 const struct recovery_policy *policy,
                                 const struct recovery_channel *channel)
{
    const struct config_account *account = channel->account;
    for (size_t i = 0; i < account->methods.count; i++) {
        const char *method = account->methods.items[i];
        for (int code = OPERATION_CREATE; code <= OPERATION_REFUND; code++) {
            const struct recovery_rule *rule = recovery_policy_rule(
                policy, account->psp, account->id, method, (enum operation)code);
            if (rule == NULL && code == OPERATION_CREATE) {
                return tree_refuse(
                    parsing->reading.error, parsing->reading.name, 1, 1,
                    "no rule matches account %s, payment method %s, operation create", account->id,
                    method);
            }
            if (rule != NULL) TRY(check_capability(parsing, row, policy, rule, channel));
        }
    }
    return STATUS_OK;
}

static enum status parse(struct parsing *parsing, struct recovery_policy *policy)
{
    struct tree_node *root = NULL;
    struct policy_row row = { 0 };
    TRY(tree_parse(parsing->reading.name, policy->source, &policy->arena, &root,
                   parsing->reading.error));
    TRY(schema_read(&parsing->reading, &POLICY, root, "", &row));
    policy->number = row.version;
    policy->rule_count = row.rule_count;
    policy->rules = arena_allocate(&policy->arena, row.rule_count * sizeof *policy->rules);
    for (size_t i = 0; i < row.rule_count; i++) {
        TRY(read_rule(parsing, &row.rules[i], i, &policy->rules[i]));
    }
    TRY(check_ties(parsing, policy));
    for (size_t i = 0; i < parsing->channel_count; i++) {
        TRY(check_channel(parsing, &row, policy, &parsing->channels[i]));
    }
    return STATUS_OK;
}

static void set_version(struct recovery_policy *policy)
{
    char hex[HASH_HEX_SIZE];
    hash_sha256(policy->source, policy->hash);
    (void)hash_hex((struct span){ policy->hash, sizeof policy->hash }, hex);
    (void)snprintf(policy->version, sizeof policy->version, "%" PRId64 "-%.16s", policy->number,
                   hex);
}

enum status recovery_policy_parse(const char *name, struct span text,
                                  const struct recovery_channel *channels, size_t channel_count,
                                  struct recovery_policy *out_policy,
                                  struct config_error *out_error)
{
    struct recovery_policy policy = { 0 };
    policy.source = arena_copy_span(&policy.arena, text);
    struct parsing parsing = {
        .reading = { .name = name, .arena = &policy.arena, .error = out_error },
        .channels = channels,
        .channel_count = channel_count
    };
    const enum status status = parse(&parsing, &policy);
    if (status == STATUS_OK) {
        set_version(&policy);
        *out_policy = policy;
    } else {
        recovery_policy_finish(&policy);
    }
    return status;
}

enum status recovery_policy_load(const char *path, const struct recovery_channel *channels,
                                 size_t channel_count, struct recovery_policy *out_policy,
                                 struct config_error *out_error)
{
    struct arena scratch = { 0 };
    struct span text;
    enum status status = tree_read_file(path, TREE_BYTES_MAX, &scratch, &text, out_error);
    if (status == STATUS_OK) {
        status = recovery_policy_parse(path, text, channels, channel_count, out_policy, out_error);
    }
    arena_finish(&scratch);
    return status;
}

void recovery_policy_finish(struct recovery_policy *policy)
{
    arena_finish(&policy->arena);
    *policy = (struct recovery_policy){ 0 };
}

int64_t recovery_rule_delay_ms(const struct recovery_rule *rule, size_t probe)
{
    INVARIANT(rule->delay_count > 0);
    return rule->delays_ms[probe < rule->delay_count ? probe : rule->delay_count - 1];
}
