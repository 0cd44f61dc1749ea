/* ops/feed/feed_options.c: see feed_options.h. */
#include "ops/feed/feed_options.h"

#include <errno.h>
#include <getopt.h>
#include <time.h>

enum option_key {
    KEY_HELP = 256,
    KEY_NATS,
    KEY_PAYMENTS,
    KEY_MERCHANT,
    KEY_PREFIX,
    KEY_TOKEN,
    KEY_CURRENCY,
    KEY_AMOUNT_MIN,
    KEY_AMOUNT_MAX,
    KEY_SEED,
    KEY_RATE,
    KEY_IN_FLIGHT,
    KEY_UNFINISHED,
    KEY_SECONDS,
    KEY_WARM_UP,
    KEY_TIMEOUT,
    KEY_BODY_JSON,
    KEY_UNTIL_ANSWERED,
    KEY_QUIET,
    KEY_JSON,
    KEY_ACCEPTED,
    KEY_SERIES,
};

static const struct option_row {
    enum option_key key;
    const char *name;
    const char *argument; /* NULL: a switch */
    const char *help;
} OPTIONS[] = {
    { KEY_NATS, "nats", "URL", "the server (default: ONCEPAY_NATS_URL)" },
    { KEY_PAYMENTS, "payments", "N", "how many payments to request (1000)" },
    { KEY_MERCHANT, "merchant", "A,B", "merchants in turn (m-1001,m-1002)" },
    { KEY_PREFIX, "prefix", "TEXT", "out_trade_no is TEXT-0000000 and so on (feed-<time>)" },
    { KEY_TOKEN, "token", "A,B", "method tokens in turn (pm_card_visa)" },
    { KEY_CURRENCY, "currency", "CODE", "ISO 4217 (EUR)" },
    { KEY_AMOUNT_MIN, "amount-min", "N", "smallest amount in minor units (100)" },
    { KEY_AMOUNT_MAX, "amount-max", "N", "largest amount in minor units (50000)" },
    { KEY_SEED, "seed", "N", "amounts follow from it (1)" },
    { KEY_RATE, "rate", "R",
      "open loop: R requests a second, late or not (as fast as answers come)" },
    { KEY_IN_FLIGHT, "in-flight", "K",
      "at most K unanswered requests (256; with --rate no limit)" },
    { KEY_UNFINISHED, "unfinished", "K", "at most K payments without an end (no limit)" },
    { KEY_SECONDS, "seconds", "S", "request nothing new after S seconds (no limit)" },
    { KEY_WARM_UP, "warm-up", "S", "latencies leave out the first S seconds (0)" },
    { KEY_TIMEOUT, "timeout", "S", "give up when nothing has moved for S seconds (120)" },
    { KEY_BODY_JSON, "body-json", NULL, "send JSON instead of MessagePack" },
    { KEY_UNTIL_ANSWERED, "until-answered", NULL, "stop at the answers, without the final events" },
    { KEY_QUIET, "quiet", NULL, "no progress" },
    { KEY_JSON, "json", "FILE", "write the summary there (standard output)" },
    { KEY_ACCEPTED, "accepted", "FILE",
      "write merchant, out_trade_no, payment of each acceptance" },
    { KEY_SERIES, "series", "FILE",
      "write monotonic us, final, accepted, sent there as it goes on" },
    { KEY_HELP, "help", NULL, "this text" },
};

void feed_options_print_help(FILE *out)
{
    fputs(
        "usage: oncepay-feed [OPTION]...\n\n"
        "Requests payments as a producer must: repeats what was not answered, with the same key,\n"
        "and measures the way from publish to final event.\n\n",
        out);
    for (size_t i = 0; i < COUNT_OF(OPTIONS); i++) {
        const struct option_row *row = &OPTIONS[i];
        char left[40];
        (void)snprintf(left, sizeof left, "--%s %s", row->name,
                       row->argument == NULL ? "" : row->argument);
        fprintf(out, "  %-22s %s\n", left, row->help);
    }
    fputs("\nExit: 0 all accepted (and final), 1 not all, 2 usage, 3 no server.\n", out);
}

static bool parse_number(const char *name, const char *text, int64_t min, int64_t max, int64_t *out)
{
    char *end = NULL;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < min || value > max) {
        fprintf(stderr, "oncepay-feed: --%s wants a number from %" PRId64 " to %" PRId64 "\n", name,
                min, max);
        return false;
    }
    *out = value;
    return true;
}

static bool parse_size(const char *name, const char *text, int64_t max, size_t *out)
{
    int64_t value = 0;
    if (!parse_number(name, text, 1, max, &value)) return false;
    *out = (size_t)value;
    return true;
}

/* Cuts the argument at its commas, in place. */
static bool parse_choices(const char *name, char *text, struct feed_choices *out)
{
    struct feed_choices parsed = { .count = 0 };
    char *rest = text;
    for (char *item = strtok_r(text, ",", &rest); item != NULL; item = strtok_r(NULL, ",", &rest)) {
        if (parsed.count == FEED_CHOICES_MAX) break;
        parsed.items[parsed.count++] = item;
    }
    if (parsed.count == 0 || rest[0] != '\0') {
        fprintf(stderr, "oncepay-feed: --%s wants 1 to %d words with commas\n", name,
                FEED_CHOICES_MAX);
        return false;
    }
    *out = parsed;
    return true;
}

static bool parse_prefix(const char *text, struct feed_options *out)
{
    if (text[0] == '\0' || strlen(text) > FEED_PREFIX_MAX) {
        fprintf(stderr, "oncepay-feed: --prefix wants 1 to %d characters\n", FEED_PREFIX_MAX);
        return false;
    }
    (void)snprintf(out->prefix, sizeof out->prefix, "%s", text);
    return true;
}

static bool parse_seconds(const char *name, const char *text, int64_t min, int64_t *out_us)
{
    int64_t seconds = 0;
    if (!parse_number(name, text, min, 86400, &seconds)) return false;
    *out_us = seconds * 1000000;
    return true;
}

static bool take(enum option_key key, const char *name, char *text, struct feed_options *out)
{
    int64_t number = 0;
    switch (key) {
    case KEY_NATS:
        out->nats_url = text;
        return true;
    case KEY_PAYMENTS:
        return parse_size(name, text, 9999999, &out->payments);
    case KEY_MERCHANT:
        return parse_choices(name, text, &out->merchants);
    case KEY_PREFIX:
        return parse_prefix(text, out);
    case KEY_TOKEN:
        return parse_choices(name, text, &out->tokens);
    case KEY_CURRENCY:
        if (currency_parse(text, &out->currency)) return true;
        fputs("oncepay-feed: --currency wants an ISO 4217 code\n", stderr);
        return false;
    case KEY_AMOUNT_MIN:
        return parse_number(name, text, 1, INT64_MAX / 2, &out->amount_min_minor);
    case KEY_AMOUNT_MAX:
        return parse_number(name, text, 1, INT64_MAX / 2, &out->amount_max_minor);
    case KEY_SEED:
        if (!parse_number(name, text, 0, INT64_MAX, &number)) return false;
        out->seed = (uint64_t)number;
        return true;
    case KEY_RATE:
        return parse_size(name, text, 1000000, &out->rate_per_s);
    case KEY_IN_FLIGHT:
        return parse_size(name, text, 9999999, &out->in_flight);
    case KEY_UNFINISHED:
        return parse_size(name, text, 9999999, &out->unfinished);
    case KEY_SECONDS:
        return parse_seconds(name, text, 1, &out->seconds_us);
    case KEY_WARM_UP:
        return parse_seconds(name, text, 0, &out->warm_up_us);
    case KEY_TIMEOUT:
        return parse_seconds(name, text, 1, &out->timeout_us);
    case KEY_BODY_JSON:
        out->json = true;
        return true;
    case KEY_UNTIL_ANSWERED:
        out->until_answered = true;
        return true;
    case KEY_QUIET:
        out->quiet = true;
        return true;
    case KEY_JSON:
        out->summary_path = text;
        return true;
    case KEY_ACCEPTED:
        out->accepted_path = text;
        return true;
    case KEY_SERIES:
        out->series_path = text;
        return true;
    case KEY_HELP:
        return true;
    }
    UNREACHABLE("option out of range");
}

static void set_defaults(struct feed_options *out)
{
    *out = (struct feed_options){
        .nats_url = getenv("ONCEPAY_NATS_URL"),
        .payments = 1000,
        .merchants = { .items = { "m-1001", "m-1002" }, .count = 2 },
        .tokens = { .items = { "pm_card_visa" }, .count = 1 },
        .currency = { "EUR" },
        .amount_min_minor = 100,
        .amount_max_minor = 50000,
        .seed = 1,
        .timeout_us = INT64_C(120) * 1000000,
    };
    /* out_trade_no is unique for ever, so each run has names of its own unless told otherwise. */
    (void)snprintf(out->prefix, sizeof out->prefix, "feed-%" PRIx64, (uint64_t)time(NULL));
}

static bool finish(struct feed_options *out)
{
    if (out->nats_url == NULL) {
        fputs("oncepay-feed: no server: set ONCEPAY_NATS_URL or give --nats\n", stderr);
        return false;
    }
    if (out->amount_min_minor > out->amount_max_minor) {
        fputs("oncepay-feed: --amount-min is above --amount-max\n", stderr);
        return false;
    }
    if (out->in_flight == 0) out->in_flight = out->rate_per_s > 0 ? out->payments : 256;
    return true;
}

enum feed_parse feed_options_parse(int argc, char **argv, struct feed_options *out)
{
    struct option longs[COUNT_OF(OPTIONS) + 1] = { 0 };
    for (size_t i = 0; i < COUNT_OF(OPTIONS); i++) {
        longs[i] = (struct option){ .name = OPTIONS[i].name,
                                    .has_arg = OPTIONS[i].argument == NULL ? no_argument
                                                                           : required_argument,
                                    .val = (int)OPTIONS[i].key };
    }
    set_defaults(out);
    int index = 0;
    for (int key; (key = getopt_long(argc, argv, "", longs, &index)) != -1;) {
        if (key == KEY_HELP) return FEED_PARSE_HELP;
        if (key == '?') return FEED_PARSE_WRONG;
        if (!take((enum option_key)key, OPTIONS[index].name, optarg, out)) return FEED_PARSE_WRONG;
    }
    if (optind < argc) {
        fprintf(stderr, "oncepay-feed: what is %s? see --help\n", argv[optind]);
        return FEED_PARSE_WRONG;
    }
    return finish(out) ? FEED_PARSE_RUN : FEED_PARSE_WRONG;
}
