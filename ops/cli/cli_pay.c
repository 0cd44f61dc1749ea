/*
 * ops/cli/cli_pay.c: `oncepay pay`: a producer that does what a producer must: publishes, and
 * repeats with the same key until it is answered. It judges nothing itself: what is wrong with a
 * request, intake says.
 */
#include "ops/cli/cli.h"
#include "ops/cli/cli_text.h"

#include <errno.h>
#include <poll.h>

#include "pipeline/answer.h"
#include "pipeline/clock.h"
#include "pipeline/request.h"
#include "pipeline/subject.h"
#include "store/intake_store.h"

#define REPEAT_US_MIN CLOCK_SECOND_US
#define REPEAT_US_MAX (5 * CLOCK_SECOND_US)

enum { TIMEOUT_S = 30, TIMEOUT_WITH_WAIT_S = 120, POLL_MS_MIN = 50, POLL_MS_MAX = 500 };

struct pay_options {
    const char *merchant;
    const char *out_trade_no;
    const char *target;
    const char *amount;
    const char *currency;
    const char *token;
    const char *realm;
    const char *method;
    const char *key;
    const char *return_url;
    const char *expires_at;
    struct cli_list metadata;
    bool wait;
    int64_t timeout_s;
};

/* What came back. */
struct reply {
    long status;
    bool is_replay;
    struct value body;
};

/* The request ---------------------------------------------------------------------------------- */

/* An amount that is no integer goes out as it was written, to be refused by who knows the rule. */
static struct value amount_value(const char *text)
{
    char *end = NULL;
    errno = 0;
    const long long minor = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0') return value_of_text(text);
    return value_of_integer(minor);
}

static bool add_metadata(struct cli *cli, const struct cli_list *pairs, struct value *map)
{
    struct value metadata = value_map_make(&cli->arena, pairs->count);
    for (size_t i = 0; i < pairs->count; i++) {
        const char *equals = strchr(pairs->items[i], '=');
        if (equals == NULL || equals == pairs->items[i]) {
            (void)cli_fail(cli, CLI_USAGE, "--metadata wants NAME=VALUE, not %s", pairs->items[i]);
            return false;
        }
        const char *name =
            arena_copy(&cli->arena, pairs->items[i], (size_t)(equals - pairs->items[i]));
        value_map_add(&metadata, name, value_of_text(equals + 1));
    }
    value_map_add(map, "metadata", metadata);
    return true;
}

static bool make_target(struct cli *cli, const char *text, struct value *out)
{
    const char *kind = NULL;
    const char *id = NULL;
    *out = value_map_make(&cli->arena, 2);
    if (strcmp(text, "none") == 0) {
        value_map_add(out, "kind", value_of_text("none"));
        return true;
    }
    if (!cli_split_target(text, &cli->arena, &kind, &id)) {
        (void)cli_fail(cli, CLI_USAGE, "--target wants KIND/ID, or none");
        return false;
    }
    value_map_add(out, "kind", value_of_text(kind));
    value_map_add(out, "id", value_of_text(id));
    return true;
}

/* False: usage, and said. */
static bool make_body(struct cli *cli, const struct pay_options *options, struct span *out)
{
    struct value map = value_map_make(&cli->arena, 12);
    struct value target;
    if (!make_target(cli, options->target, &target)) return false;
    value_map_add(&map, "version", value_of_integer(REQUEST_SCHEMA_VERSION));
    value_map_add(&map, "merchant", value_of_text(options->merchant));
    value_map_add(&map, "out_trade_no", value_of_text(options->out_trade_no));
    value_map_add(&map, "target", target);
    value_map_add(&map, "amount", amount_value(options->amount));
    value_map_add(&map, "currency", value_of_text(options->currency));
    struct value method = value_map_make(&cli->arena, 3);
    value_map_add(&method, "type", value_of_text(options->method));
    value_map_add(&method, "token", value_of_text(options->token));
    if (options->realm != NULL)
        value_map_add(&method, "token_realm", value_of_text(options->realm));
    value_map_add(&map, "method", method);
    if (options->return_url != NULL)
        value_map_add(&map, "return_url", value_of_text(options->return_url));
    if (options->expires_at != NULL)
        value_map_add(&map, "expires_at", value_of_text(options->expires_at));
    if (options->metadata.count > 0 && !add_metadata(cli, &options->metadata, &map)) return false;
    *out = value_write_json(&map, &cli->arena);
    return true;
}

/* The answer ----------------------------------------------------------------------------------- */

/* False if it makes no sense, or asks to come again. */
static bool take_reply(struct cli *cli, const struct bus_message *message, struct reply *out)
{
    const char *status = bus_message_header(message, ANSWER_STATUS_HEADER);
    struct value body;
    if (status == NULL || value_read_json(arena_copy_span(&cli->arena, message->body), &cli->arena,
                                          &body, NULL) != STATUS_OK) {
        return false;
    }
    *out = (struct reply){
        .status = strtol(status, NULL, 10),
        .is_replay = bus_message_header(message, "idempotent-replayed") != NULL,
        .body = body,
    };
    const char *code = value_text(value_find(&body, "code"));
    const bool is_for_good = code != NULL && strcmp(code, problem_word(PROBLEM_NOT_SUPPORTED)) == 0;
    const bool is_running = code != NULL && strcmp(code, problem_word(PROBLEM_IN_PROGRESS)) == 0;
    return is_for_good || (!is_running && out->status != 429 && out->status < 500);
}

static bool look_for_reply(struct cli *cli, struct bus_subscription *replies, struct reply *out)
{
    struct bus_message message;
    bool is_final = false;
    while (!is_final && bus_subscription_take(replies, 1, &message) == 1) {
        is_final = take_reply(cli, &message, out);
        bus_release(&message);
    }
    return is_final;
}

/* Publishes until an answer comes, ever more slowly. False: said on stderr. */
static bool ask(struct cli *cli, struct bus *bus, const struct bus_outgoing *message,
                struct bus_subscription *replies, int64_t until_us, struct reply *out,
                int *out_exit_code)
{
    struct bus_result result = { .outcome = BUS_OUTCOME_UNKNOWN };
    int64_t wait_us = REPEAT_US_MIN;
    *out = (struct reply){ .status = 0 };
    for (int64_t now_us = clock_monotonic_us(); now_us < until_us; wait_us *= 2) {
        bus_publish(bus, message, out);
        if (wait_us > REPEAT_US_MAX) wait_us = REPEAT_US_MAX;
        const int64_t again_us = now_us + wait_us < until_us ? now_us + wait_us : until_us;
        for (; now_us < again_us; now_us = clock_monotonic_us()) {
            bus_wait(bus, (again_us - now_us) / 1000 + 1);
            if (look_for_reply(cli, replies, out)) return true;
            while (bus_publish_results(bus, 1, &result) == 1 &&
                   result.outcome == BUS_REFUSED_TOO_BIG) {
                *out_exit_code = cli_fail(cli, CLI_REFUSED, "the request is too large");
                return false;
            }
        }
    }
    const char *why = result.outcome == BUS_STORED
                          ? "the request is queued, and intake has not answered"
                          : bus_outcome_name((int)result.outcome);
    if (out->status != 0)
        why = arena_format(&cli->arena, "intake says come again (%ld)", out->status);
    *out_exit_code = cli_fail(cli, CLI_INFRASTRUCTURE, "no answer in time: %s", why);
    return false;
}

/* The end -------------------------------------------------------------------------------------- */

static bool is_final(enum payment_state status)
{
    return payment_state_is_terminal(status) || status == PAYMENT_CAPTURED ||
           status == PAYMENT_AUTHORIZED;
}

/* Looks at the payment's row until it is final. False: said on stderr. */
static bool wait_for_end(struct cli *cli, struct payment_id payment, int64_t until_us,
                         struct payment_view *out_view, int *out_exit_code)
{
    struct store *store = cli_store(cli);
    struct payment_view *views = NULL;
    size_t count = 0;
    enum status status = STATUS_OK;
    *out_exit_code = CLI_USAGE;
    if (store == NULL) return false;
    for (int wait_ms = POLL_MS_MIN;;
         wait_ms = wait_ms * 2 < POLL_MS_MAX ? wait_ms * 2 : POLL_MS_MAX) {
        status = intake_read_views(store, &payment, 1, &cli->arena, &views, &count);
        if (status == STATUS_OK && count == 1 && is_final(views[0].status)) {
            *out_view = views[0];
            return true;
        }
        if (clock_monotonic_us() >= until_us) break;
        (void)poll(NULL, 0, wait_ms);
    }
    if (status != STATUS_OK) {
        *out_exit_code = cli_fail_store(cli, store, status);
        return false;
    }
    const char *id = cli_id(&cli->arena, payment.uuid);
    *out_exit_code =
        cli_fail(cli, CLI_REFUSED, "%s is not final yet; see: oncepay explain %s", id, id);
    return false;
}

static void print_reply(struct cli *cli, const struct reply *reply, const struct payment_view *end)
{
    struct value map = value_map_make(&cli->arena, 4);
    value_map_add(&map, "answer_status", value_of_integer(reply->status));
    value_map_add(&map, "replayed", value_of_boolean(reply->is_replay));
    value_map_add(&map, "answer", reply->body);
    struct value final = { .kind = VALUE_NULL };
    if (end != NULL) {
        const struct span bytes = answer_event_body(end, CONTENT_JSON, &cli->arena);
        INVARIANT(value_read_json(bytes, &cli->arena, &final, NULL) == STATUS_OK);
    }
    value_map_add(&map, "final", final);
    cli_print_json(cli, &map);
}

static int say_refusal(struct cli *cli, const struct reply *reply)
{
    const char *field = value_text(value_find(&reply->body, "field"));
    const char *detail = value_text(value_find(&reply->body, "detail"));
    const char *existing = value_text(value_find(&reply->body, "payment"));
    const char *code = value_text(value_find(&reply->body, "code"));
    const char *title = value_text(value_find(&reply->body, "title"));
    return cli_fail(cli, CLI_REFUSED, "refused (%ld %s): %s%s%s%s%s%s%s", reply->status,
                    cli_or_dash(code), cli_or_dash(title), field == NULL ? "" : "; field ",
                    field == NULL ? "" : field, detail == NULL ? "" : ": ",
                    detail == NULL ? "" : detail, existing == NULL ? "" : "; payment ",
                    existing == NULL ? "" : existing);
}

static void say_end(struct cli *cli, const struct payment_view *end)
{
    const char *certainty = certainty_name(end->certainty);
    printf("final:    %s%s%s%s%s%s\n", payment_state_name((int)end->status),
           certainty == NULL ? "" : ", ", certainty == NULL ? "" : certainty,
           end->reason == NULL ? "" : ", ", end->reason == NULL ? "" : end->reason,
           end->safe_to_pay_again ? ", safe to pay again with a new out_trade_no" : "");
    (void)cli;
}

static int conclude(struct cli *cli, const struct reply *reply, bool waits, int64_t until_us)
{
    struct payment_id payment;
    struct payment_view end;
    int exit_code = CLI_OK;
    const char *id = value_text(value_find(&reply->body, "payment"));
    const bool is_accepted = reply->status == ANSWER_ACCEPTED || reply->status == ANSWER_CURRENT;
    if (!is_accepted || id == NULL || !uuid_parse(id, &payment.uuid)) {
        if (cli->as_json) print_reply(cli, reply, NULL);
        return say_refusal(cli, reply);
    }
    if (!cli->as_json) {
        printf("accepted: payment %s (%s)%s\n", id,
               cli_or_dash(value_text(value_find(&reply->body, "status"))),
               reply->is_replay ? ", the first answer again" : "");
        (void)fflush(stdout);
    }
    if (waits && !wait_for_end(cli, payment, until_us, &end, &exit_code)) {
        if (cli->as_json) print_reply(cli, reply, NULL);
        return exit_code;
    }
    if (cli->as_json) {
        print_reply(cli, reply, waits ? &end : NULL);
    } else if (waits) {
        say_end(cli, &end);
    }
    const bool has_money =
        !waits || end.status == PAYMENT_CAPTURED || end.status == PAYMENT_AUTHORIZED;
    return has_money ? CLI_OK : CLI_REFUSED;
}

static bool read_options(struct cli *cli, struct pay_options *out)
{
    size_t word_count = 0;
    *out = (struct pay_options){ .method = "card" };
    const struct cli_option options[] = {
        { "--merchant", CLI_OPTION_TEXT, &out->merchant },
        { "--out-trade-no", CLI_OPTION_TEXT, &out->out_trade_no },
        { "--target", CLI_OPTION_TEXT, &out->target },
        { "--amount", CLI_OPTION_TEXT, &out->amount },
        { "--currency", CLI_OPTION_TEXT, &out->currency },
        { "--token", CLI_OPTION_TEXT, &out->token },
        { "--realm", CLI_OPTION_TEXT, &out->realm },
        { "--method", CLI_OPTION_TEXT, &out->method },
        { "--key", CLI_OPTION_TEXT, &out->key },
        { "--return-url", CLI_OPTION_TEXT, &out->return_url },
        { "--expires-at", CLI_OPTION_TEXT, &out->expires_at },
        { "--metadata", CLI_OPTION_LIST, &out->metadata },
        { "--wait", CLI_OPTION_FLAG, &out->wait },
        { "--timeout", CLI_OPTION_NUMBER, &out->timeout_s },
    };
    if (!cli_read_arguments(cli, options, COUNT_OF(options), NULL, 0, &word_count)) return false;
    for (size_t i = 0; i < 6; i++) { /* the first six are required */
        if (*(const char **)options[i].target != NULL) continue;
        (void)cli_fail(cli, CLI_USAGE, "%s is missing", options[i].name);
        return false;
    }
    if (!subject_token_is_valid(out->merchant)) {
        (void)cli_fail(cli, CLI_USAGE, "--merchant: 1 to 64 of A-Z a-z 0-9 _ -");
        return false;
    }
    if (out->timeout_s == 0) out->timeout_s = out->wait ? TIMEOUT_WITH_WAIT_S : TIMEOUT_S;
    return true;
}

static int run(struct cli *cli)
{
    enum { QUEUE_MAX = 64 };
    struct pay_options options;
    struct bus_subscription *replies = NULL;
    struct span body;
    struct reply reply;
    char subject[SUBJECT_SIZE];
    int exit_code = CLI_OK;
    if (!read_options(cli, &options) || !make_body(cli, &options, &body)) return CLI_USAGE;
    struct bus *bus = cli_bus(cli, &exit_code);
    if (bus == NULL) return exit_code;
    /* Where a merchant's own user may listen too (protocol E). */
    const char *reply_to =
        arena_format(&cli->arena, "reply.%s.%s", options.merchant, cli_id(&cli->arena, uuid_new()));
    if (bus_subscription_open(bus, reply_to, QUEUE_MAX, &replies) != STATUS_OK)
        return cli_fail(cli, CLI_INFRASTRUCTURE, "NATS refuses the subscription for the answer");
    const struct bus_header headers[] = {
        { "content-type", content_type_name(CONTENT_JSON) },
        { "pay-reply-to", reply_to },
        { "idempotency-key", options.key },
    };
    const struct bus_outgoing message = {
        .subject = subject_intake(options.merchant, request_operation_name(REQUEST_OPERATION_PAY),
                                  subject),
        .body = body,
        .headers = headers,
        .header_count = options.key == NULL ? COUNT_OF(headers) - 1 : COUNT_OF(headers),
    };
    const int64_t until_us = clock_monotonic_us() + options.timeout_s * CLOCK_SECOND_US;
    const bool is_answered = ask(cli, bus, &message, replies, until_us, &reply, &exit_code);
    bus_subscription_close(replies);
    return is_answered ? conclude(cli, &reply, options.wait, until_us) : exit_code;
}

const struct cli_command CLI_COMMAND_PAY = {
    .name = "pay",
    .run = run,
    .usage =
        "pay --merchant M --out-trade-no N --target KIND/ID|none --amount MINOR --currency C\n"
        "    --token T [--realm R] [--method card] [--key K] [--return-url U] [--expires-at T]\n"
        "    [--metadata NAME=VALUE]... [--wait] [--timeout S]",
    .summary = "publish a payment request and repeat it until it is answered",
    .help =
        "Publishes to pay.intake.<merchant>.pay with an inbox for the answer, and repeats the "
        "same\n"
        "request under the same key until intake answers. A refusal names field and rule.\n"
        "\n"
        "  --amount MINOR   in minor units: 1099 is 10.99 EUR\n"
        "  --realm R        who can charge the token: stripe, network, …\n"
        "  --key K          Idempotency-Key; default: the out_trade_no\n"
        "  --wait           wait until the payment is final, too\n"
        "  --timeout S      how long in all (30; with --wait 120)\n"
        "\n"
        "Exit 0: accepted, and with --wait captured; 1: refused, or with --wait ended without "
        "money or\n"
        "not final in time; 3: no answer in time.\n"
        "\n"
        "--json, one document: answer_status, replayed, answer (as intake gave it: a payment or\n"
        "problem details), final (with --wait: the payment as it ended; else null)\n",
};
