/* config/config_check.c: rules between keys. Each refusal points at the key that should change. */
#include "config/config_schema.h"

#include "pipeline/money.h"

struct check {
    const struct config *config;
    const struct tree_node *root;
    struct config_error *error;
};

/* The key's value in the file, or the nearest mapping around it if the value is a default. */
static const struct tree_node *place_of(const struct tree_node *root, const char *section,
                                        const char *key)
{
    const struct tree_node *found = tree_find(root, section);
    if (found == NULL || found->kind != TREE_MAPPING) return found == NULL ? root : found;
    const struct tree_node *value = tree_find(found, key);
    return value == NULL ? found : value;
}

#define REFUSE_KEY(check, section, key, ...)                                                       \
    tree_refuse((check)->error, (check)->config->path,                                             \
                place_of((check)->root, section, key)->line,                                       \
                place_of((check)->root, section, key)->column, __VA_ARGS__)

#define REFUSE_ACCOUNT(check, account, ...)                                                        \
    tree_refuse((check)->error, (check)->config->path, (account)->line, (account)->column,         \
                __VA_ARGS__)

static enum status check_merchants(const struct check *check)
{
    const struct config *config = check->config;
    const struct tree_node *list = tree_find(check->root, "merchants");
    for (size_t i = 0; i < config->merchant_count; i++) {
        if (config_merchant_find(config, config->merchants[i].id) == &config->merchants[i]) {
            continue;
        }
        const struct tree_node *id = tree_find(list->values[i], "id");
        return tree_refuse(check->error, config->path, id->line, id->column,
                           "merchants[%zu].id: \"%s\" stands twice", i, config->merchants[i].id);
    }
    return STATUS_OK;
}

static enum status check_base_url(const struct check *check, const struct config_account *account)
{
    const char *url = account->base_url;
    const bool is_https = strncmp(url, "https://", 8) == 0;
    if (!is_https && strncmp(url, "http://", 7) != 0) {
        return REFUSE_ACCOUNT(check, account, "account %s: base_url must begin with https://",
                              account->id);
    }
    if (!is_https && !check->config->development) {
        return REFUSE_ACCOUNT(check, account,
                              "account %s: base_url must be https unless development is true",
                              account->id);
    }
    if (url[strlen(url) - 1] == '/' || strpbrk(url, " \t\r\n?#@") != NULL) {
        return REFUSE_ACCOUNT(check, account,
                              "account %s: base_url must have no blank, query, credentials or "
                              "slash at the end",
                              account->id);
    }
    return STATUS_OK;
}

static enum status check_account(const struct check *check, size_t index)
{
    const struct config *config = check->config;
    const struct config_account *account = &config->accounts[index];
    if (config_account_find(config, account->id) != account) {
        return REFUSE_ACCOUNT(check, account, "account id \"%s\" stands twice", account->id);
    }
    for (size_t i = 0; i < config->account_count; i++) {
        if (strcmp(account->id, config->accounts[i].psp) == 0) {
            return REFUSE_ACCOUNT(check, account, "account id \"%s\" is also the name of a PSP",
                                  account->id);
        }
    }
    for (size_t i = 0; i < account->currencies.count; i++) {
        struct currency currency;
        if (!currency_parse(account->currencies.items[i], &currency)) {
            return REFUSE_ACCOUNT(check, account,
                                  "account %s: \"%s\" is no ISO 4217 currency in use", account->id,
                                  account->currencies.items[i]);
        }
    }
    for (size_t i = 0; i < account->methods.count; i++) {
        if (!config_method_is_known(account->methods.items[i])) {
            return REFUSE_ACCOUNT(check, account, "account %s: \"%s\" is no payment method",
                                  account->id, account->methods.items[i]);
        }
    }
    if (account->amount_minor_min > account->amount_minor_max) {
        return REFUSE_ACCOUNT(
            check, account, "account %s: amount_minor_min is above amount_minor_max", account->id);
    }
    return check_base_url(check, account);
}

static enum status check_stage(const struct check *check, const char *name,
                               const struct config_stage *stage)
{
    if (stage->retry_ms_min > stage->retry_ms_max) {
        return REFUSE_KEY(check, "stages", name, "stages.%s: retry_min is above retry_max", name);
    }
    if (stage->batch_max > stage->queue_max) {
        return REFUSE_KEY(check, "stages", name, "stages.%s: batch_max is above queue_max", name);
    }
    if (check->config->streams.ack_pending_max < 2 * stage->queue_max) {
        return REFUSE_KEY(check, "streams", "ack_pending_max",
                          "streams.ack_pending_max: must be twice stages.%s.queue_max or more",
                          name);
    }
    return STATUS_OK;
}

static enum status check_stages(const struct check *check)
{
    const struct config_stages *stages = &check->config->stages;
    TRY(check_stage(check, "intake", &stages->intake));
    TRY(check_stage(check, "route", &stages->route));
    TRY(check_stage(check, "create", &stages->create));
    TRY(check_stage(check, "recover", &stages->recover));
    return check_stage(check, "settle", &stages->settle);
}

static enum status check_timers(const struct check *check)
{
    const struct config_timers *timers = &check->config->timers;
    if (timers->lease_s * 1000 < timers->send_by_ms + timers->call_limit_ms + 1000) {
        return REFUSE_KEY(check, "timers", "lease_s",
                          "timers.lease_s: must outlive send_by_ms + call_limit_ms by a second");
    }
    if (timers->call_connect_ms > timers->call_limit_ms) {
        return REFUSE_KEY(check, "timers", "call_connect_ms",
                          "timers.call_connect_ms: is above call_limit_ms");
    }
    return STATUS_OK;
}

static enum status check_servers(const struct check *check)
{
    const struct config *config = check->config;
    if (strstr(config->nats.url, "tls://") != NULL && config->nats.ca_file[0] == '\0') {
        return REFUSE_KEY(check, "nats", "url", "nats.ca_file: is needed for a tls:// address");
    }
    if (config->streams.replicas % 2 == 0) {
        return REFUSE_KEY(check, "streams", "replicas",
                          "streams.replicas: must be odd, an even number survives no more");
    }
    if (config->streams.replicas < 3 && !config->development) {
        return REFUSE_KEY(check, "streams", "replicas",
                          "streams.replicas: must be 3 or 5 unless development is true");
    }
    return STATUS_OK;
}

enum status config_check(const struct config *config, const struct tree_node *root,
                         struct config_error *out_error)
{
    const struct check check = { config, root, out_error };
    TRY(check_merchants(&check));
    for (size_t i = 0; i < config->account_count; i++) TRY(check_account(&check, i));
    TRY(check_stages(&check));
    TRY(check_timers(&check));
    return check_servers(&check);
}
