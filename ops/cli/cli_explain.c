/* ops/cli/cli_explain.c: `oncepay explain`: the five questions of explain.h. */
#include "ops/cli/cli_picture.h"
#include "ops/cli/cli_text.h"
#include "ops/cli/explain.h"
#include "stages/psp_registry.h"

enum { WIDTH = 96, POLICIES_MAX = 8 };

/* The policies that the open tasks pinned. */
struct policies {
    struct recovery_policy items[POLICIES_MAX];
    size_t count;
};

static const struct recovery_policy *find_policy(const struct policies *policies,
                                                 const char *version)
{
    for (size_t i = 0; i < policies->count; i++) {
        if (strcmp(policies->items[i].version, version) == 0) return &policies->items[i];
    }
    return NULL;
}

/* By its stored text. NULL: it is not stored, or cannot be read: then nobody guesses. */
static const struct recovery_policy *load_policy(struct cli *cli, struct policies *policies,
                                                 const char *version)
{
    const struct recovery_policy *known = find_policy(policies, version);
    const char *text = NULL;
    struct config_error error;
    if (known != NULL || policies->count == POLICIES_MAX) return known;
    if (query_policy_text(cli->store, version, &cli->arena, &text) != STATUS_OK) return NULL;
    struct recovery_policy *policy = &policies->items[policies->count];
    if (recovery_policy_parse(version, span_of_text(text), NULL, 0, policy, &error) != STATUS_OK) {
        return NULL;
    }
    policies->count++;
    return policy;
}

static const struct recovery_rule *rule_of(struct cli *cli, const struct query_picture *picture,
                                           const struct query_task *task, struct policies *policies)
{
    const struct query_attempt *attempt = query_attempt_find(picture, task->attempt);
    const struct recovery_policy *policy = load_policy(cli, policies, task->policy_version);
    if (attempt == NULL || policy == NULL) return NULL;
    const struct config_account *account = config_account_find(&cli->config, attempt->account);
    if (account == NULL) return NULL;
    return recovery_policy_rule(policy, account->psp, account->id, attempt->method_type,
                                attempt->operation);
}

static const struct psp_capability *capability_of(const struct config *config, const char *account)
{
    const struct config_account *found = config_account_find(config, account);
    const struct psp_ops *psp = found == NULL ? NULL : psp_registry_find(found->psp);
    return psp == NULL ? NULL : &psp->capability;
}

static void answer_all(struct cli *cli, const struct query_picture *picture,
                       struct explain_answer answers[EXPLAIN_QUESTION_COUNT])
{
    struct policies policies = { .count = 0 };
    const struct psp_capability **capabilities =
        arena_allocate(&cli->arena, (picture->attempt_count + 1) * sizeof *capabilities);
    const struct recovery_rule **rules =
        arena_allocate(&cli->arena, (picture->task_count + 1) * sizeof *rules);
    for (size_t i = 0; i < picture->attempt_count; i++) {
        capabilities[i] = capability_of(&cli->config, picture->attempts[i].account);
    }
    for (size_t i = 0; i < picture->task_count; i++) {
        rules[i] = rule_of(cli, picture, &picture->tasks[i], &policies);
    }
    const struct explain_input input = {
        .picture = picture,
        .capabilities = capabilities,
        .rules = rules,
        .timers = &cli->config.timers,
        .command_lag_ms =
            cli->config.relay.command_lag_ms + cli->config.postgres.statement_timeout_ms,
    };
    explain(&input, &cli->arena, answers);
    for (size_t i = 0; i < policies.count; i++) recovery_policy_finish(&policies.items[i]);
}

/* Breaks at blanks; later lines are indented under the first. */
static void print_wrapped(const char *text, size_t indent)
{
    size_t column = indent;
    while (*text != '\0') {
        const size_t length = strcspn(text, " ");
        if (column > indent && column + 1 + length > WIDTH) {
            printf("\n%*s", (int)indent, "");
            column = indent;
        } else if (column > indent) {
            putchar(' ');
            column++;
        }
        printf("%.*s", (int)length, text);
        column += length;
        text += length + (text[length] == ' ');
    }
    putchar('\n');
}

static void print_answer(enum explain_question question, const struct explain_answer *answer,
                         struct arena *arena)
{
    enum { DASH = 4 };
    printf("\n%d. %s\n", (int)question + 1, explain_question_text(question));
    for (size_t i = 0; i < answer->count; i++) {
        const struct explain_line *line = &answer->lines[i];
        /* Only the past is told by its times; elsewhere the sentence has them where they belong. */
        const bool has_time = question == EXPLAIN_FAILED && line->at_us != 0;
        printf("  - ");
        print_wrapped(has_time
                          ? arena_format(arena, "%s %s", cli_time(arena, line->at_us), line->text)
                          : line->text,
                      DASH);
    }
}

static void print_json(struct cli *cli, const struct query_picture *picture,
                       const struct explain_answer answers[EXPLAIN_QUESTION_COUNT])
{
    struct arena *arena = &cli->arena;
    struct value map = value_map_make(arena, 4);
    value_map_add(&map, "payment", cli_value_id(arena, picture->payment.view.payment.uuid));
    value_map_add(&map, "state",
                  value_of_text(payment_state_name((int)picture->payment.view.status)));
    value_map_add(&map, "as_of", cli_value_time(arena, picture->now_us));
    struct value list = cli_list_make(arena, EXPLAIN_QUESTION_COUNT);
    for (size_t i = 0; i < EXPLAIN_QUESTION_COUNT; i++) {
        struct value answer = value_map_make(arena, 3);
        struct value lines = cli_list_make(arena, answers[i].count);
        for (size_t k = 0; k < answers[i].count; k++) {
            struct value line = value_map_make(arena, 2);
            value_map_add(&line, "at", cli_value_time(arena, answers[i].lines[k].at_us));
            value_map_add(&line, "text", value_of_text(answers[i].lines[k].text));
            cli_list_add(&lines, line);
        }
        value_map_add(&answer, "question",
                      value_of_text(explain_question_name((enum explain_question)i)));
        value_map_add(&answer, "text",
                      value_of_text(explain_question_text((enum explain_question)i)));
        value_map_add(&answer, "answer", lines);
        cli_list_add(&list, answer);
    }
    value_map_add(&map, "questions", list);
    cli_print_json(cli, &map);
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
    struct explain_answer answers[EXPLAIN_QUESTION_COUNT];
    answer_all(cli, &picture, answers);
    if (cli->as_json) {
        print_json(cli, &picture, answers);
        return CLI_OK;
    }
    printf("payment %s (%s of %s): %s\n", cli_id(&cli->arena, picture.payment.view.payment.uuid),
           picture.payment.view.out_trade_no, picture.payment.merchant,
           payment_state_name((int)picture.payment.view.status));
    for (size_t i = 0; i < EXPLAIN_QUESTION_COUNT; i++) {
        print_answer((enum explain_question)i, &answers[i], &cli->arena);
    }
    return CLI_OK;
}

const struct cli_command CLI_COMMAND_EXPLAIN = {
    .name = "explain",
    .run = run,
    .usage = "explain PAYMENT|OUT_TRADE_NO [--merchant M]",
    .summary = "five questions about a payment, answered from its rows",
    .help =
        "What failed and when; what we know and what the PSP may know; what prevents a second\n"
        "charge; who reads which evidence next, and when; how we will know that recovery ran "
        "once.\n"
        "What recover does next is decided by recover's own function, under the policy that the\n"
        "task pinned and the accounts of this configuration.\n"
        "\n"
        "--json, one document: payment, state, as_of, questions: a list of question (what_failed,\n"
        "what_is_known, what_prevents_a_second_charge, what_comes_next, how_it_shows), text, and\n"
        "answer: a list of at (null: no one moment) and text\n",
};
