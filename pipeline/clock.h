/*
 * pipeline/clock.h: the two clocks and the one written form of time. Deciding code takes its
 * time as a parameter; only wiring calls these. Deadlines, leases and ages follow the database's
 * clock (protocol H10), durations the monotonic one.
 */
#ifndef ONCEPAY_PIPELINE_CLOCK_H
#define ONCEPAY_PIPELINE_CLOCK_H

#include "pipeline/base.h"

#define CLOCK_SECOND_US INT64_C(1000000)
#define CLOCK_MILLISECOND_US INT64_C(1000)

/* Microseconds since 1970-01-01T00:00:00Z. */
int64_t clock_real_us(void);
/* Microseconds since an arbitrary moment; never goes back. */
int64_t clock_monotonic_us(void);

enum { CLOCK_TEXT_SIZE = 32 };
/* RFC 3339, UTC, microseconds: "2026-11-30T10:15:00.000000Z". Years 1970 to 9999. Returns text. */
char *clock_format(int64_t real_us, char text[CLOCK_TEXT_SIZE]);
/* Any RFC 3339 date-time of the years 1970 to 9999, with any offset. out untouched on failure. */
bool clock_parse(const char *text, int64_t *out_real_us);

#endif
