/*
 * tests/model/settle.pml: settle, and intake, which goes by what settle leaves behind. Part of
 * payment.pml.
 */

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
