/*
 * ops/sim/ledger_load.c: see ledger_load.h. Every line names its kind in "t". A line that does not
 * read is an error, never skipped: books with holes would make tests lie.
 */
#include "ops/sim/ledger_load.h"

struct line_kind {
    const char *name;
    const char *(*read)(struct ledger_load *load, const json_t *line);
};

static void copy_text(char *out, size_t size, const char *text)
{
    (void)snprintf(out, size, "%s", text);
}

/* jansson reads only, but its unpack functions do not take const. */
static json_t *writable(const json_t *json)
{
    return (json_t *)(uintptr_t)json;
}

static const char *read_account(struct ledger_load *load, const json_t *line)
{
    const char *name = NULL;
    const char *protocol = NULL;
    if (json_unpack(writable(line), "{s:s, s:s}", "name", &name, "protocol", &protocol) != 0) {
        return "account without name or protocol";
    }
    if (ledger_find_account(load->ledger, name) != NULL) return "account named twice";
    (void)ledger_index_account(load->ledger, name, protocol);
    return NULL;
}

static char *copy_optional(const char *text)
{
    return text == NULL ? NULL : memory_copy_text(text);
}

static const char *read_charge(struct ledger_load *load, const json_t *line)
{
    const char *account = NULL, *object = NULL, *charge_id = NULL, *currency = NULL;
    const char *state = NULL, *decline = NULL, *due_state = NULL;
    const char *key = NULL, *method = NULL, *return_url = NULL, *metadata = NULL;
    json_int_t amount = 0, created = 0, due_ms = 0;
    int payable = 0;
    if (json_unpack(writable(line),
                    "{s:s, s:s, s:s, s?s, s:s, s?s, s:s, s:I, s:s, s:I, s:s, s:s, s?b, s?I, s?s}",
                    "account", &account, "object", &object, "charge", &charge_id, "key", &key,
                    "method", &method, "return_url", &return_url, "metadata", &metadata, "amount",
                    &amount, "currency", &currency, "created", &created, "state", &state, "decline",
                    &decline, "payable", &payable, "due_ms", &due_ms, "due_state",
                    &due_state) != 0) {
        return "charge with missing or wrong fields";
    }
    const struct account *owner = ledger_find_account(load->ledger, account);
    if (owner == NULL) return "charge of an unknown account";
    if (ledger_find_charge(load->ledger, object) != NULL) return "object named twice";
    struct charge *charge = memory_allocate(sizeof *charge);
    *charge = (struct charge){ .account = owner,
                               .key = copy_optional(key),
                               .method = memory_copy_text(method),
                               .metadata = memory_copy_text(metadata),
                               .return_url = copy_optional(return_url),
                               .amount_minor = amount,
                               .created_s = created,
                               .changed_s = created,
                               .is_payable = payable != 0,
                               .due_real_ms = due_ms };
    copy_text(charge->object, sizeof charge->object, object);
    copy_text(charge->charge_id, sizeof charge->charge_id, charge_id);
    copy_text(charge->currency, sizeof charge->currency, currency);
    copy_text(charge->decline_code, sizeof charge->decline_code, decline);
    const bool is_good =
        charge_state_parse(state, &charge->state) &&
        (due_ms == 0 || (due_state != NULL && charge_state_parse(due_state, &charge->due_state)));
    if (!is_good) {
        charge_destroy(charge);
        return "charge with an unknown state";
    }
    ledger_index_charge(load->ledger, charge);
    return NULL;
}

static const char *read_change(struct ledger_load *load, const json_t *line)
{
    const char *object = NULL, *state = NULL, *decline = NULL;
    json_int_t at = 0;
    if (json_unpack(writable(line), "{s:s, s:s, s:s, s:I}", "object", &object, "state", &state,
                    "decline", &decline, "at", &at) != 0) {
        return "change with missing or wrong fields";
    }
    struct charge *charge = ledger_find_charge(load->ledger, object);
    if (charge == NULL) return "change of an unknown object";
    if (!charge_state_parse(state, &charge->state)) return "change to an unknown state";
    copy_text(charge->decline_code, sizeof charge->decline_code, decline);
    charge->changed_s = at;
    charge->due_real_ms = 0;
    return NULL;
}

static const char *read_key_answer(struct ledger_load *load, struct idempotency_key *entry,
                                   int status, bool is_server_error, const json_t *line)
{
    const char *object = NULL, *state = NULL, *decline = NULL;
    if (json_unpack(writable(line), "{s?s, s?s, s?s}", "object", &object, "state", &state,
                    "decline", &decline) != 0) {
        return "key with wrong fields";
    }
    entry->answer =
        (struct idempotency_answer){ .status = status, .is_server_error = is_server_error };
    entry->state = IDEMPOTENCY_ANSWERED;
    if (object == NULL) return NULL;
    entry->answer.charge = ledger_find_charge(load->ledger, object);
    if (entry->answer.charge == NULL) return "key with an unknown object";
    if (state == NULL || !charge_state_parse(state, &entry->answer.state)) {
        return "key with an unknown state";
    }
    if (decline != NULL) {
        copy_text(entry->answer.decline_code, sizeof entry->answer.decline_code, decline);
    }
    return NULL;
}

static const char *read_key(struct ledger_load *load, const json_t *line)
{
    const char *account = NULL, *key = NULL, *fingerprint = NULL;
    json_int_t at = 0;
    int status = 0, server_error = 0;
    if (json_unpack(writable(line), "{s:s, s:s, s:s, s:I, s?i, s?b}", "account", &account, "key",
                    &key, "fingerprint", &fingerprint, "at", &at, "status", &status, "server_error",
                    &server_error) != 0) {
        return "key with missing or wrong fields";
    }
    const struct account *owner = ledger_find_account(load->ledger, account);
    if (owner == NULL) return "key of an unknown account";
    struct idempotency_key *entry = idempotency_find(&load->ledger->keys, account, key);
    if (entry == NULL) entry = idempotency_add(&load->ledger->keys, owner, key);
    if (!hash_unhex(span_of_text(fingerprint), entry->fingerprint, HASH_SIZE)) {
        return "key with a malformed fingerprint";
    }
    entry->first_seen_s = at;
    entry->state = IDEMPOTENCY_SEEN;
    if (status == 0) return NULL;
    return read_key_answer(load, entry, status, server_error != 0, line);
}

static bool is_event(const void *item, const void *wanted)
{
    return strcmp(((const struct event *)item)->id, wanted) == 0;
}

static void keep_event(struct ledger_load *load, struct event *event)
{
    if (load->event_count == load->event_capacity) {
        load->event_capacity = load->event_capacity == 0 ? 1024 : load->event_capacity * 2;
        load->events = memory_resize(load->events, load->event_capacity * sizeof(struct event *));
    }
    load->events[load->event_count++] = event;
    table_add(&load->events_by_id, table_hash(TABLE_HASH_START, event->id), event);
}

static const char *read_event(struct ledger_load *load, const json_t *line)
{
    const char *id = NULL, *account = NULL, *type = NULL, *object = NULL, *state = NULL;
    const char *decline = NULL, *body = NULL;
    json_int_t created = 0;
    if (json_unpack(writable(line), "{s:s, s:s, s:s, s:I, s?s, s?s, s?s, s?s}", "id", &id,
                    "account", &account, "type", &type, "created", &created, "object", &object,
                    "state", &state, "decline", &decline, "body", &body) != 0) {
        return "event with missing or wrong fields";
    }
    const struct account *owner = ledger_find_account(load->ledger, account);
    if (owner == NULL) return "event of an unknown account";
    struct event parsed = { .account = owner, .created_s = created };
    if (object != NULL) {
        parsed.charge = ledger_find_charge(load->ledger, object);
        if (parsed.charge == NULL) return "event of an unknown object";
        if (state == NULL || !charge_state_parse(state, &parsed.state)) {
            return "event with an unknown state";
        }
    }
    if (parsed.charge == NULL && body == NULL) return "event without object and body";
    copy_text(parsed.id, sizeof parsed.id, id);
    copy_text(parsed.type, sizeof parsed.type, type);
    copy_text(parsed.decline_code, sizeof parsed.decline_code, decline == NULL ? "" : decline);
    parsed.body = copy_optional(body);
    struct event *event = memory_allocate(sizeof *event);
    *event = parsed;
    keep_event(load, event);
    return NULL;
}

static const char *read_acknowledged(struct ledger_load *load, const json_t *line)
{
    const char *id = NULL;
    if (json_unpack(writable(line), "{s:s}", "id", &id) != 0) return "ack without id";
    struct event *event =
        table_find(&load->events_by_id, table_hash(TABLE_HASH_START, id), is_event, id);
    if (event == NULL) return "ack of an unknown event";
    event->is_acknowledged = true;
    return NULL;
}

static const char *read_clock(struct ledger_load *load, const json_t *line)
{
    json_int_t offset_s = 0;
    if (json_unpack(writable(line), "{s:I}", "offset_s", &offset_s) != 0) {
        return "clock without offset";
    }
    load->ledger->clock_offset_s = offset_s;
    return NULL;
}

static const struct line_kind KINDS[] = {
    { "charge", read_charge },    { "key", read_key },       { "event", read_event },
    { "ack", read_acknowledged }, { "change", read_change }, { "account", read_account },
    { "clock", read_clock },
};

const char *ledger_load_line(void *self, const char *line, size_t length)
{
    struct ledger_load *load = self;
    json_t *json = json_loadb(line, length, JSON_REJECT_DUPLICATES, NULL);
    if (json == NULL) return "not a JSON value";
    const char *name = json_string_value(json_object_get(json, "t"));
    const char *problem = "unknown kind of line";
    for (size_t i = 0; name != NULL && i < COUNT_OF(KINDS); i++) {
        if (strcmp(KINDS[i].name, name) == 0) problem = KINDS[i].read(load, json);
    }
    json_decref(json);
    return problem;
}

void ledger_load_finish(struct ledger_load *load)
{
    size_t kept = 0;
    for (size_t i = 0; i < load->event_count; i++) {
        struct event *event = load->events[i];
        if (event->is_acknowledged) {
            free(event->body);
            free(event);
        } else {
            load->events[kept++] = event;
        }
    }
    table_finish(&load->events_by_id);
    load->ledger->unacknowledged = load->events;
    load->ledger->unacknowledged_count = kept;
}
