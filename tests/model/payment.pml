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
#define MESSAGE_LOST 18
#define MESSAGE_COPIED 19
#define ALL_AT_REST 20

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

#include "state.pml"
#include "worker.pml"
#include "settle.pml"
#include "world.pml"

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
