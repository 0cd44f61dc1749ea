/* ops/cli/cli_timeline.c: `oncepay timeline`: everything that happened to a payment, in order. */
#include "ops/cli/cli_picture.h"
#include "ops/cli/cli_text.h"

#include "pipeline/event.h"

/* What one transaction wrote has one time: then what was seen stands before what it did. */
enum rank {
    RANK_WEBHOOK,
    RANK_EVIDENCE,
    RANK_ROUTING,
    RANK_PAYMENT,
    RANK_ATTEMPT,
    RANK_REQUEST,
    RANK_STRAY,
    RANK_TASK,
    RANK_CASE,
    RANK_LETTER,
    RANK_COMMAND,
    RANK_EVENT,
};

struct entry {
    int64_t at_us;
    enum rank rank;
    size_t place; /* among entries of its kind: keeps the order that the store gave */
    const char *kind;
    const char *who;
    const char *what;
    const char *why;
    struct uuid id;
    struct uuid evidence;
};

struct timeline {
    const struct query_picture *picture;
    struct arena *arena;
    struct entry *entries;
    size_t count;
};

static void add(struct timeline *timeline, struct entry entry)
{
    entry.place = timeline->count;
    timeline->entries[timeline->count++] = entry;
}

static const char *account_of(const struct timeline *timeline, struct attempt_id id)
{
    const struct query_attempt *attempt = query_attempt_find(timeline->picture, id);
    return attempt == NULL ? NULL : attempt->account;
}

static void add_history(struct timeline *timeline)
{
    for (size_t i = 0; i < timeline->picture->history_count; i++) {
        const struct query_history *row = &timeline->picture->history[i];
        const char *from = row->from == 0 ? NULL : state_name(row->entity, row->from);
        const char *to = cli_or_dash(state_name(row->entity, row->to));
        const char *what =
            from == NULL
                ? arena_format(timeline->arena, "%s (version %d)", to, row->version)
                : arena_format(timeline->arena, "%s -> %s (version %d)", from, to, row->version);
        add(timeline, (struct entry){
                          .at_us = row->at_us,
                          .rank = row->entity == ENTITY_PAYMENT ? RANK_PAYMENT : RANK_ATTEMPT,
                          .kind = entity_name((int)row->entity),
                          .who = row->actor,
                          .what = what,
                          .why = arena_format(timeline->arena, "%s: %s", row->event, row->why),
                          .id = row->id,
                          .evidence = row->evidence.uuid,
                      });
    }
}

static void add_requests(struct timeline *timeline)
{
    for (size_t i = 0; i < timeline->picture->request_count; i++) {
        const struct query_request *row = &timeline->picture->requests[i];
        add(timeline, (struct entry){
                          .at_us = row->started_us,
                          .rank = RANK_REQUEST,
                          .kind = "request",
                          .who = row->worker,
                          .what = arena_format(timeline->arena, "%s to %s",
                                               cli_or_dash(request_kind_name((int)row->kind)),
                                               cli_or_dash(account_of(timeline, row->attempt))),
                          .why = arena_format(timeline->arena, "to be handed over by %s",
                                              cli_time(timeline->arena, row->send_by_us)),
                          .id = row->id.uuid,
                      });
    }
}

/* "answer: succeeded, HTTP 200, succeeded, pi_1, 10.99 EUR". */
static const char *evidence_text(const struct query_evidence *row, struct arena *arena)
{
    const char *text =
        arena_format(arena, "%s: %s", cli_or_dash(evidence_source_name((int)row->source)),
                     cli_or_dash(observation_kind_name((int)row->kind)));
    const char *parts[] = {
        row->http_status == 0 ? NULL : arena_format(arena, "HTTP %d", row->http_status),
        row->provider_status,
        row->error_code,
        row->provider_object,
        row->provider_event,
        row->has_amount ? cli_money(arena, row->amount) : NULL,
    };
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        if (parts[i] != NULL) text = arena_format(arena, "%s, %s", text, parts[i]);
    }
    return text;
}

static void add_evidence(struct timeline *timeline)
{
    for (size_t i = 0; i < timeline->picture->evidence_count; i++) {
        const struct query_evidence *row = &timeline->picture->evidence[i];
        const char *proves = certainty_name(row->proves);
        add(timeline,
            (struct entry){
                .at_us = row->created_us,
                .rank = RANK_EVIDENCE,
                .kind = "evidence",
                .who = account_of(timeline, row->attempt),
                .what = evidence_text(row, timeline->arena),
                .why = proves == NULL ? "decides nothing"
                                      : arena_format(timeline->arena, "proves %s", proves),
                .id = row->id.uuid,
            });
    }
}

static const char *decision_text(const struct query_decision *decision, struct arena *arena)
{
    const char *candidates = cli_decision_candidates(decision, arena);
    if (decision->account == NULL) return *candidates == '\0' ? "there is no account" : candidates;
    if (*candidates == '\0') return "the first that serves";
    return arena_format(arena, "the first that serves, after %s", candidates);
}

static void add_decisions(struct timeline *timeline)
{
    for (size_t i = 0; i < timeline->picture->decision_count; i++) {
        const struct query_decision *row = &timeline->picture->decisions[i];
        add(timeline, (struct entry){
                          .at_us = row->created_us,
                          .rank = RANK_ROUTING,
                          .kind = "routing",
                          .who = "route",
                          .what = row->account == NULL ? "no route" : row->account,
                          .why = decision_text(row, timeline->arena),
                          .id = row->attempt.uuid,
                      });
    }
}

static void add_webhooks(struct timeline *timeline)
{
    for (size_t i = 0; i < timeline->picture->webhook_count; i++) {
        const struct query_webhook *row = &timeline->picture->webhooks[i];
        add(timeline,
            (struct entry){
                .at_us = row->received_us,
                .rank = RANK_WEBHOOK,
                .kind = "webhook",
                .who = row->account,
                .what = arena_format(timeline->arena, "%s: %s%s%s", row->event,
                                     cli_or_dash(observation_kind_name((int)row->kind)),
                                     row->provider_object == NULL ? "" : ", ",
                                     row->provider_object == NULL ? "" : row->provider_object),
                .why = row->processed_us == 0
                           ? "waits"
                           : arena_format(timeline->arena, "judged %s",
                                          cli_time(timeline->arena, row->processed_us)),
                .id = row->id.uuid,
            });
    }
}

static void add_tasks(struct timeline *timeline)
{
    for (size_t i = 0; i < timeline->picture->task_count; i++) {
        const struct query_task *row = &timeline->picture->tasks[i];
        add(timeline,
            (struct entry){
                .at_us = row->created_us,
                .rank = RANK_TASK,
                .kind = "task",
                .who = "recover",
                .what = arena_format(timeline->arena, "open: %s, %s",
                                     cli_or_dash(cli_purpose_name(row->purpose)),
                                     cli_or_dash(task_state_name((int)row->status))),
                .why = row->due_us == 0 ? "for people"
                                        : arena_format(timeline->arena, "due %s",
                                                       cli_time(timeline->arena, row->due_us)),
                .id = row->id.uuid,
            });
    }
}

static void add_cases(struct timeline *timeline)
{
    for (size_t i = 0; i < timeline->picture->case_count; i++) {
        const struct query_case *row = &timeline->picture->cases[i];
        const char *kind = cli_or_dash(case_kind_name((int)row->kind));
        add(timeline, (struct entry){
                          .at_us = row->opened_us,
                          .rank = RANK_CASE,
                          .kind = "case",
                          .what = arena_format(timeline->arena, "opened: %s", kind),
                          .why = row->reason,
                          .id = row->id.uuid,
                      });
        if (row->is_open) continue;
        add(timeline, (struct entry){
                          .at_us = row->closed_us,
                          .rank = RANK_CASE,
                          .kind = "case",
                          .what = arena_format(timeline->arena, "closed: %s", kind),
                          .why = row->close_reason,
                          .id = row->id.uuid,
                      });
    }
}

static void add_strays(struct timeline *timeline)
{
    for (size_t i = 0; i < timeline->picture->stray_count; i++) {
        const struct query_stray *row = &timeline->picture->strays[i];
        add(timeline,
            (struct entry){
                .at_us = row->created_us,
                .rank = RANK_STRAY,
                .kind = "stray_fact",
                .who = row->account,
                .what = arena_format(
                    timeline->arena, "%s: %s, %s", cli_or_dash(stray_kind_name((int)row->kind)),
                    row->provider_object,
                    row->has_amount ? cli_money(timeline->arena, row->amount) : "no amount"),
                .id = row->id,
                .evidence = row->evidence.uuid,
            });
    }
}

static void add_letters(struct timeline *timeline)
{
    for (size_t i = 0; i < timeline->picture->letter_count; i++) {
        const struct query_letter_of *row = &timeline->picture->letters[i];
        add(timeline, (struct entry){
                          .at_us = row->created_us,
                          .rank = RANK_LETTER,
                          .kind = "dead_letter",
                          .who = row->consumer,
                          .what = row->code,
                          .why = row->replayed_us == 0
                                     ? "waits for a person"
                                     : arena_format(timeline->arena, "replayed %s",
                                                    cli_time(timeline->arena, row->replayed_us)),
                          .id = row->id,
                      });
    }
}

static void add_commands(struct timeline *timeline)
{
    for (size_t i = 0; i < timeline->picture->command_count; i++) {
        const struct query_command *row = &timeline->picture->commands[i];
        add(timeline, (struct entry){
                          .at_us = row->created_us,
                          .rank = RANK_COMMAND,
                          .kind = "command",
                          .what = arena_format(timeline->arena, "%s (version %d)", row->subject,
                                               row->version),
                          .id = row->id.uuid,
                      });
    }
}

/* "payment.succeeded": the last two tokens. */
static const char *event_word(const char *subject)
{
    const char *last = strrchr(subject, '.');
    if (last == NULL) return subject;
    const char *word = last;
    while (word > subject && word[-1] != '.') word--;
    return word;
}

static void add_events(struct timeline *timeline)
{
    for (size_t i = 0; i < timeline->picture->event_count; i++) {
        const struct relay_row *row = &timeline->picture->events[i];
        const char *word = event_word(row->subject);
        add(timeline,
            (struct entry){
                .at_us = row->created_us,
                .rank = RANK_EVENT,
                .kind = "event",
                .what = row->version == 0
                            ? word
                            : arena_format(timeline->arena, "%s (version %d)", word, row->version),
                .id = row->id.uuid,
            });
    }
}

static int by_time(const void *a, const void *b)
{
    const struct entry *left = a;
    const struct entry *right = b;
    if (left->at_us != right->at_us) return left->at_us < right->at_us ? -1 : 1;
    if (left->rank != right->rank) return left->rank < right->rank ? -1 : 1;
    return left->place < right->place ? -1 : 1;
}

static struct timeline make(const struct query_picture *picture, struct arena *arena)
{
    const size_t room = picture->history_count + picture->request_count + picture->evidence_count +
                        picture->decision_count + picture->webhook_count + picture->task_count +
                        2 * picture->case_count + picture->stray_count + picture->letter_count +
                        picture->command_count + picture->event_count;
    struct timeline timeline = {
        .picture = picture,
        .arena = arena,
        .entries = arena_allocate(arena, (room + 1) * sizeof(struct entry)),
    };
    static void (*const PARTS[])(struct timeline *) = {
        add_webhooks, add_evidence, add_decisions, add_history,  add_requests, add_strays,
        add_tasks,    add_cases,    add_letters,   add_commands, add_events,
    };
    for (size_t i = 0; i < COUNT_OF(PARTS); i++) PARTS[i](&timeline);
    INVARIANT(timeline.count <= room);
    qsort(timeline.entries, timeline.count, sizeof *timeline.entries, by_time);
    return timeline;
}

static void print_json(struct cli *cli, const struct timeline *timeline)
{
    for (size_t i = 0; i < timeline->count; i++) {
        const struct entry *entry = &timeline->entries[i];
        struct value map = value_map_make(&cli->arena, 7);
        value_map_add(&map, "at", cli_value_time(&cli->arena, entry->at_us));
        value_map_add(&map, "kind", value_of_text(entry->kind));
        value_map_add(&map, "who", value_of_text(entry->who));
        value_map_add(&map, "what", value_of_text(entry->what));
        value_map_add(&map, "why", value_of_text(entry->why));
        value_map_add(&map, "id", cli_value_id(&cli->arena, entry->id));
        value_map_add(&map, "evidence", cli_value_id(&cli->arena, entry->evidence));
        cli_print_json(cli, &map);
    }
}

static void print_text(struct cli *cli, const struct timeline *timeline)
{
    static const char *const HEADINGS[] = { "time", "kind", "what", "who", "why" };
    struct cli_table table;
    cli_table_begin(&table, &cli->arena, HEADINGS, COUNT_OF(HEADINGS));
    for (size_t i = 0; i < timeline->count; i++) {
        const struct entry *entry = &timeline->entries[i];
        const char *cells[] = { cli_time(&cli->arena, entry->at_us), entry->kind, entry->what,
                                entry->who, entry->why };
        cli_table_add(&table, cells);
    }
    cli_table_print(&table, 0, stdout);
}

static int run(struct cli *cli)
{
    const char *merchant = NULL;
    const char *words[1] = { NULL };
    size_t word_count = 0;
    const struct cli_option options[] = { { "--merchant", CLI_OPTION_TEXT, &merchant } };
    if (!cli_read_arguments(cli, options, COUNT_OF(options), words, 1, &word_count))
        return CLI_USAGE;
    if (word_count != 1) return cli_fail(cli, CLI_USAGE, "name one payment");
    struct query_picture picture;
    int exit_code = CLI_OK;
    if (!cli_picture_find(cli, words[0], merchant, &picture, &exit_code)) return exit_code;
    const struct timeline timeline = make(&picture, &cli->arena);
    if (cli->as_json) {
        print_json(cli, &timeline);
    } else {
        print_text(cli, &timeline);
    }
    return CLI_OK;
}

const struct cli_command CLI_COMMAND_TIMELINE = {
    .name = "timeline",
    .run = run,
    .usage = "timeline PAYMENT|OUT_TRADE_NO [--merchant M]",
    .summary = "everything that happened to a payment, in order",
    .help =
        "History of payment, attempts and operations, requests, evidence, webhooks, routing\n"
        "decisions, open tasks, cases, stray facts, dead letters, commands and events, each with "
        "its\n"
        "time, who did it and why. Times are the database's; what one transaction wrote has one "
        "time.\n"
        "\n"
        "--json, one line per entry: at, kind (payment, attempt, operation, request, evidence,\n"
        "webhook, routing, task, case, stray_fact, dead_letter, command, event), who, what, why, "
        "id,\n"
        "evidence\n",
};
