/* ops/cli/cli_migrate.c: `oncepay migrate`. */
#include "ops/cli/cli.h"

#include "store/migrate.h"

static int run(struct cli *cli)
{
    if (cli->argc != 1) return CLI_USAGE;
    const struct config *config = cli_config(cli);
    if (config == NULL) return CLI_USAGE;
    struct migrate_report report;
    const enum status status = store_migrate(config->postgres.url, &report);
    if (status != STATUS_OK) {
        return cli_fail(cli, status == STATUS_RETRY ? CLI_INFRASTRUCTURE : CLI_REFUSED, "%s",
                        report.error);
    }
    if (cli->as_json) {
        printf("{\"applied\":%d,\"known\":%d,\"partitions_made\":%d,\"synchronous_standby\":%s}\n",
               report.applied, report.known, report.partitions_made,
               report.no_standby ? "false" : "true");
    } else {
        printf("%d migrations applied, %d stood already, %d partitions made\n", report.applied,
               report.known, report.partitions_made);
        if (report.no_standby) {
            printf("warning: no synchronous standby; production needs one, or a lost disk loses "
                   "commits\n");
        }
    }
    return CLI_OK;
}

const struct cli_command CLI_COMMAND_MIGRATE = {
    .name = "migrate",
    .run = run,
    .usage = "migrate",
    .summary = "bring the database to this version's schema",
    .help = "Applies the numbered migrations that are missing, under an advisory lock, writes the "
            "table\n"
            "of transitions, and makes partitions a week ahead. Done again it changes nothing.\n"
            "\n"
            "--json: applied, known, partitions_made, synchronous_standby\n",
};
