/* ops/sim/ledger.c: see ledger.h. Writing; ledger_load.c reads the same lines back. */
#include "ops/sim/ledger.h"

#include "ops/sim/ledger_load.h"

static bool is_object(const void *item, const void *wanted)
{
    return strcmp(((const struct charge *)item)->object, wanted) == 0;
}

static uint64_t object_hash(const char *object)
{
    return table_hash(TABLE_HASH_START, object);
}

bool ledger_open(struct ledger *ledger, const char *directory, char error[LOGFILE_ERROR_SIZE])
{
    *ledger = (struct ledger){ .log = { .fd = -1 } };
    struct ledger_load load = { .ledger = ledger };
    const bool is_good =
        logfile_open(&ledger->log, directory, "ledger.ndjson", ledger_load_line, &load, error);
    ledger_load_finish(&load);
    return is_good;
}

static void forget(struct ledger *ledger)
{
    for (size_t i = 0; i < ledger->unacknowledged_count; i++) {
        free(ledger->unacknowledged[i]->body);
        free(ledger->unacknowledged[i]);
    }
    free(ledger->unacknowledged);
    ledger->unacknowledged = NULL;
    ledger->unacknowledged_count = 0;
    for (size_t i = 0; i < ledger->charge_count; i++) charge_destroy(ledger->charges[i]);
    free(ledger->charges);
    ledger->charges = NULL;
    ledger->charge_count = ledger->charge_capacity = 0;
    table_finish(&ledger->charges_by_object);
    for (size_t i = 0; i < ledger->keys.capacity; i++) {
        idempotency_destroy(ledger->keys.slots[i].item);
    }
    table_finish(&ledger->keys);
    ledger->clock_offset_s = 0;
}

void ledger_close(struct ledger *ledger)
{
    forget(ledger);
    struct account *next = NULL;
    for (struct account *account = ledger->accounts; account != NULL; account = next) {
        next = account->next;
        free(account);
    }
    logfile_close(&ledger->log);
    *ledger = (struct ledger){ .log = { .fd = -1 } };
}

static void note_account(struct ledger *ledger, const struct account *account)
{
    textbuf_format(&ledger->log.pending,
                   "{\"t\":\"account\",\"name\":\"%s\",\"protocol\":\"%s\"}\n", account->name,
                   account->protocol);
}

void ledger_clear(struct ledger *ledger)
{
    forget(ledger);
    logfile_clear(&ledger->log);
    for (const struct account *account = ledger->accounts; account != NULL;
         account = account->next) {
        note_account(ledger, account);
    }
    ledger_commit(ledger);
}

void ledger_commit(struct ledger *ledger)
{
    logfile_commit(&ledger->log);
}

const struct account *ledger_find_account(const struct ledger *ledger, const char *name)
{
    const struct account *account = ledger->accounts;
    while (account != NULL && strcmp(account->name, name) != 0) account = account->next;
    return account;
}

const struct account *ledger_index_account(struct ledger *ledger, const char *name,
                                           const char *protocol)
{
    struct account *account = memory_allocate(sizeof *account);
    account->next = ledger->accounts;
    (void)snprintf(account->name, sizeof account->name, "%s", name);
    (void)snprintf(account->protocol, sizeof account->protocol, "%s", protocol);
    ledger->accounts = account;
    return account;
}

const struct account *ledger_account(struct ledger *ledger, const char *name, const char *protocol)
{
    const struct account *account = ledger_find_account(ledger, name);
    if (account == NULL) {
        account = ledger_index_account(ledger, name, protocol);
        note_account(ledger, account);
    }
    return strcmp(account->protocol, protocol) == 0 ? account : NULL;
}

void ledger_index_charge(struct ledger *ledger, struct charge *charge)
{
    if (ledger->charge_count == ledger->charge_capacity) {
        ledger->charge_capacity = ledger->charge_capacity == 0 ? 1024 : ledger->charge_capacity * 2;
        ledger->charges =
            memory_resize(ledger->charges, ledger->charge_capacity * sizeof(struct charge *));
    }
    ledger->charges[ledger->charge_count++] = charge;
    table_add(&ledger->charges_by_object, object_hash(charge->object), charge);
}

void ledger_add_charge(struct ledger *ledger, struct charge *charge)
{
    struct textbuf *out = &ledger->log.pending;
    textbuf_format(out, "{\"t\":\"charge\",\"account\":\"%s\",\"object\":\"%s\",\"charge\":\"%s\"",
                   charge->account->name, charge->object, charge->charge_id);
    textbuf_text(out, ",\"method\":");
    textbuf_json(out, charge->method);
    if (charge->key != NULL) {
        textbuf_text(out, ",\"key\":");
        textbuf_json(out, charge->key);
    }
    if (charge->return_url != NULL) {
        textbuf_text(out, ",\"return_url\":");
        textbuf_json(out, charge->return_url);
    }
    textbuf_text(out, ",\"metadata\":"); /* as text: it must print byte for byte after a restart */
    textbuf_json(out, charge->metadata);
    textbuf_format(out, ",\"amount\":%" PRId64 ",\"currency\":\"%s\"", charge->amount_minor,
                   charge->currency);
    textbuf_format(out, ",\"created\":%" PRId64 ",\"state\":\"%s\",\"decline\":\"%s\"",
                   charge->created_s, charge_state_name(charge->state), charge->decline_code);
    if (charge->is_payable) textbuf_text(out, ",\"payable\":true");
    if (charge->due_real_ms != 0) {
        textbuf_format(out, ",\"due_ms\":%" PRId64 ",\"due_state\":\"%s\"", charge->due_real_ms,
                       charge_state_name(charge->due_state));
    }
    textbuf_text(out, "}\n");
    ledger_index_charge(ledger, charge);
}

void ledger_change_charge(struct ledger *ledger, struct charge *charge, enum charge_state state,
                          const char *decline_code, int64_t now_s)
{
    charge->state = state;
    (void)snprintf(charge->decline_code, sizeof charge->decline_code, "%s",
                   decline_code == NULL ? "" : decline_code);
    charge->changed_s = now_s;
    charge->due_real_ms = 0;
    textbuf_format(&ledger->log.pending,
                   "{\"t\":\"change\",\"object\":\"%s\",\"state\":\"%s\",\"decline\":\"%s\","
                   "\"at\":%" PRId64 "}\n",
                   charge->object, charge_state_name(state), charge->decline_code, now_s);
}

struct charge *ledger_find_charge(const struct ledger *ledger, const char *object)
{
    return table_find(&ledger->charges_by_object, object_hash(object), is_object, object);
}

static struct charge *find_by_key(const struct ledger *ledger, const char *account, const char *key)
{
    for (size_t i = ledger->charge_count; i > 0; i--) {
        struct charge *charge = ledger->charges[i - 1];
        if (charge->key != NULL && strcmp(charge->key, key) == 0 &&
            strcmp(charge->account->name, account) == 0) {
            return charge;
        }
    }
    return NULL;
}

struct charge *ledger_find_named(const struct ledger *ledger, const char *account,
                                 const char *object, const char *key)
{
    if (object == NULL) return key == NULL ? NULL : find_by_key(ledger, account, key);
    struct charge *charge = ledger_find_charge(ledger, object);
    return charge != NULL && strcmp(charge->account->name, account) == 0 ? charge : NULL;
}

void ledger_note_key(struct ledger *ledger, const struct idempotency_key *entry)
{
    if (entry->key == NULL) return;
    struct textbuf *out = &ledger->log.pending;
    char hex[HASH_HEX_SIZE];
    textbuf_format(out, "{\"t\":\"key\",\"account\":\"%s\",\"key\":", entry->account->name);
    textbuf_json(out, entry->key);
    textbuf_format(out, ",\"fingerprint\":\"%s\",\"at\":%" PRId64,
                   hash_hex((struct span){ entry->fingerprint, HASH_SIZE }, hex),
                   entry->first_seen_s);
    if (entry->state == IDEMPOTENCY_ANSWERED) {
        const struct idempotency_answer *answer = &entry->answer;
        textbuf_format(out, ",\"status\":%d", answer->status);
        if (answer->is_server_error) textbuf_text(out, ",\"server_error\":true");
        if (answer->charge != NULL) {
            textbuf_format(out, ",\"object\":\"%s\",\"state\":\"%s\",\"decline\":\"%s\"",
                           answer->charge->object, charge_state_name(answer->state),
                           answer->decline_code);
        }
    }
    textbuf_text(out, "}\n");
}

void ledger_note_event(struct ledger *ledger, const struct event *event)
{
    struct textbuf *out = &ledger->log.pending;
    textbuf_format(out, "{\"t\":\"event\",\"id\":\"%s\",\"account\":\"%s\",\"type\":\"%s\"",
                   event->id, event->account->name, event->type);
    textbuf_format(out, ",\"created\":%" PRId64, event->created_s);
    if (event->charge != NULL) {
        textbuf_format(out, ",\"object\":\"%s\",\"state\":\"%s\",\"decline\":\"%s\"",
                       event->charge->object, charge_state_name(event->state), event->decline_code);
    }
    if (event->body != NULL) {
        textbuf_text(out, ",\"body\":");
        textbuf_json(out, event->body);
    }
    textbuf_text(out, "}\n");
}

void ledger_note_acknowledged(struct ledger *ledger, const struct event *event)
{
    textbuf_format(&ledger->log.pending, "{\"t\":\"ack\",\"id\":\"%s\"}\n", event->id);
}

int64_t ledger_virtual_s(const struct ledger *ledger)
{
    return ident_real_ms() / 1000 + ledger->clock_offset_s;
}

void ledger_advance_clock(struct ledger *ledger, int64_t seconds)
{
    ledger->clock_offset_s += seconds;
    textbuf_format(&ledger->log.pending, "{\"t\":\"clock\",\"offset_s\":%" PRId64 "}\n",
                   ledger->clock_offset_s);
}
