"""ops/chaos.d/schedule.py: which fault begins when, from the seed alone: the same seed, minutes and
layout give the same list, on any machine that allows the same faults.
"""
import random

from fault import KINDS

GAP_S = 1.0       # on average, from one fault's beginning to the next
SETTLE_S = 1.0    # a thing is left alone that long after a fault
QUIET_END_S = 2.0


class Entry:
    def __init__(self, at_s, fault):
        self.at_s, self.fault = at_s, fault

    def __str__(self):
        return "%7.2f s  %s" % (self.at_s, self.fault)


def usable(layout):
    return [cls for cls in KINDS.values() if all(layout.get(need) for need in cls.needs)]


def make(seed, seconds, layout):
    """A shuffled deck of all kinds, dealt again and again. Each seed begins elsewhere in it, so that a
    few short runs together have dealt every kind."""
    draw = random.Random("schedule %d" % seed)
    kinds = usable(layout)
    order = list(kinds)
    random.Random("deck").shuffle(order)
    begin = layout.get("deck_begin", draw.randrange(len(order)))
    deck = order[begin % len(order):] + order[:begin % len(order)]
    entries, busy_until, waiting = [], {}, []
    at_s = 1.0
    while at_s < seconds - QUIET_END_S:
        entry = deal(draw, deck, waiting, kinds, busy_until, at_s, seconds)
        if entry is not None:
            entries.append(entry)
        at_s += draw.uniform(0.4, 2 * GAP_S - 0.4)
    return entries


def deal(draw, deck, waiting, kinds, busy_until, at_s, seconds):
    """The first fault whose things are free: of those that had to wait, then of the deck."""
    for fault in waiting:
        if is_free(fault, busy_until, at_s):
            waiting.remove(fault)
            return put(fault, busy_until, at_s)
    for _ in range(4):
        if not deck:
            deck += kinds
            draw.shuffle(deck)
        fault = deck.pop(0)(draw)
        fault.seconds = min(fault.seconds, max(0, seconds - at_s))
        if is_free(fault, busy_until, at_s):
            return put(fault, busy_until, at_s)
        waiting.append(fault)
    return None


def is_free(fault, busy_until, at_s):
    return all(busy_until.get(thing, 0) <= at_s for thing in fault.things)


def put(fault, busy_until, at_s):
    for thing in fault.things:
        busy_until[thing] = at_s + fault.seconds + SETTLE_S
    return Entry(round(at_s, 2), fault)
