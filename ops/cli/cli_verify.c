/* ops/cli/cli_verify.c: `oncepay verify`: the invariants of protocol J, read only. */
#include "ops/cli/cli.h"
#include "store/verify.h"

enum { LOCK_LIMIT_MS = 5000 };

static void print_text(const struct verify_result *result)
{
    if (result->offender_count == 0) {
        printf("ok      %-11s %s\n", result->invariant, result->title);
        return;
    }
    printf("BROKEN  %-11s %s: %" PRId64 "\n", result->invariant, result->title,
           result->offender_count);
    for (size_t i = 0; i < result->shown_count; i++) {
        printf("          %s  %s\n", result->offenders[i].id, result->offenders[i].what);
    }
    if (result->offender_count > (int64_t)result->shown_count) {
        printf("          … and %" PRId64 " more\n",
               result->offender_count - (int64_t)result->shown_count);
    }
}

static void print_json(struct cli *cli, const struct verify_result *result)
{
    struct value map = value_map_make(&cli->arena, 5);
    struct value list = cli_list_make(&cli->arena, result->shown_count);
    for (size_t i = 0; i < result->shown_count; i++) {
        struct value offender = value_map_make(&cli->arena, 2);
        value_map_add(&offender, "id", value_of_text(result->offenders[i].id));
        value_map_add(&offender, "what", value_of_text(result->offenders[i].what));
        cli_list_add(&list, offender);
    }
    value_map_add(&map, "invariant", value_of_text(result->invariant));
    value_map_add(&map, "title", value_of_text(result->title));
    value_map_add(&map, "holds", value_of_boolean(result->offender_count == 0));
    value_map_add(&map, "offender_count", value_of_integer(result->offender_count));
    value_map_add(&map, "offenders", list);
    cli_print_json(cli, &map);
}

static int run(struct cli *cli)
{
    int64_t minutes = 60;
    size_t word_count = 0;
    const struct cli_option options[] = { { "--limit-minutes", CLI_OPTION_NUMBER, &minutes } };
    if (!cli_read_arguments(cli, options, COUNT_OF(options), NULL, 0, &word_count))
        return CLI_USAGE;
    if (minutes < 1 || minutes > 24 * 60)
        return cli_fail(cli, CLI_USAGE, "--limit-minutes: 1 to 1440");
    const struct config *config = cli_config(cli);
    if (config == NULL) return CLI_USAGE;
    const struct store_options reader = {
        .url = config->postgres.url,
        .application = "oncepay-verify",
        .statement_timeout_ms = (int)minutes * 60 * 1000,
        .lock_timeout_ms = LOCK_LIMIT_MS,
        .is_reader = true,
    };
    cli->store = store_create(&reader);
    struct verify_result results[VERIFY_CHECK_COUNT];
    const enum status status =
        verify_run(cli->store, config->timers.stuck_after_s, &cli->arena, results);
    if (status != STATUS_OK) return cli_fail_store(cli, cli->store, status);
    size_t broken = 0;
    for (size_t i = 0; i < VERIFY_CHECK_COUNT; i++) {
        broken += results[i].offender_count > 0;
        if (cli->as_json) {
            print_json(cli, &results[i]);
        } else {
            print_text(&results[i]);
        }
    }
    if (broken == 0) return CLI_OK;
    return cli_fail(cli, CLI_REFUSED, "%zu of %d invariants are broken", broken,
                    (int)VERIFY_CHECK_COUNT);
}

const struct cli_command CLI_COMMAND_VERIFY = {
    .name = "verify",
    .run = run,
    .usage = "verify [--limit-minutes N]",
    .summary = "check the invariants of the money protocol, read only",
    .help =
        "Each invariant is one read-only statement that reads whole tables, and may be run on\n"
        "production. Exit 1 if one is broken; its offenders are listed, at most 20 of each.\n"
        "\n"
        "  --limit-minutes N   how long one statement may take (60)\n"
        "\n"
        "--json, one line per invariant: invariant, title, holds, offender_count, offenders {id,\n"
        "what}\n",
};
