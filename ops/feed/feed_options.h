/*
 * ops/feed/feed_options.h: the command line of oncepay-feed, one table for parsing and --help.
 */
#ifndef ONCEPAY_OPS_FEED_OPTIONS_H
#define ONCEPAY_OPS_FEED_OPTIONS_H

#include "pipeline/money.h"

enum { FEED_CHOICES_MAX = 16, FEED_PREFIX_MAX = 40 };

/* A comma-separated list on the command line; payment i uses item i modulo count. */
struct feed_choices {
    const char *items[FEED_CHOICES_MAX];
    size_t count;
};

struct feed_options {
    const char *nats_url;
    size_t payments;
    struct feed_choices merchants;
    struct feed_choices tokens;
    char prefix[FEED_PREFIX_MAX + 1];
    struct currency currency;
    int64_t amount_min_minor;
    int64_t amount_max_minor;
    uint64_t seed;
    size_t rate_per_s;   /* 0: as fast as in_flight allows */
    size_t in_flight;    /* at most so many unanswered requests */
    size_t unfinished;   /* at most so many payments without an end; 0: no limit */
    int64_t seconds_us;  /* send nothing new after so long; 0: no limit */
    int64_t warm_up_us;  /* latencies leave out what was due before */
    int64_t timeout_us;  /* give up when nothing has moved for so long */
    bool json;           /* JSON bodies instead of MessagePack */
    bool until_answered; /* do not wait for the final events */
    bool quiet;
    const char *summary_path;  /* NULL: standard output */
    const char *accepted_path; /* NULL: not written */
    const char *series_path;   /* NULL: not written */
};

enum feed_parse { FEED_PARSE_RUN, FEED_PARSE_HELP, FEED_PARSE_WRONG };

/* Fills in defaults, then the arguments; says on stderr what is wrong. Borrows argv. */
enum feed_parse feed_options_parse(int argc, char **argv, struct feed_options *out);
void feed_options_print_help(FILE *out);

#endif
