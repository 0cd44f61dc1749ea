/*
 * tests/model/world.pml: route, relay and recover's timers; the PSP, the network, the clock.
 * Part of payment.pml.
 */

/* C1: attempt and payment in one transaction; what is there already is a no-op. */
inline route(p)
{
    x = p * ORDINALS + p_follows[p];
    if
    :: a_status[x] == NONE ->
        /* I4: after a predecessor only with the guard's decision, on proof. */
        assert(p_follows[p] == 0 || a_status[x - 1] == A_FAILED && a_guarded[x]);
        a_status[x] = A_CREATED;
        move_payment(p, P_AUTHORIZING);
        announce(CREATE(x))
    :: else
    fi;
    x = 0;
    acknowledge(ROUTE(p))
}

/* H1: a command that has no message and has not moved on is written again. */
#define RELAYS_ROUTE(p) \
    (outbox[ROUTE(p)] && !stream[ROUTE(p)] && a_status[(p) * ORDINALS + p_follows[p]] == NONE)
#define RELAYS_CREATE(a) \
    (outbox[CREATE(a)] && !stream[CREATE(a)] && a_status[a] == A_CREATED && task[a] == NONE)
#define RELAYS_SETTLE(a) \
    (outbox[SETTLE(a)] && !stream[SETTLE(a)] && p_applied[PAYMENT_OF(a)] <= ORDINAL_OF(a))

/* At most one charge per key; per target, too, unless a PSP lets others pay what it declined. */
inline check_charges()
{
#ifdef HOSTILE
    assert(psp_charges[x] <= 1)
#else
    assert(psp_charges[0] + (ATTEMPTS > 1 -> psp_charges[ATTEMPTS - 1] : 0) <= 1) /* I9, I10 */
#endif
}

/* What a request does depends on what is kept under its key. */
#ifdef BROKEN_NEW_KEY_ON_REPLAY
#define KNOWS_KEY(r) (psp_key[ATTEMPT_OF(r)] != NONE && r == FIRST(ATTEMPT_OF(r)))
#else
#define KNOWS_KEY(r) (psp_key[ATTEMPT_OF(r)] != NONE)
#endif
inline execute(r)
{
    x = ATTEMPT_OF(r);
    if
    :: r == FIRST(x) && r_row[LAST(x)] == CLOSED -> RARE(FIRST_ARRIVES_AFTER_REPLAY)
    :: else
    fi;
    if
    :: KNOWS_KEY(r) -> r_wire[r] = (r_wire[r] == ALONE -> NONE : psp_key[x])
    :: !KNOWS_KEY(r) ->
        psp_charges[x]++;
        psp_key[x] = SUCCESS;
        r_wire[r] = (r_wire[r] == ALONE -> NONE : SUCCESS)
    :: !KNOWS_KEY(r) ->
        psp_declined[x] = true;
        psp_key[x] = (KEPT -> DECLINE : NONE);
        r_wire[r] = (r_wire[r] == ALONE -> NONE : DECLINE)
    fi;
    check_charges();
    x = 0
}

/* Facts that nobody asks for any more do not become true: that only saves states. */
#define OVERDUE_MATTERS(r) (r_wire[r] == ARMED || !IS_FINAL(ATTEMPT_OF(r)) || r_age[r] == OVERDUE)
/* A PSP that keeps all results closes earlier requests by its answer (C6): only retention waits. */
#define LATE_MATTERS(r) (!KEPT || replay_over[ATTEMPT_OF(r)])
#define OF_REQUEST(r) \
    :: atomic { IN_FLIGHT(r) -> execute(r) } \
    :: atomic { IN_FLIGHT(r) -> r_wire[r] = NONE } \
    :: atomic { r_row[r] != NONE && r_age[r] == IN_TIME && OVERDUE_MATTERS(r) -> \
                r_age[r] = OVERDUE } \
    :: atomic { r_age[r] == (OVERDUE_MATTERS(r) -> OVERDUE : IN_TIME) && r_row[r] != NONE && \
                !IN_FLIGHT(r) && LATE_MATTERS(r) -> r_age[r] = LATE }

#define LATEST(a) (r_row[LAST(a)] != NONE -> LAST(a) : FIRST(a))
#define LOSE(x) \
    :: atomic { faults > 0 && stream[x] -> RARE(MESSAGE_LOST); faults--; stream[x] = false }
#define COPY(x) \
    :: atomic { faults > 0 && outbox[x] && !stream[x] -> \
                RARE(MESSAGE_COPIED); faults--; stream[x] = true }
#define OF_ATTEMPT(a) \
    OF_REQUEST(FIRST(a)) \
    OF_REQUEST(LAST(a)) \
    :: atomic { task[a] == LEASED && !lease_over[a] && r_age[LATEST(a)] != IN_TIME -> \
                lease_over[a] = true } \
    :: atomic { a_status[a] == A_UNKNOWN && !replay_over[a] -> replay_over[a] = true } \
    :: atomic { KEPT && replay_over[a] && ALL_LATE(a) && psp_key[a] != NONE -> \
                RARE(KEY_FORGOTTEN); psp_key[a] = NONE /* older than its retention (C5) */ } \
    :: atomic { fence_row[a] && r_age[LATEST(a)] != IN_TIME -> \
                RARE(FENCE_RAN_OUT); move_attempt(a, A_UNKNOWN); task[a] = READY } \
    :: atomic { RELAYS_CREATE(a) -> stream[CREATE(a)] = true } \
    :: atomic { RELAYS_SETTLE(a) -> RARE(END_ANNOUNCED_AGAIN); stream[SETTLE(a)] = true } \
    LOSE(CREATE(a)) COPY(CREATE(a)) LOSE(SETTLE(a)) COPY(SETTLE(a)) \
    OF_HOOK(a)

#ifdef HOSTILE /* the customer pays the declined object; the PSP's webhooks do come */
#define OF_HOOK(a) \
    :: atomic { a == 0 && psp_declined[0] && psp_charges[0] == 0 -> \
                psp_charges[0]++; psp_key[0] = SUCCESS }
#else
#define OF_HOOK(a) \
    :: atomic { faults > 0 && !hook_lost[a] && IS_UNDER_WAY(a) -> faults--; hook_lost[a] = true }
#endif

#define OF_PAYMENT(p) \
    :: atomic { stream[ROUTE(p)] -> route(p) } \
    :: atomic { RELAYS_ROUTE(p) -> stream[ROUTE(p)] = true } \
    LOSE(ROUTE(p)) COPY(ROUTE(p)) \
    :: atomic { hold && pointer == p && p_status[p] == P_FAILED && IS_SAFE(p) -> \
                RARE(HOLD_LIFTED); hold = false; raise_pointer() }

proctype world()
{
    byte x;
    do
    OF_ATTEMPT(0)
    OF_PAYMENT(0)
#if ATTEMPTS > 1
    OF_ATTEMPT(1)
#endif
#if PAYMENTS > 1
    OF_PAYMENT(1)
#endif
    :: atomic { faults > 0 -> faults = 0 } /* nothing more goes wrong */
    od
}
