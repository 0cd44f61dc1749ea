/* ops/feed/feed_report.c: see feed_report.h. */
#include "ops/feed/feed_report.h"

#include <errno.h>
#include <jansson.h>

#include "pipeline/clock.h"

enum { BAR_WIDTH = 30, TERMINAL_US = 200000, LOG_US = 5000000, SERIES_US = 20000 };

static void print_progress(const struct feed_progress *progress, const struct feed_book *book,
                           int64_t now_us, const char *line_end)
{
    const size_t total = book->options->payments;
    const size_t done = book->options->until_answered ? book->accepted + book->refused
                                                      : feed_book_ended_count(book) + book->refused;
    const size_t full = done >= total ? BAR_WIDTH : done * BAR_WIDTH / total;
    const int64_t seconds = (now_us - book->started_us) / CLOCK_SECOND_US;
    fprintf(stderr,
            "%s[%.*s%.*s] %zu of %zu  accepted %zu  refused %zu  repeated %" PRIu64 "  %" PRId64
            " s%s",
            progress->terminal ? "\r\033[K" : "", (int)full, "##############################",
            (int)(BAR_WIDTH - full), "..............................", done, total, book->accepted,
            book->refused, book->repeats, seconds, line_end);
    fflush(stderr);
}

void feed_progress_show(struct feed_progress *progress, const struct feed_book *book,
                        int64_t now_us)
{
    if (book->options->quiet || now_us < progress->next_us) return;
    const bool first = progress->next_us == 0;
    progress->next_us = now_us + (progress->terminal ? TERMINAL_US : LOG_US);
    if (!first) print_progress(progress, book, now_us, progress->terminal ? "" : "\n");
}

void feed_progress_finish(struct feed_progress *progress, const struct feed_book *book,
                          int64_t now_us)
{
    if (!book->options->quiet) print_progress(progress, book, now_us, "\n");
}

static FILE *open_for_writing(const char *path)
{
    FILE *file = fopen(path, "we");
    if (file == NULL) fprintf(stderr, "oncepay-feed: %s: %s\n", path, strerror(errno));
    return file;
}

enum status feed_series_open(struct feed_series *series, const char *path)
{
    *series = (struct feed_series){ 0 };
    if (path == NULL) return STATUS_OK;
    series->file = open_for_writing(path);
    return series->file == NULL ? STATUS_STOP : STATUS_OK;
}

void feed_series_note(struct feed_series *series, const struct feed_book *book, int64_t now_us)
{
    if (series->file == NULL || now_us < series->next_us) return;
    series->next_us = now_us + SERIES_US;
    fprintf(series->file, "%" PRId64 " %zu %zu %zu\n", now_us, feed_book_ended_count(book),
            book->accepted, book->sent_count);
    (void)fflush(series->file);
}

void feed_series_close(struct feed_series *series)
{
    if (series->file != NULL) (void)fclose(series->file);
    series->file = NULL;
}

static int compare_us(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left;
    const int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* Milliseconds at a per-mille rank of sorted durations; null when there are none. */
static json_t *quantile_ms(const int64_t *sorted_us, size_t count, size_t permille)
{
    if (count == 0) return json_null();
    size_t rank = (count * permille + 999) / 1000;
    if (rank > 0) rank--;
    return json_real((double)sorted_us[rank] / 1000.0);
}

/* <name>p50_ms, p99_ms, p999_ms, max_ms over the way from publish to the moment that pick reads. */
static void add_latencies(json_t *summary, const struct feed_book *book, const char *prefix,
                          int64_t (*pick)(const struct feed_payment *))
{
    static const struct {
        const char *name;
        size_t permille;
    } QUANTILES[] = {
        { "p50_ms", 500 }, { "p99_ms", 990 }, { "p999_ms", 999 }, { "max_ms", 1000 }
    };
    int64_t *durations_us = memory_allocate(book->sent_count * sizeof *durations_us);
    size_t count = 0;
    for (size_t i = 0; i < book->sent_count; i++) {
        const int64_t at_us = pick(&book->payments[i]);
        if (book->payments[i].planned_us - book->started_us < book->options->warm_up_us) continue;
        if (at_us > 0) durations_us[count++] = at_us - book->payments[i].planned_us;
    }
    qsort(durations_us, count, sizeof *durations_us, compare_us);
    for (size_t i = 0; i < COUNT_OF(QUANTILES); i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "%s%s", prefix, QUANTILES[i].name);
        json_object_set_new(summary, name, quantile_ms(durations_us, count, QUANTILES[i].permille));
    }
    free(durations_us);
}

static int64_t pick_final(const struct feed_payment *payment)
{
    return payment->final_us;
}

static int64_t pick_answered(const struct feed_payment *payment)
{
    return payment->answered_us;
}

static json_t *count_of(uint64_t count)
{
    return json_integer((json_int_t)count);
}

static json_t *make_summary(const struct feed_book *book, const struct feed_wire *wire,
                            int64_t now_us)
{
    /* What counts is the time to the last thing that happened, not the wait after it. */
    const bool done = feed_book_is_done(book);
    const int64_t elapsed_us = (done ? book->moved_us : now_us) - book->started_us;
    const size_t finished =
        book->options->until_answered ? book->accepted : feed_book_ended_count(book);
    json_t *summary = json_object();
    json_object_set_new(summary, "prefix", json_string(book->options->prefix));
    json_object_set_new(summary, "payments", count_of(book->options->payments));
    json_object_set_new(summary, "published", count_of(book->sent_count));
    json_object_set_new(summary, "accepted", count_of(book->accepted));
    json_object_set_new(summary, "refused", count_of(book->refused));
    json_object_set_new(summary, "last_refusal",
                        wire->last_refusal[0] == '\0' ? json_null()
                                                      : json_string(wire->last_refusal));
    json_object_set_new(summary, "unanswered", count_of(book->asked_count));
    json_object_set_new(summary, "repeated", count_of(book->repeats));
    json_object_set_new(summary, "queue_refused", count_of(book->queue_refusals));
    json_object_set_new(summary, "postponed", count_of(book->postponed));
    json_object_set_new(summary, "succeeded", count_of(book->ends[FEED_END_SUCCEEDED]));
    json_object_set_new(summary, "failed", count_of(book->ends[FEED_END_FAILED]));
    json_object_set_new(summary, "canceled", count_of(book->ends[FEED_END_CANCELED]));
    json_object_set_new(summary, "final_unseen",
                        book->options->until_answered
                            ? json_null()
                            : count_of(book->accepted - book->final_accepted));
    json_object_set_new(summary, "alarms", count_of(wire->alarms));
    json_object_set_new(summary, "unreadable", count_of(wire->unreadable));
    json_object_set_new(summary, "seconds", json_real((double)elapsed_us / 1e6));
    json_object_set_new(summary, "payments_per_s",
                        elapsed_us > 0 ? json_real((double)finished * 1e6 / (double)elapsed_us)
                                       : json_null());
    add_latencies(summary, book, "accepted_", pick_answered);
    add_latencies(summary, book, "", pick_final);
    return summary;
}

static enum status close_written(FILE *file, const char *path)
{
    const bool failed = ferror(file) != 0;
    if (fclose(file) == 0 && !failed) return STATUS_OK;
    fprintf(stderr, "oncepay-feed: %s: %s\n", path, strerror(errno));
    return STATUS_STOP;
}

enum status feed_report_summary(const struct feed_book *book, const struct feed_wire *wire,
                                int64_t now_us)
{
    const char *path = book->options->summary_path;
    FILE *file = path == NULL ? stdout : open_for_writing(path);
    if (file == NULL) return STATUS_STOP;
    json_t *summary = make_summary(book, wire, now_us);
    (void)json_dumpf(summary, file, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    json_decref(summary);
    fputc('\n', file);
    return path == NULL ? STATUS_OK : close_written(file, path);
}

enum status feed_report_accepted(const struct feed_book *book)
{
    const struct feed_options *options = book->options;
    FILE *file = open_for_writing(options->accepted_path);
    if (file == NULL) return STATUS_STOP;
    for (size_t i = 0; i < book->sent_count; i++) {
        if (book->payments[i].state != FEED_ACCEPTED) continue;
        char name[FEED_NAME_SIZE];
        fprintf(file, "%s\t%s\t%s\n", options->merchants.items[i % options->merchants.count],
                feed_book_name(book, i, name), book->payments[i].id);
    }
    return close_written(file, options->accepted_path);
}
