/*
 * stages/settle/settle_decide.h: what an attempt's end or news means for its payment (protocol A,
 * E, F). Pure: fresh facts in, one decision out. Each end is applied once, because the payment
 * remembers whose news it took last and which version; an end that meets a final payment changes
 * nothing there and becomes a stray fact.
 */
#ifndef ONCEPAY_STAGES_SETTLE_SETTLE_DECIDE_H
#define ONCEPAY_STAGES_SETTLE_SETTLE_DECIDE_H

#include "pipeline/case.h"
#include "store/settle_store.h"

enum settle_action {
    SETTLE_NOTHING = 1, /* applied before, or overtaken */
    SETTLE_MOVE,        /* the payment's version rises, in most cases with an event */
    SETTLE_STRAY,       /* money where the payment says there is none, or more than once */
    SETTLE_MISSING,     /* what the command names is not there */
};

/* What does not stand in the payment's own rows. */
struct settle_rules {
    const struct psp_capability
        *capability;              /* of the attempt's account; NULL: no longer configured */
    int64_t call_limit_us;        /* a request handed over at send_by may run that long */
    int64_t late_arrival_extra_s; /* added to the capability's window */
};

struct settle_decision {
    enum settle_action action;
    const char *why; /* reason code for history and log; never NULL */

    /* SETTLE_MOVE */
    enum payment_state next_status;
    enum certainty certainty;
    const char *reason;
    int announced;
    int64_t authorised_minor;
    int64_t captured_minor;
    bool is_applied; /* the attempt and its version are what was applied last */
    const char *history_event;
    int event;            /* enum event_type; 0: none is due */
    const char *hold;     /* to be set on the target's pointer; NULL: leave it */
    int64_t lift_hold_us; /* when the late-arrival window has passed; 0: time does not lift it */
    bool is_safe_to_pay_again;

    enum stray_kind stray; /* SETTLE_STRAY */
};

/* kind: COMMAND_SETTLE or COMMAND_NO_ROUTE. */
struct settle_decision settle_decide(enum command_kind kind, const struct settle_facts *facts,
                                     const struct settle_rules *rules);

#endif
