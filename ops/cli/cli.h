/*
 * ops/cli/cli.h: the oncepay command: one table of sub-commands, each in a file of its own that
 * holds its help too. Exit codes: 0 ok, 1 refused or not found, 2 usage, 3 infrastructure
 * (design §8). Results go to stdout, what went wrong to stderr; no command prints a token, a key of
 * ours or a secret.
 */
#ifndef ONCEPAY_OPS_CLI_CLI_H
#define ONCEPAY_OPS_CLI_CLI_H

#include "adapters/nats/bus_nats.h"
#include "config/config.h"
#include "pipeline/value.h"
#include "store/store.h"

enum {
    CLI_OK = 0,
    CLI_REFUSED = 1,
    CLI_USAGE = 2,
    CLI_INFRASTRUCTURE = 3,
};

/* What every sub-command gets. Connections are made when first asked for. */
struct cli {
    const char *command; /* "topology" */
    int argc;            /* what follows the command's name; argv[0] is the name itself */
    char **argv;
    const char *config_path; /* NULL: the default */
    bool as_json;
    struct arena arena;
    struct config config;
    bool has_config;
    struct store *store;
    struct bus *bus;
};

struct cli_command {
    const char *name;
    int (*run)(struct cli *cli);
    const char *usage;   /* "show PAYMENT|OUT_TRADE_NO [--merchant M]": a line or several */
    const char *summary; /* one line of `oncepay help` */
    const char *help;    /* options, what it prints, the fields of --json */
};

extern const struct cli_command CLI_COMMAND_DEAD_LETTER;
extern const struct cli_command CLI_COMMAND_EXPLAIN;
extern const struct cli_command CLI_COMMAND_FSM;
extern const struct cli_command CLI_COMMAND_MIGRATE;
extern const struct cli_command CLI_COMMAND_OUTBOX;
extern const struct cli_command CLI_COMMAND_PAY;
extern const struct cli_command CLI_COMMAND_SHOW;
extern const struct cli_command CLI_COMMAND_TIMELINE;
extern const struct cli_command CLI_COMMAND_TOPOLOGY;
extern const struct cli_command CLI_COMMAND_VERIFY;
extern const struct cli_command CLI_COMMAND_WATCH;

/* In alphabetical order; NULL past the last. */
const struct cli_command *cli_command_at(size_t index);
/* All commands, or one. False: there is no such command. */
bool cli_print_help(const char *command, FILE *out);
/* The whole program: returns main's exit code. */
int cli_run(int argc, char **argv);

/* --- connections ------------------------------------------------------------------------------ */

/* NULL: refused, and said on stderr; leave with CLI_USAGE. */
const struct config *cli_config(struct cli *cli);
/* Not connected yet. NULL: the configuration is refused; leave with CLI_USAGE. */
struct store *cli_store(struct cli *cli);
/* NULL: said on stderr; leave with CLI_INFRASTRUCTURE, or CLI_USAGE without a configuration. */
struct bus *cli_bus(struct cli *cli, int *out_exit_code);

/* "oncepay topology: what" on stderr. Returns exit_code. */
int cli_fail(const struct cli *cli, int exit_code, const char *format, ...) PRINTF_LIKE(3, 4);
/* What the last statement on the store came to; returns the exit code. */
int cli_fail_store(const struct cli *cli, const struct store *store, enum status status);

/* --- arguments -------------------------------------------------------------------------------- */

enum cli_option_kind {
    CLI_OPTION_FLAG,   /* target: bool */
    CLI_OPTION_TEXT,   /* target: const char * */
    CLI_OPTION_NUMBER, /* target: int64_t, not negative */
    CLI_OPTION_LIST,   /* target: struct cli_list; may be given often */
};

struct cli_list {
    const char **items;
    size_t count;
};

struct cli_option {
    const char *name; /* "--merchant" */
    enum cli_option_kind kind;
    void *target;
};

/*
 * Reads what stands behind the command's name; words that are no options go to out_words in their
 * order. False: said on stderr; leave with CLI_USAGE.
 */
bool cli_read_arguments(struct cli *cli, const struct cli_option *options, size_t option_count,
                        const char **out_words, size_t word_max, size_t *out_word_count) MUST_CHECK;

/* --- documents -------------------------------------------------------------------------------- */

struct value cli_list_make(struct arena *arena, size_t capacity);
void cli_list_add(struct value *list, struct value value);
struct value cli_value_id(struct arena *arena, struct uuid id);     /* nil gives null */
struct value cli_value_time(struct arena *arena, int64_t real_us);  /* 0 gives null */
struct value cli_value_json(struct arena *arena, const char *json); /* NULL gives null */
/* One document on a line of stdout. */
void cli_print_json(struct cli *cli, const struct value *value);

/* --- finding a payment ------------------------------------------------------------------------ */

/* By out_trade_no (of merchant, if given). False: said on stderr; leave with *out_exit_code. */
bool cli_find_number(struct cli *cli, const char *out_trade_no, const char *merchant,
                     struct payment_id *out_payment, int *out_exit_code) MUST_CHECK;
/* "kind/id" at its first slash. False: there is none, or a side is empty. */
bool cli_split_target(const char *text, struct arena *arena, const char **out_kind,
                      const char **out_id) MUST_CHECK;

#endif
