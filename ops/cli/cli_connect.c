/* ops/cli/cli_connect.c: see cli.h: configuration and servers, each with a bounded wait. */
#include "ops/cli/cli.h"

#include <signal.h>
#include <unistd.h>

enum { CONNECT_WAIT_S = 10, STATEMENT_LIMIT_MS = 60000, LOCK_LIMIT_MS = 5000 };

int cli_fail_store(const struct cli *cli, const struct store *store, enum status status)
{
    const struct store_error *error = store_last_error(store);
    const bool is_away = status == STATUS_RETRY || status == STATUS_STOP;
    const char *message = error->message[0] == '\0' ? status_name(status) : error->message;
    if (error->statement[0] == '\0') {
        return cli_fail(cli, is_away ? CLI_INFRASTRUCTURE : CLI_REFUSED, "%s", message);
    }
    return cli_fail(cli, is_away ? CLI_INFRASTRUCTURE : CLI_REFUSED, "PostgreSQL: %s: %s",
                    error->statement, message);
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
        .statement_timeout_ms = STATEMENT_LIMIT_MS,
        .lock_timeout_ms = LOCK_LIMIT_MS,
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

struct bus *cli_bus(struct cli *cli, int *out_exit_code)
{
    if (cli->bus != NULL) return cli->bus;
    const struct config *config = cli_config(cli);
    *out_exit_code = CLI_USAGE;
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
    (void)alarm(CONNECT_WAIT_S);
    const enum status status = bus_connect(&options, &cli->bus, &error);
    (void)alarm(0);
    if (status == STATUS_OK) return cli->bus;
    *out_exit_code = status == STATUS_STOP ? CLI_USAGE : CLI_INFRASTRUCTURE;
    (void)cli_fail(cli, *out_exit_code, "NATS: %s",
                   status == STATUS_STOP && error != NULL
                       ? error
                       : arena_format(&cli->arena, "no connection within %d s", CONNECT_WAIT_S));
    return NULL;
}
