/* ops/cli/cli_main.c: see cli.h: the table, the common options, the connections. */
#include "ops/cli/cli.h"

#include <signal.h>
#include <stdarg.h>
#include <unistd.h>

#include "pipeline/log.h"

struct command_row {
    const char *name;
    int (*run)(struct cli *cli);
    const char *usage;
    const char *help;
};

static const struct command_row COMMANDS[] = {
    { "migrate", cli_migrate, "migrate", "bring the database to this version's schema" },
    { "topology", cli_topology, "topology apply|plan", "create and update streams, consumers, merchants, accounts" },
};

static void print_usage(FILE *out)
{
    fprintf(out, "usage: oncepay [--config FILE] [--json] COMMAND …\n\n");
    for (size_t i = 0; i < COUNT_OF(COMMANDS); i++) {
        fprintf(out, "  %-44s %s\n", COMMANDS[i].usage, COMMANDS[i].help);
    }
    fprintf(out, "\nexit codes: 0 ok, 1 refused or not found, 2 usage, 3 infrastructure\n");
}

int cli_fail(const struct cli *cli, int exit_code, const char *format, ...)
{
    va_list arguments;
    fprintf(stderr, "oncepay %s: ", cli->command);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return exit_code;
}

int cli_fail_store(const struct cli *cli, enum status status)
{
    const struct store_error *error = store_last_error(cli->store);
    const int exit_code = status == STATUS_RETRY || status == STATUS_STOP ? CLI_INFRASTRUCTURE : CLI_REFUSED;
    return cli_fail(cli, exit_code, "%s%s%s", error->statement, error->statement[0] == '\0' ? "" : ": ", error->message);
}

const struct config *cli_config(struct cli *cli)
{
    if (cli->has_config) return &cli->config;
    struct config_error error;
    if (config_load(cli->config_path, &cli->config, &error) != STATUS_OK) {
        (void)cli_fail(cli, CLI_USAGE, "%s", error.text);
        return NULL;
    }
    cli->has_config = true;
    return &cli->config;
}

struct store *cli_store(struct cli *cli)
{
    if (cli->store != NULL) return cli->store;
    const struct config *config = cli_config(cli);
    if (config == NULL) return NULL;
    const struct store_options options = {
        .url = config->postgres.url,
        .application = "oncepay-cli",
        .statement_timeout_ms = 60000,
        .lock_timeout_ms = 5000,
    };
    cli->store = store_create(&options);
    return cli->store;
}

/* An endless wait is right for a stage, not for a person: the alarm ends it. */
static volatile sig_atomic_t stop_connecting;

static void on_alarm(int signal_number)
{
    (void)signal_number;
    stop_connecting = 1;
}

struct bus *cli_bus(struct cli *cli)
{
    if (cli->bus != NULL) return cli->bus;
    const struct config *config = cli_config(cli);
    if (config == NULL) return NULL;
    struct sigaction action = { 0 };
    action.sa_handler = on_alarm;
    (void)sigaction(SIGALRM, &action, NULL);
    const char *error = NULL;
    const struct bus_options options = {
        .url = config->nats.url,
        .name = "oncepay-cli",
        .ca_file = config->nats.ca_file[0] == '\0' ? NULL : config->nats.ca_file,
        .stop = &stop_connecting,
    };
    (void)alarm(10);
    const enum status status = bus_connect(&options, &cli->bus, &error);
    (void)alarm(0);
    if (status != STATUS_OK) {
        (void)cli_fail(cli, CLI_INFRASTRUCTURE, "NATS: %s", error != NULL ? error : "no connection within 10 s");
        return NULL;
    }
    return cli->bus;
}

static void close_all(struct cli *cli)
{
    if (cli->bus != NULL) bus_close(cli->bus);
    store_destroy(cli->store);
    if (cli->has_config) config_finish(&cli->config);
    arena_finish(&cli->arena);
}

/* Takes --config and --json out of the arguments, wherever they stand. False: usage. */
static bool take_common_options(struct cli *cli, int argc, char **argv, int *out_count)
{
    int kept = 0;
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            cli->as_json = true;
        } else if (strcmp(argv[i], "--config") == 0) {
            if (i + 1 == argc) return false;
            cli->config_path = argv[++i];
        } else {
            argv[kept++] = argv[i];
        }
    }
    *out_count = kept;
    return true;
}

int main(int argc, char **argv)
{
    struct cli cli = { .command = "" };
    int count = 0;
    log_open("oncepay");
    if (!take_common_options(&cli, argc - 1, argv + 1, &count) || count == 0) {
        print_usage(stderr);
        return CLI_USAGE;
    }
    cli.command = argv[1];
    cli.argc = count;
    cli.argv = argv + 1;
    if (strcmp(cli.command, "--help") == 0 || strcmp(cli.command, "help") == 0) {
        print_usage(stdout);
        return CLI_OK;
    }
    for (size_t i = 0; i < COUNT_OF(COMMANDS); i++) {
        if (strcmp(COMMANDS[i].name, cli.command) != 0) continue;
        const int exit_code = COMMANDS[i].run(&cli);
        if (exit_code == CLI_USAGE) fprintf(stderr, "usage: oncepay %s\n", COMMANDS[i].usage);
        close_all(&cli);
        return exit_code;
    }
    fprintf(stderr, "oncepay: no such command: %s\n", cli.command);
    print_usage(stderr);
    return CLI_USAGE;
}
