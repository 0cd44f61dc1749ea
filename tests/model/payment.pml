/*
 * tests/model/payment.pml: the money protocol as a model for spin: accept, route, fence, send,
 * result, replay, look-up, webhook, settle, failover, hold. Two aggregates (attempt, payment) are
 * moved by transactions of their own. A committed transaction is one atomic step; between two of
 * them anything may happen: a worker dies, or sleeps until everybody else has finished, or hears
 * that its COMMIT failed when it did not; messages are lost, copied, delivered again; answers and
 * webhooks are lost; the network keeps a request until its late-arrival window ends. run.py has
 * the configurations, all searched exhaustively, and the BROKEN_… rules, each of which spin must
 * refute. Letters in comments (B4, C6 …) are the protocol's sections, I1 … its invariants.
 *
 * Time is a few facts: of a request, that its send_by has passed, and that nothing of it can arrive
 * any more; of an attempt, that its lease ran out, that its replay window is over. Each becomes
 * true whenever it may, so every timing is tried, also a sender that wakes last of all.
 *
 * What holds only because nothing happens is worth nothing: RARE names a state when the search
 * first reaches it, and run.py knows which ones each configuration must reach.
 */
c_decl {
    static int rare_count[32];
}
#define RARE(state) c_code { if (!rare_count[state]++) printf("rare: %d\n", state); }
#define SLEEPER_WAKES_LAST 1
#define JUDGED_AGAIN 2
#define COMMIT_IN_DOUBT 3
#define ANSWERED_BEFORE_FIRST_ARRIVES 4
#define FIRST_ARRIVES_AFTER_REPLAY 5
#define LEASE_TAKEN_OVER 6
#define FENCE_RAN_OUT 7
#define SENT_AGAIN 8
#define END_ANNOUNCED_AGAIN 9
#define SECOND_ACCOUNT_PAYS 10
#define KEY_FORGOTTEN 11
#define PERSON_OWNS 12
#define NOT_FOUND_ENDS 13
#define HOLD_LIFTED 14
#define SETTLED_BY_OTHER 15
#define SECOND_PAYMENT_PAYS 16
#define STRAY_KEPT 17
#define ALL_AT_REST 18

#ifndef PAYMENTS
#define PAYMENTS 1 /* all for one target */
#endif
#ifndef ORDINALS
#define ORDINALS 2 /* attempts of one payment: so many channel accounts there are */
#endif
#ifndef FAULTS
#define FAULTS 1 /* crashes, lost and copied messages, lost webhooks, doubtful COMMITs, in all */
#endif
#ifndef SETTLERS
#define SETTLERS 1
#endif
#define WORKERS 2
#define REQUESTS 2 /* of the first attempt, sends and replays; a second one is sent once */
#define ATTEMPTS (PAYMENTS * ORDINALS)
#define ROWS (ATTEMPTS * REQUESTS)
#define NOBODY 255

#define PAYMENT_OF(a) ((a) / ORDINALS)
#define ORDINAL_OF(a) ((a) % ORDINALS)
#define ATTEMPT_OF(r) ((r) / REQUESTS)
#define FIRST(a) ((a) * REQUESTS)
#define LAST(a) ((a) * REQUESTS + 1)
#define OTHER(r) ((r) ^ 1)

/* --- PostgreSQL ------------------------------------------------------------------------------- */

#define NONE 0
#define P_CREATED 1
#define P_AUTHORIZING 2
#define P_CAPTURED 3
#define P_FAILED 4
byte p_status[PAYMENTS];
byte p_applied[PAYMENTS];  /* ordinal + 1 of the attempt whose end was applied last (F) */
byte p_captured[PAYMENTS]; /* how often the amount was added to the sum (I11, I17) */
byte p_follows[PAYMENTS];  /* the ordinal that its route command follows (C1) */

byte pointer = NOBODY; /* active_payment of the target (E) */
bool hold;

#define A_CREATED 1
#define A_SENDING 2
#define A_UNKNOWN 3
#define A_SUCCEEDED 4
#define A_FAILED 5
byte a_status[ATTEMPTS];
bool a_no_effect[ATTEMPTS]; /* FAILED with NO_SIDE_EFFECT, else with DEFINITE_FAILURE */
bool a_stray[ATTEMPTS];     /* a stray fact and a case for what contradicts it (D) */
bool a_guarded[ATTEMPTS];   /* the guard let it follow its predecessor (I4) */

#define OPEN 1
#define CLOSED 2
byte r_row[ROWS]; /* attempt_request: closed by an answer or by proof that no byte left (C2, B1) */

#define READY 1
#define LEASED 2
#define ESCALATED 3 /* a case: a person owns it */
byte task[ATTEMPTS];      /* recovery_task; NONE stands for RESOLVED, too */
bool fence_row[ATTEMPTS]; /* fence_batch (C2) */

/* Outbox rows stay for ever; for each there is a message in the stream or not (H1). */
#define CREATE(a) (a)
#define SETTLE(a) (ATTEMPTS + (a))
#define ROUTE(p) (2 * ATTEMPTS + (p))
#define COMMANDS (2 * ATTEMPTS + PAYMENTS)
bool outbox[COMMANDS];
bool stream[COMMANDS];

/*
 * A version never comes again, so all that a CAS learns from one is whether the row was moved since
 * it was read. That is kept instead: whose reading of which row is still the latest.
 */
bool a_read[ATTEMPTS * WORKERS];
bool p_read[PAYMENTS * SETTLERS];
bool pointer_read[PAYMENTS];

/* --- outside, and the clock ------------------------------------------------------------------- */

#define ARMED 1  /* its row is committed, its sender is about to check send_by */
#define FLIGHT 2 /* on its way to the PSP; its sender waits */
#define ALONE 3  /* on its way; nobody waits any more */
#define SUCCESS 4
#define DECLINE 5
byte r_wire[ROWS];

#define IN_TIME 0
#define OVERDUE 1 /* send_by has passed */
#define LATE 2    /* so have call limit and late-arrival window (C6) */
byte r_age[ROWS];
bool lease_over[ATTEMPTS];
bool replay_over[ATTEMPTS];

byte psp_key[ATTEMPTS];     /* what is kept under the attempt's key */
byte psp_charges[ATTEMPTS]; /* the PSP's ledger */
bool psp_declined[ATTEMPTS];
bool hook_lost[ATTEMPTS];
byte faults = FAULTS;

/* KEEPS: a PSP that keeps all results under the key, as Stripe does, and cannot be searched.
 * Without it: one that keeps successes only, but whose search shows everything. */
#ifdef KEEPS
#define KEPT 1
#define SEARCHABLE 0
#else
#define KEPT 0
#define SEARCHABLE 1
#endif

/* --- rules ------------------------------------------------------------------------------------ */

#define IS_FINAL(a) (a_status[a] >= A_SUCCEEDED)
#define IS_OVER(p) (p_status[p] >= P_CAPTURED)
#define IS_LIVE(p) (p_status[p] != NONE && p_status[p] != P_FAILED)
#define IS_ENDED(a) (a_status[a] == NONE || IS_FINAL(a))
#define IS_OPEN(r) (r_row[r] == OPEN)
#define IN_FLIGHT(r) (r_wire[r] == FLIGHT || r_wire[r] == ALONE)
#define ANY_OPEN(a) (IS_OPEN(FIRST(a)) || IS_OPEN(LAST(a)))
#ifdef HOSTILE /* what comes late comes from outside here: no replays, which saves states */
#define ROOM(a) false
#else
#define ROOM(a) ((a) == 0 && r_row[LAST(a)] == NONE)
#endif
#define IS_LATE(r) (r_row[r] == NONE || r_age[r] == LATE)
#define ALL_LATE(a) (IS_LATE(FIRST(a)) && IS_LATE(LAST(a)))
#if ORDINALS == 2
#define HAS_NO_OPEN_CREATE(p) (IS_ENDED(2 * (p)) && IS_ENDED(2 * (p) + 1))
#define IS_SAFE(p) \
    (ALL_LATE(2 * (p)) && ALL_LATE(2 * (p) + 1) && !a_stray[2 * (p)] && !a_stray[2 * (p) + 1])
#else
#define HAS_NO_OPEN_CREATE(p) IS_ENDED(p)
#define IS_SAFE(p) (ALL_LATE(p) && !a_stray[p])
#endif

/* What a worker observed, besides SUCCESS and DECLINE. */
#define LOST 6
#define UNSENT 7    /* local or transport proof */
#define NOT_FOUND 8 /* by our reference, in a complete search */

/* C6: can no create of this attempt arrive any more? */
#ifdef BROKEN_NO_LATE_WINDOW
#define CANNOT_ARRIVE(a) true
#else
#define CANNOT_ARRIVE(a) ALL_LATE(a)
#endif
#define CANNOT_ARRIVE_BUT(r) (IS_LATE(OTHER(r)))
#define FREES(a) \
    (a_status[a] == A_FAILED && !a_stray[a] && \
     (a_no_effect[a] -> !ANY_OPEN(a) : KEPT || CANNOT_ARRIVE(a)))

/*
 * B4, C6: did the request that was answered start when no earlier one could arrive any more? That
 * the window has passed when the answer is judged proves nothing: between answer and judgement
 * another request may have arrived, and its worker may be asleep.
 */
#ifdef BROKEN_WINDOW_AT_JUDGEMENT
#define CAME_LAST CANNOT_ARRIVE(a)
#else
#define CAME_LAST (came_last && had_room == ROOM(a)) /* and none was added since */
#endif

/* C5: a replay is a send and may be the first to arrive. */
#ifdef BROKEN_REPLAY_AFTER_RETENTION
#define CAN_REPLAY(a) ROOM(a)
#else
#define CAN_REPLAY(a) (ROOM(a) && !replay_over[a])
#endif

/* Looks that decide nothing are left out: they change nothing. A not found counts only if the look
 * itself came after the window (B4). */
#ifdef BROKEN_WINDOW_AT_JUDGEMENT
#define WORTH_A_LOOK(a) true
#else
#define WORTH_A_LOOK(a) (psp_charges[a] > 0 || ALL_LATE(a))
#endif
#define IS_DUE(a) (task[a] == READY || task[a] == LEASED && lease_over[a])
#define CLAIMABLE(a) \
    (IS_DUE(a) && (a_status[a] == A_CREATED || a_status[a] == A_UNKNOWN) && \
     !(SEARCHABLE && a_status[a] == A_UNKNOWN && !CAN_REPLAY(a) && !WORTH_A_LOOK(a)))

/* Webhooks that would change nothing are left out. */
#define IS_UNDER_WAY(a) (a_status[a] == A_SENDING || a_status[a] == A_UNKNOWN)
#define HOOK_SAYS_PAID(a) \
    (psp_charges[a] > 0 && !hook_lost[a] && \
     (IS_UNDER_WAY(a) || a_status[a] == A_FAILED && !a_stray[a]))
#define HOOK_SAYS_DECLINED(a) \
    (psp_declined[a] && psp_charges[a] == 0 && !hook_lost[a] && IS_UNDER_WAY(a) && \
     (KEPT || !ANY_OPEN(a)))

/* --- transactions ----------------------------------------------------------------------------- */

/* Command x is handled and committed; its acknowledgement may be lost, and it comes again. */
inline acknowledge(x)
{
    if
    :: stream[x] = false
    :: faults > 0 -> faults--
    fi
}

inline announce(x)
{
    outbox[x] = true;
    stream[x] = true
}

inline raise_payment(p)
{
    p_read[(p) * SETTLERS] = false;
    p_read[(p) * SETTLERS + SETTLERS - 1] = false
}

inline move_payment(p, next_status)
{
    assert(!IS_OVER(p)); /* a terminal status never changes (I5) */
    p_status[p] = next_status;
    raise_payment(p)
}

inline raise_pointer()
{
    pointer_read[0] = false;
    pointer_read[PAYMENTS - 1] = false
}

inline hold_target()
{
    hold = true;
    raise_pointer()
}

inline raise_attempt(a)
{
    a_read[(a) * WORKERS] = false;
    a_read[(a) * WORKERS + 1] = false
}

inline move_attempt(a, next_status)
{
    assert(!IS_FINAL(a)); /* I5 */
    a_status[a] = next_status;
    raise_attempt(a);
    fence_row[a] = false /* this attempt has its result (C2) */
}

/* Whoever ends the attempt resolves its task (A). */
inline end_attempt(a, next_status)
{
    move_attempt(a, next_status);
    task[a] = NONE;
    lease_over[a] = false;
    announce(SETTLE(a))
}

inline end_unsent(a)
{
    assert(!ANY_OPEN(a)); /* I6: NO_SIDE_EFFECT only with every request closed as unsent */
    a_no_effect[a] = true;
    end_attempt(a, A_FAILED)
}

/* D: in the transaction that stores the contradicting evidence. */
inline keep_stray(a)
{
    RARE(STRAY_KEPT);
    a_stray[a] = true;
    raise_payment(PAYMENT_OF(a));
    hold_target();
#if ORDINALS > 1
    if
    :: ORDINAL_OF(a) + 1 < ORDINALS && a_status[a + 1] == A_CREATED -> end_unsent(a + 1)
    :: else
    fi
#endif
}

/* The request row is committed before a byte leaves (C2, I20). */
inline new_request(a)
{
    assert(p_status[PAYMENT_OF(a)] == P_AUTHORIZING);
    r = (r_row[FIRST(a)] == NONE -> FIRST(a) : LAST(a));
    r_row[r] = OPEN;
    r_wire[r] = ARMED
}

/* --- create and recover: whoever speaks to a PSP, or hears from it ---------------------------- */

/* C2, C3: only CREATED is sent, once; a worker that finds anything else acknowledges and goes. */
inline fence(a)
{
    if
#ifdef BROKEN_NO_FENCE
    :: a_status[a] == A_CREATED || a_status[a] == A_SENDING ->
        a_status[a] = A_SENDING;
        r = FIRST(a)
#else
    :: a_status[a] == A_CREATED && task[a] == NONE && !hold ->
        move_attempt(a, A_SENDING);
        new_request(a);
        if
        :: r == LAST(a) -> RARE(SENT_AGAIN)
        :: else
        fi;
        fence_row[a] = true
#endif
    :: else
    fi
}

/* G: claim and request row in one commit, no call before it. */
inline claim(a)
{
    if
    :: task[a] == LEASED -> RARE(LEASE_TAKEN_OVER)
    :: else
    fi;
    lease_over[a] = false;
    if
    :: a_status[a] == A_CREATED && ROOM(a) -> /* proven unsent, due again: same attempt, same key */
        task[a] = NONE;
        announce(CREATE(a))
    :: a_status[a] == A_CREATED -> /* out of tries or time */
        end_unsent(a)
    :: a_status[a] == A_UNKNOWN && CAN_REPLAY(a) ->
        task[a] = LEASED;
        new_request(a);
#if !defined(KEEPS) && !defined(BROKEN_CLAIM_UNSEEN)
        /* Where failures are not kept, who judges a decline must know of every request: a row that
         * came since it read makes its reading stale, as a moved attempt does. */
        raise_attempt(a);
#endif
        is_replay = true
    :: a_status[a] == A_UNKNOWN && SEARCHABLE && WORTH_A_LOOK(a) ->
        task[a] = LEASED;
        is_look = true
    :: a_status[a] == A_UNKNOWN && !SEARCHABLE && !CAN_REPLAY(a) ->
        task[a] = ESCALATED /* out of strategies (B7): a case, never a guess */
    fi
}

/* May an earlier request than the one that was answered have reached the PSP (B1)? */
#define PRIOR(a, r) (r == NOBODY -> ANY_OPEN(a) : IS_OPEN(OTHER(r)))

/* B: what the observation proves about the attempt as it was read: its next status, or NONE. */
inline read_attempt()
{
    a_read[a * WORKERS + me] = true;
    seen = a_status[a];
    next = NONE;
    if
    :: IS_UNDER_WAY(a) && heard == SUCCESS -> next = A_SUCCEEDED
    :: IS_UNDER_WAY(a) && heard == DECLINE && (KEPT || !PRIOR(a, r) || CAME_LAST) ->
        next = A_FAILED
    :: IS_UNDER_WAY(a) && heard == NOT_FOUND && CAME_LAST -> next = A_FAILED
    :: seen == A_SENDING && heard == UNSENT && !PRIOR(a, r) && !is_replay -> next = A_CREATED
#ifdef BROKEN_TIMEOUT_AS_FAILURE
    :: IS_UNDER_WAY(a) && heard == LOST -> next = A_FAILED
#endif
    :: else ->
        if
        :: seen == A_SENDING && r != NOBODY -> next = A_UNKNOWN
        :: else
        fi
    fi
}

inline store_verdict(a)
{
    if
    :: next == A_SUCCEEDED -> end_attempt(a, A_SUCCEEDED)
    :: next == A_FAILED ->
        if
        :: heard == NOT_FOUND -> RARE(NOT_FOUND_ENDS)
        :: else
        fi;
        end_attempt(a, A_FAILED)
    :: next == A_CREATED || next == A_UNKNOWN ->
        move_attempt(a, next);
        task[a] = READY;
        lease_over[a] = false;
#ifdef BROKEN_FAILOVER_FROM_UNKNOWN
        announce(SETTLE(a))
#endif
    :: next == NONE ->
        if
        :: seen == A_FAILED && heard == SUCCESS && !a_stray[a] -> keep_stray(a)
        :: task[a] == LEASED && (is_replay || is_look) -> task[a] = READY
        :: else
        fi
    fi
}

inline forget()
{
    a_read[a * WORKERS + me] = false;
    a = 0;
    r = NOBODY;
    heard = NONE;
    seen = NONE;
    next = NONE;
    is_replay = false;
    is_look = false;
    came_last = false;
    had_room = false;
    busy = (me == 0 -> false : busy)
}

#define WORK_ON(x) \
    :: IS_FREE && stream[CREATE(x)] -> a = x; fence(x); acknowledge(CREATE(x)) \
    :: IS_FREE && CLAIMABLE(x) -> a = x; claim(x) \
    :: IS_FREE && HOOK_SAYS_PAID(x) -> a = x; heard = SUCCESS \
    :: IS_FREE && HOOK_SAYS_DECLINED(x) -> a = x; heard = DECLINE
/* Workers are alike, so the second one works only beside the first: that halves the search. */
#define IS_FREE (me == 0 || busy)
bool busy;

proctype worker(bit me)
{
    byte a, r = NOBODY, heard, seen, next;
    bool is_replay, is_look, came_last, had_room;
idle:
    atomic {
        if
        WORK_ON(0)
#if ATTEMPTS > 1
        WORK_ON(1)
#endif
        fi;
        busy = true;
        if
        :: heard != NONE -> read_attempt(); goto store
        :: r != NOBODY -> goto send
        :: is_look -> goto look
        :: else -> forget(); goto idle
        fi
    }
send: /* the worker may be stopped here until everybody else has finished */
    atomic {
        if
#ifdef BROKEN_NO_SEND_BY
        :: r_wire[r] = FLIGHT
#else
        :: r_age[r] == IN_TIME -> r_wire[r] = FLIGHT
        :: r_age[r] != IN_TIME -> /* closed by local evidence (C2) */
            heard = UNSENT;
            if
            :: IS_OVER(PAYMENT_OF(a)) -> RARE(SLEEPER_WAKES_LAST)
            :: else
            fi
#endif
        :: heard = UNSENT /* nobody listens there: no byte left (B2) */
        :: faults > 0 -> faults--; r_wire[r] = NONE; forget(); goto idle
        fi;
        if
        :: heard == UNSENT -> r_wire[r] = NONE; read_attempt(); goto store
        :: else ->
            came_last = !KEPT && is_replay && CANNOT_ARRIVE_BUT(r);
            had_room = ROOM(a)
        fi
    }
    atomic {
        if
        :: r_wire[r] >= SUCCESS ->
            heard = r_wire[r];
            if
            :: is_replay && IN_FLIGHT(FIRST(a)) -> RARE(ANSWERED_BEFORE_FIRST_ARRIVES)
            :: else
            fi;
            r_wire[r] = NONE
        :: heard = LOST; /* no answer within the call limit */
            r_wire[r] = (r_wire[r] == FLIGHT -> ALONE : NONE)
        :: faults > 0 ->
            faults--;
            r_wire[r] = (r_wire[r] == FLIGHT -> ALONE : NONE);
            forget();
            goto idle
        fi;
        read_attempt();
        goto store
    }
look:
    atomic {
        came_last = CANNOT_ARRIVE(a);
        had_room = ROOM(a);
        heard = (psp_charges[a] > 0 -> SUCCESS : NOT_FOUND)
    }
    atomic { read_attempt() }
store: /* by CAS, what was judged; the evidence whoever wins (D) */
    atomic {
        if
        :: r != NOBODY && heard != LOST -> r_row[r] = CLOSED /* by an answer, or as unsent (B1) */
        :: else
        fi;
        if
#ifndef BROKEN_NO_VERSION
        :: !a_read[a * WORKERS + me] -> RARE(JUDGED_AGAIN); read_attempt(); goto store /* (D) */
        :: a_read[a * WORKERS + me] ->
#else
        :: true ->
#endif
            store_verdict(a);
            if
            :: forget(); goto idle
            :: faults > 0 -> faults--; RARE(COMMIT_IN_DOUBT); read_attempt(); goto store /* (H5) */
            fi
        fi
    }
}

/* --- settle ----------------------------------------------------------------------------------- */

inline fail_over(a, p)
{
    move_payment(p, P_AUTHORIZING); /* the decision is a version of the payment (F) */
    p_applied[p] = ORDINAL_OF(a) + 1;
    p_follows[p] = ORDINAL_OF(a) + 1;
    a_guarded[a + 1] = true;
    announce(ROUTE(p))
}

/* F: C6 and the guard are asked from the same fresh rows as the end. */
inline apply(a, p)
{
    if
    :: seen == A_SUCCEEDED && p_status[p] == P_AUTHORIZING ->
        move_payment(p, P_CAPTURED);
        p_captured[p]++;
        p_applied[p] = ORDINAL_OF(a) + 1;
        if
        :: ORDINAL_OF(a) == 1 -> RARE(SECOND_ACCOUNT_PAYS)
        :: else
        fi;
        if
        :: PAYMENTS == 2 && p_status[0] > P_CREATED && p_status[PAYMENTS - 1] > P_CREATED ->
            RARE(SECOND_PAYMENT_PAYS)
        :: else
        fi
#if ORDINALS > 1
    :: seen == A_FAILED && frees && ORDINAL_OF(a) + 1 < ORDINALS -> fail_over(a, p)
#ifdef BROKEN_FAILOVER_FROM_UNKNOWN
    :: seen == A_UNKNOWN && ORDINAL_OF(a) + 1 < ORDINALS -> fail_over(a, p)
#endif
#endif
    :: seen == A_FAILED -> /* nowhere to go, or the policy denies it */
        move_payment(p, P_FAILED);
        p_applied[p] = ORDINAL_OF(a) + 1;
        if
        :: !frees -> hold_target() /* until the window has passed (E) */
        :: else
        fi
    :: else -> assert(false) /* only ends are announced, and each finds its payment waiting */
    fi
}

inline read_payment()
{
    p_read[p * SETTLERS + me] = true;
    is_applied = p_applied[p] > ORDINAL_OF(a);
    seen = a_status[a];
    frees = FREES(a)
}

proctype settler(bit me)
{
    byte a, p, seen;
    bool frees, is_applied;
idle:
    atomic {
        if
        :: stream[SETTLE(0)] -> a = 0
#if ATTEMPTS > 1
        :: stream[SETTLE(1)] -> a = 1
#endif
        fi;
        p = PAYMENT_OF(a);
        read_payment()
    }
store:
    atomic {
        if
#ifdef BROKEN_APPLY_END_TWICE
        :: seen == A_SUCCEEDED -> p_status[p] = P_CAPTURED; p_captured[p]++
        :: seen == A_FAILED && !is_applied -> apply(a, p)
        :: else
#else
        :: is_applied
        :: !is_applied && p_read[p * SETTLERS + me] -> apply(a, p)
        :: !is_applied && !p_read[p * SETTLERS + me] ->
            RARE(SETTLED_BY_OTHER);
            read_payment();
            goto store
#endif
        fi;
        assert(p_captured[p] <= 1); /* I11, I17 */
        assert(!IS_OVER(p) || HAS_NO_OPEN_CREATE(p)); /* I18 */
        acknowledge(SETTLE(a));
        p_read[p * SETTLERS + me] = false;
        a = 0;
        p = 0;
        seen = NONE;
        frees = false;
        is_applied = false;
        goto idle
    }
}

/* --- intake ----------------------------------------------------------------------------------- */

#define MAY_BE_PAID (pointer == NOBODY || p_status[pointer] == P_FAILED && !hold)

/* E: the producer of payment p repeats its request until it is accepted. */
proctype intake(byte p)
{
read:
    atomic { MAY_BE_PAID -> pointer_read[p] = true }
    atomic {
        if
#ifdef BROKEN_POINTER_WITHOUT_VERSION
        :: true ->
#else
        :: !pointer_read[p] -> goto read
        :: pointer_read[p] && (p == 0 || pointer != NOBODY) -> /* call the first to come 0 */
#endif
            pointer = p;
            raise_pointer();
            p_status[p] = P_CREATED;
            announce(ROUTE(p));
            /* I1: every live payment is what its target's pointer names. */
            assert(!IS_LIVE(0) || pointer == 0);
            assert(!IS_LIVE(PAYMENTS - 1) || pointer == PAYMENTS - 1)
        fi
    }
}

/* --- route, relay, recover's timers; the PSP, the network, the clock -------------------------- */

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
#define LOSE(x) :: atomic { faults > 0 && stream[x] -> faults--; stream[x] = false }
#define COPY(x) :: atomic { faults > 0 && outbox[x] && !stream[x] -> faults--; stream[x] = true }
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

/* --- what holds when nothing is left to do ---------------------------------------------------- */

#define HAS_OWNER(a) (a_status[a] == A_UNKNOWN && task[a] == ESCALATED)

inline check_payment(p)
{
    /* Every accepted payment has ended, or a person owns it (I13). */
    assert(p_status[p] == NONE || IS_OVER(p) ||
           HAS_OWNER(p * ORDINALS) || HAS_OWNER(p * ORDINALS + ORDINALS - 1));
    assert(p_captured[p] == (p_status[p] == P_CAPTURED -> 1 : 0)); /* I17 */
    assert(!hold || pointer != p || !IS_SAFE(p))
}

/* I9, charge by charge: operations plus stray facts, up to what is still UNKNOWN. */
inline check_attempt(a)
{
    assert(psp_charges[a] == 0 || a_status[a] == A_SUCCEEDED || a_stray[a] || HAS_OWNER(a));
    assert(a_status[a] != A_SUCCEEDED || psp_charges[a] == 1);
    assert(!a_stray[a] || psp_charges[a] == 1)
}

proctype quiet()
{
    timeout ->
    RARE(ALL_AT_REST);
    if
    :: HAS_OWNER(0) -> RARE(PERSON_OWNS)
    :: else
    fi;
    check_payment(0);
    check_attempt(0);
#if PAYMENTS > 1
    check_payment(1);
#endif
#if ATTEMPTS > 1
    check_attempt(1)
#endif
}

init
{
    atomic {
        run world();
        run worker(0);
        run worker(1);
        run settler(0);
#if SETTLERS > 1
        run settler(1);
#endif
        run intake(0);
#if PAYMENTS > 1
        run intake(1);
#endif
        run quiet()
    }
}
