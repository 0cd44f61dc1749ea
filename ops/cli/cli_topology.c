/* ops/cli/cli_topology.c: `oncepay topology`: streams, consumers, merchants, accounts. */
#include "ops/cli/cli.h"

#include "pipeline/value.h"
#include "stages/psp_registry.h"
#include "store/account_store.h"

static int write_accounts(struct cli *cli, const struct config *config)
{
    const char **merchants =
        arena_allocate(&cli->arena, (config->merchant_count + 1) * sizeof(const char *));
    for (size_t i = 0; i < config->merchant_count; i++) merchants[i] = config->merchants[i].id;
    struct account_upsert *accounts =
        arena_allocate(&cli->arena, (config->account_count + 1) * sizeof *accounts);
    for (size_t i = 0; i < config->account_count; i++) {
        const struct config_account *account = &config->accounts[i];
        const struct psp_ops *psp = psp_registry_find(account->psp);
        struct config_error error;
        if (psp == NULL)
            return cli_fail(cli, CLI_REFUSED, "account %s: no adapter for psp %s", account->id,
                            account->psp);
        if (config_account_check(config, account, &psp->capability, &error) != STATUS_OK) {
            return cli_fail(cli, CLI_REFUSED, "%s", error.text);
        }
        accounts[i] = (struct account_upsert){ account->id, account->psp, account->failure_domain,
                                               &psp->capability };
    }
    struct store *store = cli_store(cli);
    if (store == NULL) return CLI_INFRASTRUCTURE;
    const enum status status = accounts_write(store, merchants, config->merchant_count, accounts,
                                              config->account_count, &cli->arena);
    return status == STATUS_OK ? CLI_OK : cli_fail_store(cli, store, status);
}

static struct value change_value(const struct bus_change *change, struct arena *arena)
{
    struct value map = value_map_make(arena, 5);
    value_map_add(&map, "stream", value_of_text(change->stream));
    value_map_add(&map, "consumer", value_of_text(change->durable));
    value_map_add(&map, "change", value_of_text(bus_change_kind_name((int)change->kind)));
    struct value differences = value_map_make(arena, change->difference_count + 1);
    for (size_t i = 0; i < change->difference_count; i++) {
        value_map_add(&differences, change->differences[i].field,
                      value_of_text(arena_format(arena, "%s -> %s", change->differences[i].found,
                                                 change->differences[i].expected)));
    }
    value_map_add(&map, "differences", differences);
    value_map_add(&map, "text", value_of_text(change->text));
    return map;
}

static void print_report(struct cli *cli, const struct bus_report *report)
{
    for (size_t i = 0; i < report->change_count; i++) {
        const struct bus_change *change = &report->changes[i];
        if (cli->as_json) {
            const struct value map = change_value(change, &cli->arena);
            printf("%s\n", (const char *)value_write_json(&map, &cli->arena).data);
            continue;
        }
        printf("%-10s %s%s%s%s%s\n", bus_change_kind_name((int)change->kind), change->stream,
               change->durable == NULL ? "" : "/", change->durable == NULL ? "" : change->durable,
               change->text[0] == '\0' ? "" : ": ", change->text);
        for (size_t k = 0; k < change->difference_count; k++) {
            printf("           %s: %s -> %s\n", change->differences[k].field,
                   change->differences[k].found, change->differences[k].expected);
        }
    }
}

static int run(struct cli *cli)
{
    const char *verb = cli->argc == 2 ? cli->argv[1] : "";
    const bool is_apply = strcmp(verb, "apply") == 0;
    if (!is_apply && strcmp(verb, "plan") != 0) return CLI_USAGE;
    const struct config *config = cli_config(cli);
    if (config == NULL) return CLI_USAGE;
    if (is_apply) {
        const int exit_code = write_accounts(cli, config);
        if (exit_code != CLI_OK) return exit_code;
    }
    int exit_code = CLI_OK;
    struct bus *bus = cli_bus(cli, &exit_code);
    if (bus == NULL) return exit_code;
    struct bus_topology topology;
    config_topology(config, &cli->arena, &topology);
    struct bus_report report = { 0 };
    const enum status status = bus_topology_apply(
        bus, &topology, is_apply ? BUS_APPLY_ALL : BUS_APPLY_PLAN, &cli->arena, &report);
    print_report(cli, &report);
    if (status == STATUS_OK) return CLI_OK;
    return cli_fail(cli, status == STATUS_RETRY ? CLI_INFRASTRUCTURE : CLI_REFUSED,
                    status == STATUS_RETRY ? "JetStream did not answer"
                                           : "something was refused, see above");
}

const struct cli_command CLI_COMMAND_TOPOLOGY = {
    .name = "topology",
    .run = run,
    .usage = "topology apply\n"
             "topology plan",
    .summary = "create and update streams, consumers, merchants and accounts as configured",
    .help =
        "plan only says what apply would change. apply also writes merchants and accounts into\n"
        "their tables; it never deletes anything. Exit 1 if the server refuses a change.\n"
        "\n"
        "--json, one line per stream and consumer: stream, consumer, change, differences, text\n",
};
