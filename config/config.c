/* config/config.c: see config.h. */
#include "config/config.h"

#include "config/config_schema.h"

#include <sys/stat.h>

enum { SECRET_BYTES_MAX = 4096, HMAC_KEY_BYTES_MIN = 16 };

/* The file's content without the line end that editors leave. */
static enum status load_secret(struct config *config, const char *path, size_t length_min,
                               struct span *out_secret, struct config_error *out_error)
{
    struct stat about;
    if (!config->development && stat(path, &about) == 0 && (about.st_mode & S_IRWXO) != 0) {
        return tree_refuse(out_error, path, 0, 0,
                           "others may read this secret (chmod o-rwx), and development is false");
    }
    TRY(tree_read_file(path, SECRET_BYTES_MAX, &config->arena, out_secret, out_error));
    while (out_secret->length > 0 && out_secret->data[out_secret->length - 1] <= ' ') {
        out_secret->length--;
    }
    if (out_secret->length < length_min) {
        return tree_refuse(out_error, path, 0, 0, "the secret is shorter than %zu characters",
                           length_min);
    }
    for (size_t i = 0; i < out_secret->length; i++) {
        if (out_secret->data[i] < ' ' || out_secret->data[i] > '~') {
            return tree_refuse(out_error, path, 0, 0, "the secret is not one line of ASCII");
        }
    }
    return STATUS_OK;
}

static enum status load_secret_text(struct config *config, const char *path, const char **out_text,
                                    struct config_error *out_error)
{
    struct span secret;
    TRY(load_secret(config, path, 1, &secret, out_error));
    *out_text = arena_copy(&config->arena, secret.data, secret.length);
    return STATUS_OK;
}

static enum status load_account_secrets(struct config *config, struct config_account *account,
                                        struct config_error *out_error)
{
    struct psp_account *psp = &account->psp_account;
    psp->id = account->id;
    psp->base_url = account->base_url;
    psp->webhook_tolerance_s = (int)account->webhook_tolerance_s;
    TRY(load_secret_text(config, account->api_key_file, &psp->api_key, out_error));
    TRY(load_secret_text(config, account->webhook_secret_file, &psp->webhook_secrets[0],
                         out_error));
    if (account->webhook_secret_old_file[0] == '\0') return STATUS_OK;
    return load_secret_text(config, account->webhook_secret_old_file, &psp->webhook_secrets[1],
                            out_error);
}

static enum status load_secrets(struct config *config, struct config_error *out_error)
{
    TRY(load_secret(config, config->redis.hmac_key_file, HMAC_KEY_BYTES_MIN,
                    &config->redis.hmac_key, out_error));
    for (size_t i = 0; i < config->account_count; i++) {
        TRY(load_account_secrets(config, &config->accounts[i], out_error));
    }
    return STATUS_OK;
}

static enum status load(struct config *config, struct config_error *out_error)
{
    struct span text;
    struct tree_node *root = NULL;
    TRY(tree_read_file(config->path, TREE_BYTES_MAX, &config->arena, &text, out_error));
    TRY(tree_parse(config->path, text, &config->arena, &root, out_error));
    const struct schema_reading reading = { .name = config->path,
                                            .arena = &config->arena,
                                            .error = out_error,
                                            .variables = CONFIG_VARIABLES,
                                            .variable_count = CONFIG_VARIABLE_COUNT };
    TRY(schema_read(&reading, &CONFIG_SCHEMA, root, "", config));
    TRY(config_check(config, root, out_error));
    return load_secrets(config, out_error);
}

enum status config_load(const char *path, struct config *out_config, struct config_error *out_error)
{
    if (path == NULL) path = getenv("ONCEPAY_CONFIG");
    if (path == NULL || path[0] == '\0') path = "config/oncepay.yaml";
    struct config config = { 0 };
    config.path = arena_copy(&config.arena, path, strlen(path));
    const enum status status = load(&config, out_error);
    if (status == STATUS_OK) {
        *out_config = config;
    } else {
        config_finish(&config);
    }
    return status;
}

/* The arena's memory is writable; it is the view on it that is const. */
static void wipe(const void *secret, size_t length)
{
    if (secret != NULL) explicit_bzero((void *)(uintptr_t)secret, length);
}

static void wipe_text(const char *secret)
{
    if (secret != NULL) wipe(secret, strlen(secret));
}

void config_finish(struct config *config)
{
    wipe(config->redis.hmac_key.data, config->redis.hmac_key.length);
    for (size_t i = 0; i < config->account_count; i++) {
        wipe_text(config->accounts[i].psp_account.api_key);
        wipe_text(config->accounts[i].psp_account.webhook_secrets[0]);
        wipe_text(config->accounts[i].psp_account.webhook_secrets[1]);
    }
    arena_finish(&config->arena);
    *config = (struct config){ 0 };
}

const struct config_merchant *config_merchant_find(const struct config *config, const char *id)
{
    for (size_t i = 0; i < config->merchant_count; i++) {
        if (strcmp(config->merchants[i].id, id) == 0) return &config->merchants[i];
    }
    return NULL;
}

const struct config_account *config_account_find(const struct config *config, const char *id)
{
    for (size_t i = 0; i < config->account_count; i++) {
        if (strcmp(config->accounts[i].id, id) == 0) return &config->accounts[i];
    }
    return NULL;
}

bool config_texts_contain(const struct config_texts *texts, const char *text)
{
    for (size_t i = 0; i < texts->count; i++) {
        if (strcmp(texts->items[i], text) == 0) return true;
    }
    return false;
}

bool config_method_is_known(const char *method)
{
    static const char *const METHODS[] = { "card", "wallet", "qr", "voucher", "bank_transfer" };
    static const struct config_texts KNOWN = { METHODS, COUNT_OF(METHODS) };
    return config_texts_contain(&KNOWN, method);
}

enum status config_account_check(const struct config *config, const struct config_account *account,
                                 const struct psp_capability *capability,
                                 struct config_error *out_error)
{
    const bool has_lookup = capability->has_retrieve || capability->has_search;
    if (capability->has_idempotency_key && has_lookup) return STATUS_OK;
    if (account->accept_manual_recovery[0] != '\0') return STATUS_OK;
    return tree_refuse(out_error, config->path, account->line, account->column,
                       "account %s: PSP %s has no %s, so people must find out what a lost answer "
                       "did; accept_manual_recovery must name the owner",
                       account->id, account->psp,
                       capability->has_idempotency_key ? "lookup" : "idempotency key");
}

void config_describe(FILE *out)
{
    schema_describe(&CONFIG_SCHEMA, "", out);
}
