/*
 * ops/feed/feed_report.h: what people and scripts see of a run: a progress line while it goes on,
 * a JSON summary and the list of accepted payments at its end.
 */
#ifndef ONCEPAY_OPS_FEED_REPORT_H
#define ONCEPAY_OPS_FEED_REPORT_H

#include "ops/feed/feed_wire.h"

struct feed_progress {
    bool terminal; /* one line that is written over; else a line now and then */
    int64_t next_us;
};

/* On stderr, at most a few times a second. */
void feed_progress_show(struct feed_progress *progress, const struct feed_book *book,
                        int64_t now_us);
void feed_progress_finish(struct feed_progress *progress, const struct feed_book *book,
                          int64_t now_us);

/* A line now and then for whoever measures, while the run goes on; path NULL: nothing. */
struct feed_series {
    FILE *file;
    int64_t next_us;
};

enum status feed_series_open(struct feed_series *series, const char *path) MUST_CHECK;
void feed_series_note(struct feed_series *series, const struct feed_book *book, int64_t now_us);
void feed_series_close(struct feed_series *series);

/* STATUS_STOP: the file cannot be written; stderr says why. */
enum status feed_report_summary(const struct feed_book *book, const struct feed_wire *wire,
                                int64_t now_us) MUST_CHECK;
enum status feed_report_accepted(const struct feed_book *book) MUST_CHECK;

#endif
