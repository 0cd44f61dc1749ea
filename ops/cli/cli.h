/*
 * ops/cli/cli.h: the oncepay command: one table of sub-commands, each a function in a file of its
 * own. Exit codes: 0 ok, 1 refused or not found, 2 usage, 3 infrastructure (design §8).
 */
#ifndef ONCEPAY_OPS_CLI_CLI_H
#define ONCEPAY_OPS_CLI_CLI_H

#include "adapters/nats/bus_nats.h"
#include "config/config.h"
#include "store/store.h"

enum {
    CLI_OK = 0,
    CLI_REFUSED = 1,
    CLI_USAGE = 2,
    CLI_INFRASTRUCTURE = 3,
};

/* What every sub-command gets. Connections are made when first asked for. */
struct cli {
    const char *command;    /* "topology" */
    int argc;               /* what follows the command's name; argv[0] is the name itself */
    char **argv;
    const char *config_path; /* NULL: the default */
    bool as_json;
    struct arena arena;
    struct config config;
    bool has_config;
    struct store *store;
    struct bus *bus;
};

/* NULL: refused, and said on stderr; leave with CLI_USAGE. */
const struct config *cli_config(struct cli *cli);
/* NULL: said on stderr; leave with CLI_INFRASTRUCTURE. */
struct store *cli_store(struct cli *cli);
struct bus *cli_bus(struct cli *cli);

/* "oncepay topology: what" on stderr. Returns exit_code. */
int cli_fail(const struct cli *cli, int exit_code, const char *format, ...) PRINTF_LIKE(3, 4);
/* What the last statement on the store came to; returns the exit code. */
int cli_fail_store(const struct cli *cli, enum status status);

int cli_migrate(struct cli *cli);
int cli_topology(struct cli *cli);

#endif
