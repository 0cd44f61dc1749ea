/*
 * tests/unit/judge_fixture.h: the capabilities, attempts and observations that the judge's tests
 * share. Included once per test program.
 */
#ifndef ONCEPAY_TESTS_UNIT_JUDGE_FIXTURE_H
#define ONCEPAY_TESTS_UNIT_JUDGE_FIXTURE_H

#include "pipeline/clock.h"
#include "pipeline/judge.h"

#define KEY "op_abc"
#define OBJECT "pi_1"

/* Keeps every result under the key, as Stripe does. */
static const struct psp_capability KEEPS_ALL = {
    .has_idempotency_key = true,
    .keeps_failures_under_key = true,
    .has_retrieve = true,
    .late_arrival_window_s = 600,
    .lookup_lag_s = 60,
    .rate_limit_is_before_execution = true,
    .rejection_is_before_execution = true,
    .auth_rejection_is_before_execution = true,
};
/* Keeps only successes; its search shows everything after the lag. */
static const struct psp_capability KEEPS_SUCCESS = {
    .has_idempotency_key = true,
    .has_retrieve = true,
    .has_search = true,
    .lookup_by_reference_is_complete = true,
    .late_arrival_window_s = 600,
    .lookup_lag_s = 60,
    .rate_limit_is_before_execution = true,
    .rejection_is_before_execution = true,
    .auth_rejection_is_before_execution = true,
};
/* Promises nothing. */
static const struct psp_capability PROMISES_NOTHING = { .has_retrieve = true };

static inline struct judge_attempt attempt_in(enum attempt_state state)
{
    struct judge_attempt attempt = {
        .state = state,
        .certainty = CERTAINTY_UNKNOWN,
        .amount = { 1000, { "EUR" } },
        .reference = KEY,
        .is_recorded = true,
        .last_request_end_us = 1000 * CLOCK_SECOND_US,
        .asked_us = 1010 * CLOCK_SECOND_US,
        .now_us = 1010 * CLOCK_SECOND_US,
    };
    if (state == ATTEMPT_CREATED) attempt.last_request_end_us = 0;
    if (state == ATTEMPT_PROCESSING) attempt.certainty = CERTAINTY_PENDING;
    if (state == ATTEMPT_FAILED) attempt.certainty = CERTAINTY_DEFINITE_FAILURE;
    if (state == ATTEMPT_SUCCEEDED) {
        attempt.certainty = CERTAINTY_CONFIRMED_SUCCESS;
        attempt.provider_object = OBJECT;
        attempt.success_at_us = 900 * CLOCK_SECOND_US;
    }
    return attempt;
}

static inline bool shows_object(enum observation_kind kind)
{
    return kind == OBSERVED_OBJECT_CREATED || kind == OBSERVED_PENDING ||
           kind == OBSERVED_SUCCEEDED || kind == OBSERVED_DECLINED || kind == OBSERVED_CANCELED;
}

static inline struct observation observed(enum observation_kind kind, enum evidence_source source)
{
    struct observation observation = { .kind = kind, .source = source, .phase = PHASE_PARSED };
    if (kind == OBSERVED_UNSENT) observation.phase = PHASE_CONNECT;
    if (kind == OBSERVED_TRANSPORT_LOST) observation.phase = PHASE_SENT;
    if (shows_object(kind)) {
        observation.provider_object = OBJECT;
        observation.reference = KEY;
    }
    if (kind == OBSERVED_SUCCEEDED) {
        observation.has_amount = true;
        observation.amount = (struct money){ 1000, { "EUR" } };
    }
    return observation;
}

#endif
