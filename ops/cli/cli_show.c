/* ops/cli/cli_show.c: `oncepay show`: how a payment stands, with all that is open about it. */
#include "ops/cli/cli_picture.h"
#include "ops/cli/cli_text.h"

static void print_field(const char *name, const char *text)
{
    if (text != NULL && text[0] != '\0') printf("%-18s %s\n", name, text);
}

static const char *join(struct arena *arena, const char *a, const char *b)
{
    if (a == NULL || b == NULL) return a == NULL ? b : a;
    return arena_format(arena, "%s, %s", a, b);
}

static const char *amount_text(const struct query_payment *payment, struct arena *arena)
{
    const struct payment_view *view = &payment->view;
    if (view->amount.currency.code[0] == '\0') return NULL;
    const struct money captured = { view->captured_minor, view->amount.currency };
    const struct money refunded = { view->refunded_minor, view->amount.currency };
    const char *text = cli_money(arena, view->amount);
    if (captured.minor != 0) {
        text = arena_format(arena, "%s, captured %s", text, cli_money(arena, captured));
    }
    if (refunded.minor != 0) {
        text = arena_format(arena, "%s, refunded %s", text, cli_money(arena, refunded));
    }
    return text;
}

static void print_payment(const struct query_picture *picture, struct arena *arena)
{
    const struct query_payment *payment = &picture->payment;
    const struct payment_view *view = &payment->view;
    const char *state = arena_format(arena, "%s (%s)", payment_state_name((int)view->status),
                                     payment_status_word(view->status));
    print_field("payment", cli_id(arena, view->payment.uuid));
    print_field("merchant", payment->merchant);
    print_field("out_trade_no", view->out_trade_no);
    print_field("target",
                payment->target_id == NULL
                    ? payment->target_kind
                    : arena_format(arena, "%s/%s", payment->target_kind, payment->target_id));
    print_field("amount", amount_text(payment, arena));
    print_field("method", payment->method_type);
    print_field("state", join(arena, state, certainty_name(view->certainty)));
    print_field("reason", view->reason);
    print_field("version", arena_format(arena, "%" PRId64, view->version));
    print_field("safe to pay again",
                view->safe_to_pay_again ? "yes, with a new out_trade_no" : "no");
    print_field("hold",
                view->hold == NULL || payment->hold_lifts_us == 0
                    ? view->hold
                    : arena_format(arena, "%s until %s", view->hold,
                                   cli_when(arena, payment->hold_lifts_us, picture->now_us)));
    if (view->next_check_at_us != 0) {
        print_field("next check", cli_when(arena, view->next_check_at_us, picture->now_us));
    }
    print_field("created", cli_when(arena, payment->created_us, picture->now_us));
    if (view->status == PAYMENT_CREATED) {
        print_field("start by", cli_when(arena, payment->start_by_us, picture->now_us));
    }
}

static void print_requests(const struct query_picture *picture, struct attempt_id attempt,
                           struct arena *arena)
{
    static const char *const HEADINGS[] = { "request", "started", "kind", "outcome", "worker" };
    struct cli_table table;
    cli_table_begin(&table, arena, HEADINGS, COUNT_OF(HEADINGS));
    for (size_t i = 0; i < picture->request_count; i++) {
        const struct query_request *request = &picture->requests[i];
        if (!uuid_equal(request->attempt.uuid, attempt.uuid)) continue;
        const char *outcome =
            request->evidence_count == 0 ? "no result yet" : cli_closure_name(request->closure);
        const char *cells[] = { cli_id(arena, request->id.uuid),
                                cli_time(arena, request->started_us),
                                request_kind_name((int)request->kind), outcome, request->worker };
        cli_table_add(&table, cells);
    }
    cli_table_print(&table, 4, stdout);
}

static void print_evidence(const struct query_picture *picture, struct attempt_id attempt,
                           struct arena *arena)
{
    static const char *const HEADINGS[] = { "evidence", "stored", "source", "observed",
                                            "HTTP",     "says",   "amount", "proves" };
    struct cli_table table;
    cli_table_begin(&table, arena, HEADINGS, COUNT_OF(HEADINGS));
    for (size_t i = 0; i < picture->evidence_count; i++) {
        const struct query_evidence *evidence = &picture->evidence[i];
        if (!uuid_equal(evidence->attempt.uuid, attempt.uuid)) continue;
        const char *cells[] = {
            cli_id(arena, evidence->id.uuid),
            cli_time(arena, evidence->created_us),
            evidence_source_name((int)evidence->source),
            observation_kind_name((int)evidence->kind),
            evidence->http_status == 0 ? NULL : arena_format(arena, "%d", evidence->http_status),
            join(arena, evidence->provider_status, evidence->error_code),
            evidence->has_amount ? cli_money(arena, evidence->amount) : NULL,
            certainty_name(evidence->proves),
        };
        cli_table_add(&table, cells);
    }
    cli_table_print(&table, 4, stdout);
}

static void print_attempts(const struct query_picture *picture, struct arena *arena)
{
    for (size_t i = 0; i < picture->attempt_count; i++) {
        const struct query_attempt *attempt = &picture->attempts[i];
        printf("\nattempt %d (%s) at %s: %s, %s%s%s\n", attempt->ordinal,
               cli_or_dash(operation_name((int)attempt->operation)), attempt->account,
               cli_or_dash(attempt_state_name((int)attempt->status)),
               cli_or_dash(certainty_name((int)attempt->certainty)),
               attempt->error_code == NULL ? "" : ", ",
               attempt->error_code == NULL ? "" : attempt->error_code);
        printf("    id %s, version %d, key %s, object %s\n", cli_id(arena, attempt->id.uuid),
               attempt->version, attempt->provider_key, cli_or_dash(attempt->provider_object));
        print_requests(picture, attempt->id, arena);
        print_evidence(picture, attempt->id, arena);
    }
}

static void print_tasks(const struct query_picture *picture, struct arena *arena)
{
    static const char *const HEADINGS[] = { "task", "purpose", "status", "due", "look", "policy" };
    struct cli_table table;
    cli_table_begin(&table, arena, HEADINGS, COUNT_OF(HEADINGS));
    for (size_t i = 0; i < picture->task_count; i++) {
        const struct query_task *task = &picture->tasks[i];
        const char *cells[] = {
            cli_id(arena, task->id.uuid),
            cli_purpose_name(task->purpose),
            task_state_name((int)task->status),
            task->due_us == 0 ? "never by itself" : cli_when(arena, task->due_us, picture->now_us),
            arena_format(arena, "%d", task->step + 1),
            task->policy_version,
        };
        cli_table_add(&table, cells);
    }
    if (picture->task_count > 0) printf("\nopen tasks\n");
    cli_table_print(&table, 4, stdout);
}

static void print_cases(const struct query_picture *picture, struct arena *arena)
{
    static const char *const HEADINGS[] = {
        "case", "kind", "priority", "state", "opened", "reason"
    };
    struct cli_table table;
    cli_table_begin(&table, arena, HEADINGS, COUNT_OF(HEADINGS));
    for (size_t i = 0; i < picture->case_count; i++) {
        const struct query_case *row = &picture->cases[i];
        const char *cells[] = { cli_id(arena, row->id.uuid),
                                case_kind_name((int)row->kind),
                                arena_format(arena, "%d", row->priority),
                                row->is_open ? "open" : "closed",
                                cli_time(arena, row->opened_us),
                                row->reason };
        cli_table_add(&table, cells);
    }
    if (picture->case_count > 0) printf("\ncases\n");
    cli_table_print(&table, 4, stdout);
}

static void print_strays(const struct query_picture *picture, struct arena *arena)
{
    static const char *const HEADINGS[] = { "stray fact", "kind",  "account", "object",
                                            "amount",     "state", "since" };
    struct cli_table table;
    cli_table_begin(&table, arena, HEADINGS, COUNT_OF(HEADINGS));
    for (size_t i = 0; i < picture->stray_count; i++) {
        const struct query_stray *stray = &picture->strays[i];
        const char *cells[] = { cli_id(arena, stray->id),
                                stray_kind_name((int)stray->kind),
                                stray->account,
                                stray->provider_object,
                                stray->has_amount ? cli_money(arena, stray->amount) : NULL,
                                stray->is_open ? "open" : "closed",
                                cli_time(arena, stray->created_us) };
        cli_table_add(&table, cells);
    }
    if (picture->stray_count > 0) printf("\nstray facts\n");
    cli_table_print(&table, 4, stdout);
}

/* What waits besides: parked webhooks, commands that do not move, dead letters, no route. */
static void print_waits(const struct query_picture *picture, struct arena *arena)
{
    for (size_t i = 0; i < picture->webhook_count; i++) {
        const struct query_webhook *webhook = &picture->webhooks[i];
        if (webhook->processed_us != 0) continue;
        printf("\nwebhook %s of %s waits since %s\n", webhook->event, webhook->account,
               cli_time(arena, webhook->received_us));
    }
    for (size_t i = 0; i < picture->stuck_count; i++) {
        const struct query_stuck *stuck = &picture->stuck[i];
        printf("\nstuck in %s since %s, command written again %d times, next look %s\n",
               stuck->stage, cli_time(arena, stuck->since_us), stuck->emissions,
               cli_when(arena, stuck->next_us, picture->now_us));
    }
    for (size_t i = 0; i < picture->letter_count; i++) {
        const struct query_letter_of *letter = &picture->letters[i];
        printf("\ndead letter %s of %s: %s%s\n", cli_id(arena, letter->id), letter->consumer,
               letter->code, letter->replays > 0 ? ", replayed" : "");
    }
    for (size_t i = 0; i < picture->decision_count; i++) {
        if (picture->decisions[i].account != NULL) continue;
        printf("\nno route: %s\n", picture->decisions[i].reasons);
    }
}

static int run(struct cli *cli)
{
    const char *merchant = NULL;
    const char *target = NULL;
    const char *words[1] = { NULL };
    size_t word_count = 0;
    const struct cli_option options[] = {
        { "--merchant", CLI_OPTION_TEXT, &merchant },
        { "--target", CLI_OPTION_TEXT, &target },
    };
    if (!cli_read_arguments(cli, options, COUNT_OF(options), words, 1, &word_count))
        return CLI_USAGE;
    if ((word_count == 1) == (target != NULL))
        return cli_fail(cli, CLI_USAGE, "name one payment, or a target");
    struct query_picture picture;
    int exit_code = CLI_OK;
    if (target != NULL) {
        const char *kind = NULL;
        const char *id = NULL;
        struct query_found found;
        if (merchant == NULL || !cli_split_target(target, &cli->arena, &kind, &id))
            return cli_fail(cli, CLI_USAGE, "--target wants KIND/ID, and --merchant beside it");
        struct store *store = cli_store(cli);
        if (store == NULL) return CLI_USAGE;
        const enum status status =
            query_find_target(store, merchant, kind, id, &cli->arena, &found);
        if (status == STATUS_NOT_FOUND)
            return cli_fail(cli, CLI_REFUSED, "no payment of %s for %s", merchant, target);
        if (status != STATUS_OK) return cli_fail_store(cli, store, status);
        if (!cli_picture_read(cli, found.payment, &picture, &exit_code)) return exit_code;
    } else if (!cli_picture_find(cli, words[0], merchant, &picture, &exit_code)) {
        return exit_code;
    }
    if (cli->as_json) {
        const struct value document = cli_picture_value(&picture, &cli->arena);
        cli_print_json(cli, &document);
        return CLI_OK;
    }
    print_payment(&picture, &cli->arena);
    print_attempts(&picture, &cli->arena);
    print_tasks(&picture, &cli->arena);
    print_cases(&picture, &cli->arena);
    print_strays(&picture, &cli->arena);
    print_waits(&picture, &cli->arena);
    return CLI_OK;
}

const struct cli_command CLI_COMMAND_SHOW = {
    .name = "show",
    .run = run,
    .usage = "show PAYMENT|OUT_TRADE_NO [--merchant M]\n"
             "show --target KIND/ID --merchant M",
    .summary = "how a payment stands, with all that is open about it",
    .help =
        "Prints the payment, its attempts with their requests and evidence, open tasks, cases, "
        "stray\n"
        "facts and whatever else waits, all from one snapshot. --target takes the payment that "
        "the\n"
        "target's pointer names, which is its last one.\n"
        "\n"
        "--json, one document: the members of an answer (payment, out_trade_no, status, "
        "certainty,\n"
        "amount, currency, captured, refunded, next_action, reason, safe_to_pay_again, hold,\n"
        "next_check_at, version) and state, merchant, target {kind, id}, method, token_realm, "
        "capture,\n"
        "authorised, created_at, start_by, expires_at, hold_lifts_at, target_points_to, "
        "traceparent,\n"
        "as_of; and lists:\n"
        "  attempts      attempt, operation, ordinal, account, status, certainty, reason,\n"
        "                decline_class, amount, currency, provider_key, provider_object, proof,\n"
        "                handed_out, policy_version, routing_version, guard_decision, created_at,\n"
        "                first_sent_at, fence_due_at, version, requests, evidence\n"
        "    requests    request, attempt, kind, started_at, send_by, worker, has_result,\n"
        "                closure (open, no_effect, known)\n"
        "    evidence    evidence, attempt, request, source, observed, phase, http_status, "
        "error_code,\n"
        "                provider_status, provider_object, provider_event, reference, amount, "
        "currency,\n"
        "                strength, proves, observed_at, stored_at\n"
        "  tasks         task, attempt, purpose, status, due_at, lease_owner, step, claims,\n"
        "                policy_version, unknown_since, escalated_at, version\n"
        "  cases         case, kind, attempt, account, priority, reason, open, opened_at, "
        "closed_at,\n"
        "                close_reason\n"
        "  stray_facts   stray_fact, kind, attempt, account, provider_object, amount, currency,\n"
        "                evidence, open, created_at\n"
        "  routing       follows, account, attempt, routing_version, reasons, created_at\n"
        "  webhooks      webhook, account, provider_event, observed, provider_status,\n"
        "                provider_object, received_at, processed_at, look_at\n"
        "  stuck         stage, account, since, emitted_at, next_look_at, emissions\n"
        "  dead_letters  dead_letter, consumer, code, field, replays, replayed_at, created_at\n",
};
