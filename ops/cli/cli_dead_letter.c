/* ops/cli/cli_dead_letter.c: `oncepay dead-letter`: what could not be handled, and again. */
#include "ops/cli/cli_publish.h"
#include "ops/cli/cli_text.h"

#include <pwd.h>
#include <unistd.h>

#include "pipeline/buffer.h"
#include "pipeline/kept_body.h"
#include "store/query_letter.h"

#define FIRST_STORED_HEADER "pay-first-stored"
#define INTAKE_SUBJECTS "pay.intake.>"

enum { LIST_DEFAULT = 20, LIST_MAX = 10000 };

static struct value letter_value(const struct query_letter *row, struct arena *arena)
{
    const struct dead_letter *letter = &row->letter;
    struct value map = value_map_make(arena, 16);
    value_map_add(&map, "dead_letter", cli_value_id(arena, letter->id));
    value_map_add(&map, "consumer", value_of_text(letter->consumer));
    value_map_add(&map, "subject", value_of_text(letter->subject));
    value_map_add(&map, "code", value_of_text(letter->code));
    value_map_add(&map, "field", value_of_text(letter->field));
    value_map_add(&map, "payment", cli_value_id(arena, letter->payment.uuid));
    value_map_add(&map, "first_stored_at", cli_value_time(arena, letter->stored_at_us));
    value_map_add(&map, "created_at", cli_value_time(arena, row->created_us));
    value_map_add(&map, "replays", value_of_integer(row->replays));
    value_map_add(&map, "replayed_at", cli_value_time(arena, row->replayed_us));
    return map;
}

static int list(struct cli *cli, int64_t limit)
{
    static const char *const HEADINGS[] = { "dead letter", "created", "consumer", "subject",
                                            "code",        "field",   "replays" };
    struct query_letter *rows = NULL;
    struct cli_table table;
    size_t count = 0;
    if (limit < 1 || limit > LIST_MAX)
        return cli_fail(cli, CLI_USAGE, "--limit: 1 to %d", (int)LIST_MAX);
    struct store *store = cli_store(cli);
    if (store == NULL) return CLI_USAGE;
    const enum status status =
        query_letters_read(store, (int32_t)limit, &cli->arena, &rows, &count);
    if (status != STATUS_OK) return cli_fail_store(cli, store, status);
    cli_table_begin(&table, &cli->arena, HEADINGS, COUNT_OF(HEADINGS));
    for (size_t i = 0; i < count; i++) {
        const struct dead_letter *letter = &rows[i].letter;
        if (cli->as_json) {
            const struct value map = letter_value(&rows[i], &cli->arena);
            cli_print_json(cli, &map);
            continue;
        }
        const char *cells[] = { cli_id(&cli->arena, letter->id),
                                cli_time(&cli->arena, rows[i].created_us),
                                letter->consumer,
                                letter->subject,
                                letter->code,
                                letter->field,
                                arena_format(&cli->arena, "%d", rows[i].replays) };
        cli_table_add(&table, cells);
    }
    cli_table_print(&table, 0, stdout);
    if (!cli->as_json && count == 0) printf("there are no dead letters\n");
    return CLI_OK;
}

/* False: said on stderr; leave with *out_exit_code. */
static bool read_letter(struct cli *cli, const char *text, struct query_letter *out,
                        int *out_exit_code)
{
    struct uuid id;
    struct store *store = cli_store(cli);
    *out_exit_code = CLI_USAGE;
    if (store == NULL) return false;
    if (!uuid_parse(text, &id)) {
        *out_exit_code = cli_fail(cli, CLI_USAGE, "%s is no id", text);
        return false;
    }
    const enum status status = query_letter_read(store, id, &cli->arena, out);
    if (status == STATUS_OK) return true;
    *out_exit_code = status == STATUS_NOT_FOUND
                         ? cli_fail(cli, CLI_REFUSED, "no dead letter %s", text)
                         : cli_fail_store(cli, store, status);
    return false;
}

static bool is_text(struct span body)
{
    return value_text_is_valid(body);
}

/* Kept bodies have their tokens blanked already; what is no text is shown as base64. */
static const char *body_text(const struct dead_letter *letter, struct arena *arena)
{
    struct buffer buffer = { .arena = arena };
    if (is_text(letter->body)) return arena_copy(arena, letter->body.data, letter->body.length);
    value_print_base64(letter->body, &buffer);
    return (const char *)buffer_span(&buffer).data;
}

/* The stored "name: value" lines. Any number of them: they came from outside. */
static struct bus_header *read_headers(const char *stored, struct arena *arena, size_t *out_count)
{
    size_t lines = 0;
    for (const char *at = stored; *at != '\0'; at++) lines += *at == '\n';
    struct bus_header *headers = arena_allocate(arena, (lines + 2) * sizeof *headers);
    *out_count = 0;
    while (*stored != '\0') {
        const size_t length = strcspn(stored, "\n");
        const char *colon = memchr(stored, ':', length);
        if (colon != NULL) {
            const size_t name_length = (size_t)(colon - stored);
            const size_t skipped = name_length + 1 + (colon[1] == ' ' ? 1 : 0);
            headers[(*out_count)++] = (struct bus_header){
                arena_copy(arena, stored, name_length),
                arena_copy(arena, stored + skipped, length - skipped),
            };
        }
        stored += length + (stored[length] == '\n');
    }
    return headers;
}

/* Headers as they are shown: who knows a producer's key could ask for its first answer. */
static const char *headers_text(const struct dead_letter *letter, struct arena *arena)
{
    size_t count = 0;
    const struct bus_header *headers = read_headers(letter->headers, arena, &count);
    const char *text = "";
    for (size_t i = 0; i < count; i++) {
        const bool is_key = strcmp(headers[i].name, "idempotency-key") == 0;
        text = arena_format(arena, "%s%s: %s\n", text, headers[i].name,
                            is_key ? "(not shown)" : headers[i].value);
    }
    return text;
}

static int show(struct cli *cli, const char *text)
{
    struct query_letter row;
    int exit_code = CLI_OK;
    if (!read_letter(cli, text, &row, &exit_code)) return exit_code;
    const struct dead_letter *letter = &row.letter;
    const char *body = body_text(letter, &cli->arena);
    if (cli->as_json) {
        struct value map = letter_value(&row, &cli->arena);
        value_map_add(&map, "sequence", value_of_integer((int64_t)letter->sequence));
        value_map_add(&map, "deliveries", value_of_integer((int64_t)letter->deliveries));
        value_map_add(&map, "case", cli_value_id(&cli->arena, letter->case_id.uuid));
        value_map_add(&map, "problem", cli_value_json(&cli->arena, letter->problem));
        value_map_add(&map, "headers", value_of_text(headers_text(letter, &cli->arena)));
        value_map_add(&map, is_text(letter->body) ? "body" : "body_base64", value_of_text(body));
        cli_print_json(cli, &map);
        return CLI_OK;
    }
    printf("dead letter   %s\nconsumer      %s\nsubject       %s\n",
           cli_id(&cli->arena, letter->id), letter->consumer, letter->subject);
    printf("first stored  %s\nkept          %s\n", cli_time(&cli->arena, letter->stored_at_us),
           cli_time(&cli->arena, row.created_us));
    printf("problem       %s\n", letter->problem);
    printf("payment       %s\n", cli_or_dash(cli_id(&cli->arena, letter->payment.uuid)));
    printf("replays       %d%s%s\n", row.replays, row.replays == 0 ? "" : ", last ",
           row.replays == 0 ? "" : cli_time(&cli->arena, row.replayed_us));
    printf("headers\n%s%s\n%s\n", headers_text(letter, &cli->arena),
           is_text(letter->body) ? "body" : "body, base64", body);
    return CLI_OK;
}

/* Again ---------------------------------------------------------------------------------------- */

static const char *who(struct arena *arena)
{
    char host[64] = "";
    const struct passwd *user = getpwuid(getuid());
    (void)gethostname(host, sizeof host - 1);
    return arena_format(arena, "%s@%s", user == NULL ? "?" : user->pw_name, host);
}

/*
 * The message's own headers, but for NATS's, and the moment it was first stored, so that its time
 * to start is not counted anew (protocol C8).
 */
static struct bus_header *make_headers(const struct dead_letter *letter, struct arena *arena,
                                       size_t *out_count)
{
    size_t kept = 0;
    struct bus_header *headers = read_headers(letter->headers, arena, out_count);
    const char *first_stored = arena_format(arena, "%" PRId64, letter->stored_at_us);
    for (size_t i = 0; i < *out_count; i++) {
        const struct bus_header header = headers[i];
        if (strcmp(header.name, FIRST_STORED_HEADER) == 0) first_stored = header.value;
        if (strncmp(header.name, "nats-", 5) == 0) continue;
        if (strcmp(header.name, FIRST_STORED_HEADER) != 0) headers[kept++] = header;
    }
    *out_count = kept;
    if (bus_subject_matches(INTAKE_SUBJECTS, letter->subject)) {
        headers[(*out_count)++] = (struct bus_header){ FIRST_STORED_HEADER, first_stored };
    }
    return headers;
}

static int replay(struct cli *cli, const char *text)
{
    struct query_letter row;
    struct span body;
    size_t header_count = 0;
    int32_t replays = 0;
    int exit_code = CLI_OK;
    if (!read_letter(cli, text, &row, &exit_code)) return exit_code;
    const struct dead_letter *letter = &row.letter;
    if (!kept_body_restore(letter->body, letter->method_token, &cli->arena, &body))
        return cli_fail(cli, CLI_REFUSED, "the kept token does not fit the kept body");
    struct bus *bus = cli_bus(cli, &exit_code);
    if (bus == NULL) return exit_code;
    const struct bus_header *headers = make_headers(letter, &cli->arena, &header_count);
    const struct bus_outgoing message = {
        .subject = letter->subject,
        .body = body,
        .headers = headers,
        .header_count = header_count,
        /* A replay that was published but could not be noted is stored once when repeated. */
        .message_id = arena_format(&cli->arena, "%s.replay.%d", cli_id(&cli->arena, letter->id),
                                   row.replays + 1),
    };
    if (cli_publish(cli, bus, &message, &exit_code) != STATUS_OK) return exit_code;
    const enum status status =
        query_letter_replayed(cli->store, letter->id, who(&cli->arena), &cli->arena, &replays);
    if (status != STATUS_OK) return cli_fail_store(cli, cli->store, status);
    if (cli->as_json) {
        struct value map = value_map_make(&cli->arena, 3);
        value_map_add(&map, "dead_letter", cli_value_id(&cli->arena, letter->id));
        value_map_add(&map, "subject", value_of_text(letter->subject));
        value_map_add(&map, "replays", value_of_integer(replays));
        cli_print_json(cli, &map);
    } else {
        printf("published again to %s (replay %d)\n", letter->subject, replays);
    }
    return CLI_OK;
}

static int run(struct cli *cli)
{
    int64_t limit = LIST_DEFAULT;
    const char *words[2] = { NULL, NULL };
    size_t word_count = 0;
    const struct cli_option options[] = { { "--limit", CLI_OPTION_NUMBER, &limit } };
    if (!cli_read_arguments(cli, options, COUNT_OF(options), words, 2, &word_count))
        return CLI_USAGE;
    if (word_count == 1 && strcmp(words[0], "list") == 0) return list(cli, limit);
    if (word_count == 2 && strcmp(words[0], "show") == 0) return show(cli, words[1]);
    if (word_count == 2 && strcmp(words[0], "replay") == 0) return replay(cli, words[1]);
    return cli_fail(cli, CLI_USAGE, "list, show ID or replay ID");
}

const struct cli_command CLI_COMMAND_DEAD_LETTER = {
    .name = "dead-letter",
    .run = run,
    .usage = "dead-letter list [--limit N]\n"
             "dead-letter show ID\n"
             "dead-letter replay ID",
    .summary = "messages that could not be handled: look at them, send them again",
    .help =
        "replay publishes the raw message to its subject again, with the method token that it was "
        "kept\n"
        "without, and with the time it was first stored: a request that is too old to start is\n"
        "refused again. It counts the replay and closes the case that the letter opened; if the\n"
        "message fails once more, that is a new letter. Tokens are never shown.\n"
        "\n"
        "--json, one line per letter (list): dead_letter, consumer, subject, code, field, "
        "payment,\n"
        "first_stored_at, created_at, replays, replayed_at; show adds sequence, deliveries, case,\n"
        "problem, headers, body (or body_base64); replay: dead_letter, subject, replays\n",
};
