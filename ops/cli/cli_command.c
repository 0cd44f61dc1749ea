/* ops/cli/cli_command.c: see cli.h: the table of commands, help, the way through it. */
#include "ops/cli/cli.h"

#include <stdarg.h>

#include "pipeline/log.h"

static const struct cli_command *const COMMANDS[] = {
    &CLI_COMMAND_DEAD_LETTER, &CLI_COMMAND_EXPLAIN, &CLI_COMMAND_FSM,   &CLI_COMMAND_MIGRATE,
    &CLI_COMMAND_OUTBOX,      &CLI_COMMAND_PAY,     &CLI_COMMAND_SHOW,  &CLI_COMMAND_TIMELINE,
    &CLI_COMMAND_TOPOLOGY,    &CLI_COMMAND_VERIFY,  &CLI_COMMAND_WATCH,
};

const struct cli_command *cli_command_at(size_t index)
{
    return index < COUNT_OF(COMMANDS) ? COMMANDS[index] : NULL;
}

static const struct cli_command *find_command(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(COMMANDS); i++) {
        if (strcmp(COMMANDS[i]->name, name) == 0) return COMMANDS[i];
    }
    return NULL;
}

/* Each line of usage with the program's name before it. */
static void print_usage(const struct cli_command *command, FILE *out)
{
    const char *prefix = "usage:";
    for (const char *line = command->usage; *line != '\0'; prefix = "      ") {
        const size_t length = strcspn(line, "\n");
        fprintf(out, "%s oncepay %.*s\n", prefix, (int)length, line);
        line += length + (line[length] == '\n');
    }
}

static void print_overview(FILE *out)
{
    fprintf(out, "usage: oncepay [--config FILE] [--json] COMMAND …\n"
                 "       oncepay help [COMMAND]\n\n");
    for (size_t i = 0; i < COUNT_OF(COMMANDS); i++) {
        fprintf(out, "  %-12s %s\n", COMMANDS[i]->name, COMMANDS[i]->summary);
    }
    fprintf(
        out,
        "\n"
        "  --config FILE   default: $ONCEPAY_CONFIG or config/oncepay.yaml; $ONCEPAY_NATS_URL and\n"
        "                  $ONCEPAY_PG_URL override the servers that it names\n"
        "  --json          documents instead of text, one a line; every command has it\n\n"
        "exit codes: 0 ok, 1 refused or not found, 2 usage, 3 infrastructure\n");
}

bool cli_print_help(const char *command, FILE *out)
{
    if (command == NULL) {
        print_overview(out);
        return true;
    }
    const struct cli_command *found = find_command(command);
    if (found == NULL) return false;
    print_usage(found, out);
    fprintf(out, "\n%s\n%s%s", found->summary, found->help[0] == '\0' ? "" : "\n", found->help);
    return true;
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

static bool asks_for_help(const struct cli *cli)
{
    return cli->argc == 2 && strcmp(cli->argv[1], "--help") == 0;
}

static int help(const struct cli *cli)
{
    const char *command = cli->argc == 2 ? cli->argv[1] : NULL;
    if (cli->argc <= 2 && cli_print_help(command, stdout)) return CLI_OK;
    return cli_fail(cli, CLI_USAGE, "no such command: %s", cli->argv[cli->argc - 1]);
}

static int run_command(struct cli *cli)
{
    if (strcmp(cli->command, "--help") == 0 || strcmp(cli->command, "help") == 0) return help(cli);
    const struct cli_command *command = find_command(cli->command);
    if (command == NULL) {
        fprintf(stderr, "oncepay: no such command: %s\n", cli->command);
        print_overview(stderr);
        return CLI_USAGE;
    }
    if (asks_for_help(cli)) {
        (void)cli_print_help(command->name, stdout);
        return CLI_OK;
    }
    int exit_code = command->run(cli);
    if (exit_code == CLI_USAGE) fprintf(stderr, "see: oncepay help %s\n", command->name);
    if (fflush(stdout) != 0 || ferror(stdout) != 0) {
        exit_code = cli_fail(cli, CLI_INFRASTRUCTURE, "stdout cannot be written");
    }
    return exit_code;
}

int cli_run(int argc, char **argv)
{
    struct cli cli = { .command = "" };
    int count = 0;
    log_open("oncepay");
    if (!take_common_options(&cli, argc - 1, argv + 1, &count) || count == 0) {
        print_overview(stderr);
        return CLI_USAGE;
    }
    cli.command = argv[1];
    cli.argc = count;
    cli.argv = argv + 1;
    const int exit_code = run_command(&cli);
    close_all(&cli);
    return exit_code;
}
