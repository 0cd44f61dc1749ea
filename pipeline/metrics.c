/*
 * pipeline/metrics.c: see metrics.h. A series, once made, is never freed or moved, so that
 * reading and counting need no lock; only making one takes the lock. Series of a metric stand in
 * an open hash table of a fixed size.
 */
#include "pipeline/metrics.h"

#include <pthread.h>
#include <stdatomic.h>

enum metric_kind { COUNTER, GAUGE, HISTOGRAM };
enum metric_unit { COUNT, SECONDS };

struct metric_row {
    enum metric_kind kind;
    enum metric_unit unit;
    const char *name;
    const char *labels;
    const char *help;
};

static const struct metric_row METRICS[] = {
#define METRIC(code, kind, unit, name, labels, help)                                               \
    [METRIC_##code] = { kind, unit, name, labels, help },
#include "pipeline/metric.def"
#undef METRIC
};

/* Upper bounds in microseconds; the last bucket is +Inf. */
static const int64_t BUCKETS_US[] = { 500,     1000,    2500,    5000,     10000,
                                      25000,   50000,   100000,  250000,   500000,
                                      1000000, 2500000, 5000000, 10000000, 30000000 };

struct series {
    char *labels[METRICS_LABEL_MAX];
    size_t label_count;
    uint64_t hash;
    _Atomic int64_t value;     /* counter, gauge; histogram: sum in microseconds */
    _Atomic uint64_t *buckets; /* histogram: one per bound and +Inf, not cumulative */
};

/* Twice as many slots as series, so that a search always meets an empty one. */
enum { SLOT_COUNT = 2 * METRICS_SERIES_MAX };

struct family {
    _Atomic(struct series *) slots[SLOT_COUNT];
    size_t series_count; /* under the lock */
};

static struct family families[METRIC_COUNT];
static pthread_mutex_t metrics_lock = PTHREAD_MUTEX_INITIALIZER;

static size_t label_count(const struct metric_row *row)
{
    if (row->labels[0] == '\0') return 0;
    size_t count = 1;
    for (const char *c = row->labels; *c != '\0'; c++) count += *c == ',';
    return count;
}

static const char *label_at(const char *const labels[], size_t index)
{
    return labels[index] == NULL ? "" : labels[index];
}

static uint64_t labels_hash(const char *const labels[], size_t count)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a, with a NUL between the labels */
    for (size_t i = 0; i < count; i++) {
        const char *label = label_at(labels, i);
        const size_t length = strnlen(label, METRICS_LABEL_LENGTH_MAX);
        for (size_t j = 0; j < length; j++) {
            hash = (hash ^ (uint8_t)label[j]) * UINT64_C(1099511628211);
        }
        hash *= UINT64_C(1099511628211);
    }
    return hash;
}

static bool series_is(const struct series *series, const char *const labels[], uint64_t hash)
{
    if (series->hash != hash) return false;
    for (size_t i = 0; i < series->label_count; i++) {
        if (strncmp(series->labels[i], label_at(labels, i), METRICS_LABEL_LENGTH_MAX) != 0) {
            return false;
        }
    }
    return true;
}

/* The series, or NULL and the slot where it would stand. */
static struct series *series_find(struct family *family, const char *const labels[], uint64_t hash,
                                  size_t *out_slot)
{
    size_t slot = hash % SLOT_COUNT;
    for (;;) {
        struct series *series = atomic_load_explicit(&family->slots[slot], memory_order_acquire);
        if (series == NULL) {
            *out_slot = slot;
            return NULL;
        }
        if (series_is(series, labels, hash)) return series;
        slot = (slot + 1) % SLOT_COUNT;
    }
}

static char *label_copy(const char *label)
{
    const size_t length = strnlen(label, METRICS_LABEL_LENGTH_MAX);
    char *copy = memory_allocate(length + 1);
    memcpy(copy, label, length);
    return copy;
}

static struct series *series_make(const struct metric_row *row, const char *const labels[],
                                  size_t count, uint64_t hash)
{
    struct series *series = memory_allocate(sizeof *series);
    series->label_count = count;
    series->hash = hash;
    for (size_t i = 0; i < count; i++) series->labels[i] = label_copy(label_at(labels, i));
    if (row->kind == HISTOGRAM) {
        series->buckets = memory_allocate((COUNT_OF(BUCKETS_US) + 1) * sizeof *series->buckets);
    }
    return series;
}

static struct series *series_touch(enum metric metric, const char *const labels[])
{
    static const char *const OTHER[METRICS_LABEL_MAX] = { "other", "other", "other",
                                                          "other", "other", "other" };
    const struct metric_row *row = &METRICS[metric];
    struct family *family = &families[metric];
    const size_t count = label_count(row);
    INVARIANT(count == 0 || labels != NULL);
    uint64_t hash = labels_hash(labels, count);
    size_t slot;
    struct series *series = series_find(family, labels, hash, &slot);
    if (series != NULL) return series;

    INVARIANT(pthread_mutex_lock(&metrics_lock) == 0);
    if (family->series_count >= METRICS_SERIES_MAX) {
        labels = OTHER;
        hash = labels_hash(labels, count);
    }
    series = series_find(family, labels, hash, &slot);
    if (series == NULL) {
        series = series_make(row, labels, count, hash);
        family->series_count++;
        atomic_store_explicit(&family->slots[slot], series, memory_order_release);
    }
    INVARIANT(pthread_mutex_unlock(&metrics_lock) == 0);
    return series;
}

void metrics_add(enum metric metric, int64_t amount, const char *const labels[])
{
    INVARIANT(METRICS[metric].kind == COUNTER && amount >= 0);
    atomic_fetch_add_explicit(&series_touch(metric, labels)->value, amount, memory_order_relaxed);
}

void metrics_set(enum metric metric, int64_t value, const char *const labels[])
{
    INVARIANT(METRICS[metric].kind == GAUGE);
    atomic_store_explicit(&series_touch(metric, labels)->value, value, memory_order_relaxed);
}

void metrics_zero(enum metric metric)
{
    INVARIANT(METRICS[metric].kind == GAUGE);
    for (size_t i = 0; i < SLOT_COUNT; i++) {
        struct series *series = atomic_load(&families[metric].slots[i]);
        if (series != NULL) atomic_store_explicit(&series->value, 0, memory_order_relaxed);
    }
}

void metrics_observe(enum metric metric, int64_t value_us, const char *const labels[])
{
    INVARIANT(METRICS[metric].kind == HISTOGRAM);
    struct series *series = series_touch(metric, labels);
    size_t bucket = 0;
    while (bucket < COUNT_OF(BUCKETS_US) && value_us > BUCKETS_US[bucket]) bucket++;
    atomic_fetch_add_explicit(&series->buckets[bucket], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&series->value, value_us, memory_order_relaxed);
}

int64_t metrics_value(enum metric metric, const char *const labels[])
{
    const size_t count = label_count(&METRICS[metric]);
    size_t slot;
    struct series *series =
        series_find(&families[metric], labels, labels_hash(labels, count), &slot);
    return series == NULL ? 0 : atomic_load(&series->value);
}

/* Rendering. */

static void print_number(FILE *out, enum metric_unit unit, int64_t value)
{
    if (unit == COUNT) {
        fprintf(out, "%" PRId64, value);
        return;
    }
    const uint64_t size_us = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    fprintf(out, "%s%" PRIu64 ".%06" PRIu64, value < 0 ? "-" : "", size_us / 1000000,
            size_us % 1000000);
}

static void print_label_value(FILE *out, const char *value)
{
    for (; *value != '\0'; value++) {
        if (*value == '\\' || *value == '"') {
            fprintf(out, "\\%c", *value);
        } else if (*value == '\n') {
            fputs("\\n", out);
        } else {
            fputc(*value, out);
        }
    }
}

/* {name="value",…}; bound is the le label of a bucket, or NULL. Nothing at all without labels. */
static void print_labels(FILE *out, const struct metric_row *row, const struct series *series,
                         const char *bound)
{
    const char *name = row->labels;
    if (series->label_count == 0 && bound == NULL) return;
    fputc('{', out);
    for (size_t i = 0; i < series->label_count; i++) {
        const size_t length = strcspn(name, ",");
        fprintf(out, "%s%.*s=\"", i > 0 ? "," : "", (int)length, name);
        print_label_value(out, series->labels[i]);
        fputc('"', out);
        name += length + (name[length] == ',');
    }
    if (bound != NULL) fprintf(out, "%sle=\"%s\"", series->label_count > 0 ? "," : "", bound);
    fputc('}', out);
}

/* "0.0005", "2.5", "30": as few digits as the bound needs. */
static const char *bound_text(int64_t bound_us, char text[32])
{
    int length =
        snprintf(text, 32, "%" PRId64 ".%06d", bound_us / 1000000, (int)(bound_us % 1000000));
    while (text[length - 1] == '0') text[--length] = '\0';
    if (text[length - 1] == '.') text[--length] = '\0';
    return text;
}

static void print_histogram(FILE *out, const struct metric_row *row, const struct series *series)
{
    char text[32];
    uint64_t count = 0;
    for (size_t i = 0; i <= COUNT_OF(BUCKETS_US); i++) {
        count += atomic_load_explicit(&series->buckets[i], memory_order_relaxed);
        const bool is_last = i == COUNT_OF(BUCKETS_US);
        fprintf(out, "%s_bucket", row->name);
        print_labels(out, row, series, is_last ? "+Inf" : bound_text(BUCKETS_US[i], text));
        fprintf(out, " %" PRIu64 "\n", count);
    }
    fprintf(out, "%s_sum", row->name);
    print_labels(out, row, series, NULL);
    fputc(' ', out);
    print_number(out, SECONDS, atomic_load_explicit(&series->value, memory_order_relaxed));
    fprintf(out, "\n%s_count", row->name);
    print_labels(out, row, series, NULL);
    fprintf(out, " %" PRIu64 "\n", count);
}

static void print_series(FILE *out, const struct metric_row *row, const struct series *series)
{
    if (row->kind == HISTOGRAM) {
        print_histogram(out, row, series);
        return;
    }
    fputs(row->name, out);
    print_labels(out, row, series, NULL);
    fputc(' ', out);
    print_number(out, row->unit, atomic_load_explicit(&series->value, memory_order_relaxed));
    fputc('\n', out);
}

static const char *kind_name(enum metric_kind kind)
{
    switch (kind) {
    case COUNTER:
        return "counter";
    case GAUGE:
        return "gauge";
    case HISTOGRAM:
        return "histogram";
    }
    UNREACHABLE("metric kind out of range");
}

static void print_family(FILE *out, const struct metric_row *row, struct family *family)
{
    bool is_first = true;
    for (size_t i = 0; i < SLOT_COUNT; i++) {
        struct series *series = atomic_load_explicit(&family->slots[i], memory_order_acquire);
        if (series == NULL) continue;
        if (is_first) {
            fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help, row->name,
                    kind_name(row->kind));
        }
        is_first = false;
        print_series(out, row, series);
    }
}

char *metrics_render(size_t *out_length)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, out_length);
    INVARIANT(out != NULL);
    for (size_t i = 0; i < METRIC_COUNT; i++) print_family(out, &METRICS[i], &families[i]);
    INVARIANT(fclose(out) == 0);
    return text;
}

void metrics_reset(void)
{
    for (size_t i = 0; i < METRIC_COUNT; i++) {
        for (size_t slot = 0; slot < SLOT_COUNT; slot++) {
            struct series *series = atomic_exchange(&families[i].slots[slot], NULL);
            if (series == NULL) continue;
            for (size_t j = 0; j < series->label_count; j++) free(series->labels[j]);
            free(series->buckets);
            free(series);
        }
        families[i].series_count = 0;
    }
}
