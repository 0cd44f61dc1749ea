/* ops/cli/cli_picture.c: see cli_picture.h. */
#include "ops/cli/cli_picture.h"

#include "ops/cli/cli_text.h"

/* Reading -------------------------------------------------------------------------------------- */

static enum status read_by_id(struct cli *cli, const char *text, struct query_picture *out)
{
    struct payment_id payment;
    if (!uuid_parse(text, &payment.uuid)) return STATUS_NOT_FOUND;
    return query_picture_read(cli->store, payment, &cli->arena, out);
}

bool cli_picture_read(struct cli *cli, struct payment_id payment, struct query_picture *out_picture,
                      int *out_exit_code)
{
    struct store *store = cli_store(cli);
    *out_exit_code = CLI_USAGE;
    if (store == NULL) return false;
    const enum status status = query_picture_read(store, payment, &cli->arena, out_picture);
    if (status == STATUS_OK) return true;
    *out_exit_code = status == STATUS_NOT_FOUND ? cli_fail(cli, CLI_REFUSED, "no payment %s",
                                                           cli_id(&cli->arena, payment.uuid))
                                                : cli_fail_store(cli, store, status);
    return false;
}

/* An out_trade_no may look like an id: what is no payment's id is looked up as a number. */
bool cli_picture_find(struct cli *cli, const char *text, const char *merchant,
                      struct query_picture *out_picture, int *out_exit_code)
{
    struct payment_id payment;
    struct store *store = cli_store(cli);
    *out_exit_code = CLI_USAGE;
    if (store == NULL) return false;
    const enum status status = read_by_id(cli, text, out_picture);
    if (status == STATUS_OK) return true;
    if (status != STATUS_NOT_FOUND) {
        *out_exit_code = cli_fail_store(cli, store, status);
        return false;
    }
    return cli_find_number(cli, text, merchant, &payment, out_exit_code) &&
           cli_picture_read(cli, payment, out_picture, out_exit_code);
}

/* Documents ------------------------------------------------------------------------------------ */

const char *cli_closure_name(enum request_closure closure)
{
    switch (closure) {
    case CLOSURE_OPEN:
        return "open";
    case CLOSURE_NO_EFFECT:
        return "no_effect";
    case CLOSURE_KNOWN:
        return "known";
    }
    return NULL;
}

const char *cli_purpose_name(enum task_purpose purpose)
{
    switch (purpose) {
    case TASK_RESOLVE:
        return "resolve";
    case TASK_RESEND:
        return "resend";
    case TASK_CONFIRM:
        return "confirm";
    }
    return NULL;
}

static struct value null_value(void)
{
    return (struct value){ .kind = VALUE_NULL };
}

static void add_text(struct value *map, const char *name, const char *text)
{
    value_map_add(map, name, value_of_text(text));
}

static void add_money(struct value *map, bool has_amount, const struct money *money)
{
    value_map_add(map, "amount", has_amount ? value_of_integer(money->minor) : null_value());
    add_text(map, "currency", has_amount ? money->currency.code : NULL);
}

struct value cli_request_value(const struct query_request *request, struct arena *arena)
{
    struct value map = value_map_make(arena, 8);
    value_map_add(&map, "request", cli_value_id(arena, request->id.uuid));
    value_map_add(&map, "attempt", cli_value_id(arena, request->attempt.uuid));
    add_text(&map, "kind", request_kind_name((int)request->kind));
    value_map_add(&map, "started_at", cli_value_time(arena, request->started_us));
    value_map_add(&map, "send_by", cli_value_time(arena, request->send_by_us));
    add_text(&map, "worker", request->worker);
    value_map_add(&map, "has_result", value_of_boolean(request->evidence_count > 0));
    add_text(&map, "closure", cli_closure_name(request->closure));
    return map;
}

struct value cli_evidence_value(const struct query_evidence *evidence, struct arena *arena)
{
    struct value map = value_map_make(arena, 18);
    value_map_add(&map, "evidence", cli_value_id(arena, evidence->id.uuid));
    value_map_add(&map, "attempt", cli_value_id(arena, evidence->attempt.uuid));
    value_map_add(&map, "request", cli_value_id(arena, evidence->request.uuid));
    add_text(&map, "source", evidence_source_name((int)evidence->source));
    add_text(&map, "observed", observation_kind_name((int)evidence->kind));
    add_text(&map, "phase", request_phase_name((int)evidence->phase));
    value_map_add(&map, "http_status",
                  evidence->http_status == 0 ? null_value()
                                             : value_of_integer(evidence->http_status));
    add_text(&map, "error_code", evidence->error_code);
    add_text(&map, "provider_status", evidence->provider_status);
    add_text(&map, "provider_object", evidence->provider_object);
    add_text(&map, "provider_event", evidence->provider_event);
    add_text(&map, "reference", evidence->reference);
    add_money(&map, evidence->has_amount, &evidence->amount);
    value_map_add(&map, "strength", value_of_integer(evidence->strength));
    add_text(&map, "proves", certainty_name(evidence->proves));
    value_map_add(&map, "observed_at", cli_value_time(arena, evidence->observed_us));
    value_map_add(&map, "stored_at", cli_value_time(arena, evidence->created_us));
    return map;
}

struct value cli_task_value(const struct query_task *task, struct arena *arena)
{
    struct value map = value_map_make(arena, 13);
    value_map_add(&map, "task", cli_value_id(arena, task->id.uuid));
    value_map_add(&map, "attempt", cli_value_id(arena, task->attempt.uuid));
    add_text(&map, "purpose", cli_purpose_name(task->purpose));
    add_text(&map, "status", task_state_name((int)task->status));
    value_map_add(&map, "due_at", cli_value_time(arena, task->due_us));
    add_text(&map, "lease_owner", task->status == TASK_LEASED ? task->lease_owner : NULL);
    value_map_add(&map, "step", value_of_integer(task->step));
    value_map_add(&map, "claims", value_of_integer(task->claims));
    add_text(&map, "policy_version", task->policy_version);
    value_map_add(&map, "unknown_since", cli_value_time(arena, task->first_unknown_us));
    value_map_add(&map, "escalated_at", cli_value_time(arena, task->escalated_us));
    value_map_add(&map, "version", value_of_integer(task->version));
    return map;
}

struct value cli_case_value(const struct query_case *row, struct arena *arena)
{
    struct value map = value_map_make(arena, 10);
    value_map_add(&map, "case", cli_value_id(arena, row->id.uuid));
    add_text(&map, "kind", case_kind_name((int)row->kind));
    value_map_add(&map, "attempt", cli_value_id(arena, row->attempt.uuid));
    add_text(&map, "account", row->account);
    value_map_add(&map, "priority", value_of_integer(row->priority));
    add_text(&map, "reason", row->reason);
    value_map_add(&map, "open", value_of_boolean(row->is_open));
    value_map_add(&map, "opened_at", cli_value_time(arena, row->opened_us));
    value_map_add(&map, "closed_at", cli_value_time(arena, row->closed_us));
    add_text(&map, "close_reason", row->close_reason);
    return map;
}

struct value cli_stray_value(const struct query_stray *stray, struct arena *arena)
{
    struct value map = value_map_make(arena, 10);
    value_map_add(&map, "stray_fact", cli_value_id(arena, stray->id));
    add_text(&map, "kind", stray_kind_name((int)stray->kind));
    value_map_add(&map, "attempt", cli_value_id(arena, stray->attempt.uuid));
    add_text(&map, "account", stray->account);
    add_text(&map, "provider_object", stray->provider_object);
    add_money(&map, stray->has_amount, &stray->amount);
    value_map_add(&map, "evidence", cli_value_id(arena, stray->evidence.uuid));
    value_map_add(&map, "open", value_of_boolean(stray->is_open));
    value_map_add(&map, "created_at", cli_value_time(arena, stray->created_us));
    return map;
}

struct value cli_decision_value(const struct query_decision *decision, struct arena *arena)
{
    struct value map = value_map_make(arena, 6);
    value_map_add(&map, "follows", value_of_integer(decision->follows));
    add_text(&map, "account", decision->account);
    value_map_add(&map, "attempt", cli_value_id(arena, decision->attempt.uuid));
    add_text(&map, "routing_version", decision->routing_version);
    value_map_add(&map, "reasons", cli_value_json(arena, decision->reasons));
    value_map_add(&map, "created_at", cli_value_time(arena, decision->created_us));
    return map;
}

const char *cli_decision_candidates(const struct query_decision *decision, struct arena *arena)
{
    struct value reasons;
    if (value_read_json(span_of_text(decision->reasons), arena, &reasons, NULL) != STATUS_OK) {
        return decision->reasons;
    }
    const struct value *candidates = value_find(&reasons, "candidates");
    if (candidates == NULL || candidates->kind != VALUE_LIST) return "";
    const char *text = "";
    for (size_t i = 0; i < candidates->count; i++) {
        const struct value *row = &candidates->items[i];
        text = arena_format(arena, "%s%s%s (%s)", text, i == 0 ? "" : ", ",
                            cli_or_dash(value_text(value_find(row, "account"))),
                            cli_or_dash(value_text(value_find(row, "reason"))));
    }
    return text;
}

struct value cli_webhook_value(const struct query_webhook *webhook, struct arena *arena)
{
    struct value map = value_map_make(arena, 9);
    value_map_add(&map, "webhook", cli_value_id(arena, webhook->id.uuid));
    add_text(&map, "account", webhook->account);
    add_text(&map, "provider_event", webhook->event);
    add_text(&map, "observed", observation_kind_name((int)webhook->kind));
    add_text(&map, "provider_status", webhook->provider_status);
    add_text(&map, "provider_object", webhook->provider_object);
    value_map_add(&map, "received_at", cli_value_time(arena, webhook->received_us));
    value_map_add(&map, "processed_at", cli_value_time(arena, webhook->processed_us));
    value_map_add(&map, "look_at",
                  cli_value_time(arena, webhook->processed_us == 0 ? webhook->look_us : 0));
    return map;
}

static struct value stuck_value(const struct query_stuck *stuck, struct arena *arena)
{
    struct value map = value_map_make(arena, 6);
    add_text(&map, "stage", stuck->stage);
    add_text(&map, "account", stuck->account);
    value_map_add(&map, "since", cli_value_time(arena, stuck->since_us));
    value_map_add(&map, "emitted_at", cli_value_time(arena, stuck->emitted_us));
    value_map_add(&map, "next_look_at", cli_value_time(arena, stuck->next_us));
    value_map_add(&map, "emissions", value_of_integer(stuck->emissions));
    return map;
}

static struct value letter_value(const struct query_letter_of *letter, struct arena *arena)
{
    struct value map = value_map_make(arena, 7);
    value_map_add(&map, "dead_letter", cli_value_id(arena, letter->id));
    add_text(&map, "consumer", letter->consumer);
    add_text(&map, "code", letter->code);
    add_text(&map, "field", letter->field);
    value_map_add(&map, "replays", value_of_integer(letter->replays));
    value_map_add(&map, "replayed_at", cli_value_time(arena, letter->replayed_us));
    value_map_add(&map, "created_at", cli_value_time(arena, letter->created_us));
    return map;
}

static struct value requests_of(const struct query_picture *picture, struct attempt_id attempt,
                                struct arena *arena)
{
    struct value list = cli_list_make(arena, picture->request_count);
    for (size_t i = 0; i < picture->request_count; i++) {
        const struct query_request *request = &picture->requests[i];
        if (!uuid_equal(request->attempt.uuid, attempt.uuid)) continue;
        cli_list_add(&list, cli_request_value(request, arena));
    }
    return list;
}

static struct value evidence_of(const struct query_picture *picture, struct attempt_id attempt,
                                struct arena *arena)
{
    struct value list = cli_list_make(arena, picture->evidence_count);
    for (size_t i = 0; i < picture->evidence_count; i++) {
        const struct query_evidence *evidence = &picture->evidence[i];
        if (!uuid_equal(evidence->attempt.uuid, attempt.uuid)) continue;
        cli_list_add(&list, cli_evidence_value(evidence, arena));
    }
    return list;
}

struct value cli_attempt_value(const struct query_picture *picture,
                               const struct query_attempt *attempt, struct arena *arena)
{
    struct value map = value_map_make(arena, 24);
    value_map_add(&map, "attempt", cli_value_id(arena, attempt->id.uuid));
    add_text(&map, "operation", operation_name((int)attempt->operation));
    value_map_add(&map, "ordinal", value_of_integer(attempt->ordinal));
    add_text(&map, "account", attempt->account);
    add_text(&map, "status", attempt_state_name((int)attempt->status));
    add_text(&map, "certainty", certainty_name((int)attempt->certainty));
    add_text(&map, "reason", attempt->error_code);
    add_text(&map, "decline_class",
             attempt->decline == DECLINE_NONE ? NULL : decline_class_name((int)attempt->decline));
    add_money(&map, true, &attempt->amount);
    add_text(&map, "provider_key", attempt->provider_key);
    add_text(&map, "provider_object", attempt->provider_object);
    value_map_add(&map, "proof", cli_value_id(arena, attempt->evidence.uuid));
    value_map_add(&map, "handed_out", value_of_boolean(attempt->handed_out));
    add_text(&map, "policy_version", attempt->policy_version);
    add_text(&map, "routing_version", attempt->routing_version);
    add_text(&map, "guard_decision", attempt->guard_decision);
    value_map_add(&map, "created_at", cli_value_time(arena, attempt->created_us));
    value_map_add(&map, "first_sent_at", cli_value_time(arena, attempt->first_sent_us));
    value_map_add(&map, "fence_due_at", cli_value_time(arena, attempt->fence_due_us));
    value_map_add(&map, "version", value_of_integer(attempt->version));
    value_map_add(&map, "requests", requests_of(picture, attempt->id, arena));
    value_map_add(&map, "evidence", evidence_of(picture, attempt->id, arena));
    return map;
}

/* What answers and events say of it, member by member, and what only the inside knows. */
static struct value payment_value(const struct query_payment *payment, struct arena *arena)
{
    struct value answer = null_value();
    const struct span bytes = answer_event_body(&payment->view, CONTENT_JSON, arena);
    INVARIANT(value_read_json(bytes, arena, &answer, NULL) == STATUS_OK);
    struct value map = value_map_make(arena, answer.count + 24);
    for (size_t i = 0; i < answer.count; i++) {
        value_map_add(&map, answer.members[i].name, answer.members[i].value);
    }
    add_text(&map, "state", payment_state_name((int)payment->view.status));
    add_text(&map, "merchant", payment->merchant);
    struct value target = value_map_make(arena, 2);
    add_text(&target, "kind", payment->target_kind);
    add_text(&target, "id", payment->target_id);
    value_map_add(&map, "target", payment->target_kind == NULL ? null_value() : target);
    add_text(&map, "method", payment->method_type);
    add_text(&map, "token_realm", payment->token_realm);
    add_text(&map, "capture", payment->is_capture_manual ? "manual" : "automatic");
    value_map_add(&map, "authorised", value_of_integer(payment->authorised_minor));
    value_map_add(&map, "created_at", cli_value_time(arena, payment->created_us));
    value_map_add(&map, "start_by", cli_value_time(arena, payment->start_by_us));
    value_map_add(&map, "expires_at", cli_value_time(arena, payment->expires_at_us));
    value_map_add(&map, "hold_lifts_at", cli_value_time(arena, payment->hold_lifts_us));
    value_map_add(&map, "target_points_to", cli_value_id(arena, payment->pointer_payment.uuid));
    add_text(&map, "traceparent", payment->traceparent);
    return map;
}

#define ADD_LIST(map, name, items, item_count, value_of)                                           \
    do {                                                                                           \
        struct value list_ = cli_list_make(arena, item_count);                                     \
        for (size_t i_ = 0; i_ < (item_count); i_++) {                                             \
            cli_list_add(&list_, value_of(&(items)[i_], arena));                                   \
        }                                                                                          \
        value_map_add(map, name, list_);                                                           \
    } while (0)

struct value cli_picture_value(const struct query_picture *picture, struct arena *arena)
{
    struct value map = payment_value(&picture->payment, arena);
    struct value attempts = cli_list_make(arena, picture->attempt_count);
    for (size_t i = 0; i < picture->attempt_count; i++) {
        cli_list_add(&attempts, cli_attempt_value(picture, &picture->attempts[i], arena));
    }
    value_map_add(&map, "attempts", attempts);
    ADD_LIST(&map, "tasks", picture->tasks, picture->task_count, cli_task_value);
    ADD_LIST(&map, "cases", picture->cases, picture->case_count, cli_case_value);
    ADD_LIST(&map, "stray_facts", picture->strays, picture->stray_count, cli_stray_value);
    ADD_LIST(&map, "routing", picture->decisions, picture->decision_count, cli_decision_value);
    ADD_LIST(&map, "webhooks", picture->webhooks, picture->webhook_count, cli_webhook_value);
    ADD_LIST(&map, "stuck", picture->stuck, picture->stuck_count, stuck_value);
    ADD_LIST(&map, "dead_letters", picture->letters, picture->letter_count, letter_value);
    value_map_add(&map, "as_of", cli_value_time(arena, picture->now_us));
    return map;
}
