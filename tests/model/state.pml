/*
 * tests/model/state.pml: what is stored, what is outside, the rules asked about both, and
 * the transactions that several processes commit. Part of payment.pml.
 */

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
