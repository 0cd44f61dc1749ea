/* pipeline/case.c: see case.h. */
#include "pipeline/case.h"

const char *case_kind_name(int code)
{
    static const char *const NAMES[] = {
        [CASE_UNKNOWN] = "unknown",
        [CASE_AMOUNT_MISMATCH] = "amount_mismatch",
        [CASE_STRAY_FACT] = "stray_fact",
        [CASE_EVIDENCE_CONFLICT] = "evidence_conflict",
        [CASE_STUCK] = "stuck",
        [CASE_DEAD_LETTER] = "dead_letter",
        [CASE_TASK_PAUSED] = "task_paused",
        [CASE_PENDING_TOO_LONG] = "pending_too_long",
        [CASE_UNRECORDED_SEND] = "unrecorded_send",
        [CASE_PSP_REJECTS_US] = "psp_rejects_us",
    };
    return code > 0 && (size_t)code < COUNT_OF(NAMES) ? NAMES[code] : NULL;
}

int case_kind_priority(enum case_kind kind)
{
    switch (kind) {
    case CASE_AMOUNT_MISMATCH:
        return 1;
    case CASE_STRAY_FACT:
    case CASE_EVIDENCE_CONFLICT:
    case CASE_UNRECORDED_SEND:
    case CASE_PSP_REJECTS_US:
        return 2;
    case CASE_UNKNOWN:
    case CASE_DEAD_LETTER:
    case CASE_TASK_PAUSED:
        return 3;
    case CASE_STUCK:
    case CASE_PENDING_TOO_LONG:
        return 4;
    }
    UNREACHABLE("case kind out of range");
}

const char *stray_kind_name(int code)
{
    static const char *const NAMES[] = {
        [STRAY_LATE_SUCCESS] = "late_success",       [STRAY_SECOND_SUCCESS] = "second_success",
        [STRAY_OUTSIDE_REFUND] = "outside_refund",   [STRAY_OUTSIDE_CAPTURE] = "outside_capture",
        [STRAY_REFUND_RETURNED] = "refund_returned", [STRAY_CAPTURE_RETURNED] = "capture_returned",
        [STRAY_DISPUTE_OPENED] = "dispute_opened",   [STRAY_DISPUTE_LOST] = "dispute_lost",
        [STRAY_DISPUTE_WON] = "dispute_won",
    };
    return code > 0 && (size_t)code < COUNT_OF(NAMES) ? NAMES[code] : NULL;
}
