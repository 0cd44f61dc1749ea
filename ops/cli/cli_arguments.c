/* ops/cli/cli_arguments.c: see cli.h: options, documents, and how a payment is named. */
#include "ops/cli/cli.h"

#include <errno.h>

#include "ops/cli/cli_text.h"
#include "store/query_store.h"

static const struct cli_option *find_option(const struct cli_option *options, size_t count,
                                            const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(options[i].name, name) == 0) return &options[i];
    }
    return NULL;
}

static bool read_number(const char *text, int64_t *out)
{
    char *end = NULL;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number < 0) return false;
    *out = number;
    return true;
}

static void add_item(struct cli_list *list, const char *item, struct arena *arena)
{
    const char **grown = arena_allocate(arena, (list->count + 1) * sizeof *grown);
    if (list->count > 0) memcpy(grown, list->items, list->count * sizeof *grown);
    grown[list->count++] = item;
    list->items = grown;
}

/* Takes the value of an option that wants one. False: it is not as the option wants it. */
static bool take_value(struct cli *cli, const struct cli_option *option, const char *value)
{
    switch (option->kind) {
    case CLI_OPTION_FLAG:
        break;
    case CLI_OPTION_TEXT:
        *(const char **)option->target = value;
        return true;
    case CLI_OPTION_NUMBER:
        if (read_number(value, option->target)) return true;
        (void)cli_fail(cli, CLI_USAGE, "%s wants a number, not %s", option->name, value);
        return false;
    case CLI_OPTION_LIST:
        add_item(option->target, value, &cli->arena);
        return true;
    }
    UNREACHABLE("option kind out of range");
}

bool cli_read_arguments(struct cli *cli, const struct cli_option *options, size_t option_count,
                        const char **out_words, size_t word_max, size_t *out_word_count)
{
    *out_word_count = 0;
    for (int i = 1; i < cli->argc; i++) {
        const char *word = cli->argv[i];
        if (strncmp(word, "--", 2) != 0) {
            if (*out_word_count == word_max) {
                (void)cli_fail(cli, CLI_USAGE, "what is %s?", word);
                return false;
            }
            out_words[(*out_word_count)++] = word;
            continue;
        }
        const struct cli_option *option = find_option(options, option_count, word);
        if (option == NULL) {
            (void)cli_fail(cli, CLI_USAGE, "unknown option %s", word);
            return false;
        }
        if (option->kind == CLI_OPTION_FLAG) {
            *(bool *)option->target = true;
            continue;
        }
        if (i + 1 == cli->argc) {
            (void)cli_fail(cli, CLI_USAGE, "%s wants a value", word);
            return false;
        }
        if (!take_value(cli, option, cli->argv[++i])) return false;
    }
    return true;
}

/* Documents ------------------------------------------------------------------------------------ */

struct value cli_list_make(struct arena *arena, size_t capacity)
{
    return (struct value){
        .kind = VALUE_LIST,
        .items = arena_allocate(arena, (capacity + 1) * sizeof(struct value)),
    };
}

void cli_list_add(struct value *list, struct value value)
{
    list->items[list->count++] = value;
}

struct value cli_value_id(struct arena *arena, struct uuid id)
{
    return value_of_text(cli_id(arena, id));
}

struct value cli_value_time(struct arena *arena, int64_t real_us)
{
    return value_of_text(real_us <= 0 ? NULL : cli_time(arena, real_us));
}

struct value cli_value_json(struct arena *arena, const char *json)
{
    struct value value = { .kind = VALUE_NULL };
    if (json == NULL) return value;
    if (value_read_json(span_of_text(json), arena, &value, NULL) != STATUS_OK) {
        return value_of_text(json);
    }
    return value;
}

void cli_print_json(struct cli *cli, const struct value *value)
{
    const struct span text = value_write_json(value, &cli->arena);
    printf("%.*s\n", (int)text.length, (const char *)text.data);
}

/* Finding a payment ---------------------------------------------------------------------------- */

static void say_choices(struct cli *cli, const struct query_found *found, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        fprintf(stderr, "  %s of %s\n", cli_id(&cli->arena, found[i].payment.uuid),
                found[i].merchant);
    }
}

bool cli_find_number(struct cli *cli, const char *out_trade_no, const char *merchant,
                     struct payment_id *out_payment, int *out_exit_code)
{
    struct query_found *found = NULL;
    size_t count = 0;
    struct store *store = cli_store(cli);
    *out_exit_code = CLI_USAGE;
    if (store == NULL) return false;
    const enum status status =
        query_find_number(store, out_trade_no, merchant, &cli->arena, &found, &count);
    if (status != STATUS_OK) {
        *out_exit_code = cli_fail_store(cli, store, status);
        return false;
    }
    if (count == 1) {
        *out_payment = found[0].payment;
        return true;
    }
    if (count == 0) {
        *out_exit_code = cli_fail(cli, CLI_REFUSED, "no payment %s%s%s", out_trade_no,
                                  merchant == NULL ? "" : " of ", merchant == NULL ? "" : merchant);
        return false;
    }
    *out_exit_code =
        cli_fail(cli, CLI_REFUSED, "several merchants have a payment %s; --merchant says which",
                 out_trade_no);
    say_choices(cli, found, count);
    return false;
}

bool cli_split_target(const char *text, struct arena *arena, const char **out_kind,
                      const char **out_id)
{
    const char *slash = strchr(text, '/');
    if (slash == NULL || slash == text || slash[1] == '\0') return false;
    *out_kind = arena_copy(arena, text, (size_t)(slash - text));
    *out_id = slash + 1;
    return true;
}
