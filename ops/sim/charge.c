/* ops/sim/charge.c: see charge.h. */
#include "ops/sim/charge.h"

static const struct {
    enum charge_state state;
    const char *name;
    const char *ledger_word;
} STATES[] = {
    { CHARGE_SUCCEEDED, "succeeded", "succeeded" },
    { CHARGE_DECLINED, "declined", "failed" },
    { CHARGE_PROCESSING, "processing", "pending" },
    { CHARGE_ACTION_REQUIRED, "action_required", "pending" },
    { CHARGE_CANCELED, "canceled", "canceled" },
};

const char *charge_state_name(enum charge_state state)
{
    for (size_t i = 0; i < COUNT_OF(STATES); i++) {
        if (STATES[i].state == state) return STATES[i].name;
    }
    UNREACHABLE("charge state out of range");
}

const char *charge_ledger_word(enum charge_state state)
{
    for (size_t i = 0; i < COUNT_OF(STATES); i++) {
        if (STATES[i].state == state) return STATES[i].ledger_word;
    }
    UNREACHABLE("charge state out of range");
}

bool charge_state_parse(const char *name, enum charge_state *out)
{
    for (size_t i = 0; i < COUNT_OF(STATES); i++) {
        if (strcmp(STATES[i].name, name) != 0) continue;
        *out = STATES[i].state;
        return true;
    }
    return false;
}

bool charge_result_parse(const char *word, enum charge_state *out)
{
    for (size_t i = 0; i < COUNT_OF(STATES); i++) {
        if (strcmp(STATES[i].ledger_word, word) != 0 || strcmp(word, "pending") == 0) continue;
        *out = STATES[i].state;
        return true;
    }
    return false;
}

void charge_render_row(const struct charge *charge, struct textbuf *out)
{
    textbuf_format(out, "{\"account\":\"%s\",\"key\":", charge->account->name);
    textbuf_json(out, charge->key);
    textbuf_format(
        out, ",\"object\":\"%s\",\"amount\":%" PRId64 ",\"currency\":\"%s\",\"state\":\"%s\"}",
        charge->object, charge->amount_minor, charge->currency, charge_ledger_word(charge->state));
}

void charge_destroy(struct charge *charge)
{
    if (charge == NULL) return;
    free(charge->key);
    free(charge->method);
    free(charge->metadata);
    free(charge->return_url);
    free(charge);
}
