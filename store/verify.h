/*
 * store/verify.h: the invariants of protocol J as read-only SQL, for production as well as for
 * tests: one statement per invariant, each with its offenders. I9, I14, I15, I20 and I22 need an
 * outside book or a second look and are checked by tests.
 *
 * Each statement sees one snapshot of its own. They read whole tables: the store has to be made
 * with store_options.is_reader.
 */
#ifndef ONCEPAY_STORE_VERIFY_H
#define ONCEPAY_STORE_VERIFY_H

#include "store/store.h"

enum {
    VERIFY_CHECK_COUNT = 18,
    VERIFY_SHOWN_MAX = 20,
};

struct verify_offender {
    const char *id;   /* of the payment, attempt or whatever offends */
    const char *what; /* what is wrong with it, in words */
};

struct verify_result {
    const char *invariant; /* "I1"; "partitions" */
    const char *title;
    int64_t offender_count;
    struct verify_offender offenders[VERIFY_SHOWN_MAX]; /* the first of them */
    size_t shown_count;
};

/* Runs all, in order. stuck_after_s: how long a command may be under way (I13). */
enum status verify_run(struct store *store, int64_t stuck_after_s, struct arena *arena,
                       struct verify_result out_results[VERIFY_CHECK_COUNT]) MUST_CHECK;

#endif
