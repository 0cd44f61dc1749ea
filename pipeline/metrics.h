/*
 * pipeline/metrics.h: a static registry: what can be measured stands in metric.def, with its help.
 * Values are integers (times in microseconds, rendered as seconds) and C11 atomics; a series is
 * made when it is first touched. Thread-safe. Labels are bounded: values longer than 64 bytes are
 * cut, and past METRICS_SERIES_MAX series of a metric further ones are counted under "other".
 *
 *   metrics_add(METRIC_STAGE_MESSAGES, 1, METRICS_LABELS("intake", "ack"));
 *   metrics_set(METRIC_UNKNOWN_OLDEST, age_us, NULL);
 */
#ifndef ONCEPAY_PIPELINE_METRICS_H
#define ONCEPAY_PIPELINE_METRICS_H

#include "pipeline/base.h"

enum metric {
#define METRIC(code, kind, unit, name, labels, help) METRIC_##code,
#include "pipeline/metric.def"
#undef METRIC
    METRIC_COUNT
};

enum { METRICS_LABEL_MAX = 6, METRICS_SERIES_MAX = 512, METRICS_LABEL_LENGTH_MAX = 64 };

/* Label values in the order of metric.def; a NULL value reads "". */
#define METRICS_LABELS(...) ((const char *const[METRICS_LABEL_MAX]){ __VA_ARGS__ })

/* Counters. labels may be NULL for a metric without any. */
void metrics_add(enum metric metric, int64_t amount, const char *const labels[]);
/* Gauges. */
void metrics_set(enum metric metric, int64_t value, const char *const labels[]);
/* Gauges: all known series to 0, before what is there now is set; so what is gone reads 0. */
void metrics_zero(enum metric metric);
/* Histograms. */
void metrics_observe(enum metric metric, int64_t value_us, const char *const labels[]);

/* Prometheus text format 0.0.4 of all touched series. The caller frees. */
char *metrics_render(size_t *out_length);
#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* For tests: a counter's or gauge's value, 0 when untouched. */
int64_t metrics_value(enum metric metric, const char *const labels[]);
/* For tests: forgets all series. Not while other threads use the registry. */
void metrics_reset(void);

#endif
