/*
 * tests/model/worker.pml: create and recover: whoever speaks to a PSP, or hears from it. Part
 * of payment.pml.
 */

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
