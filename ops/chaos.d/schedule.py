"""ops/chaos.d/schedule.py: which fault begins when, from the seed alone: the same seed, minutes and
layout give the same list, on any machine that allows the same faults.
"""
import random

from fault import KINDS

GAP_S = 0.9       # on average, from one fault's beginning to the next
SETTLE_S = 1.0    # a thing is left alone that long after a fault
QUIET_END_S = 2.0
STRIDE = 40       # cards that a run of 54 s deals for certain


# No cards: these happen once in a run, in this order, where the layout has what they need; when, as
# shares of its time.
ONCE = {"kill_standby": (0.15, 0.25), "freeze_standby": (0.3, 0.4), "promote": (0.5, 0.7)}


def is_allowed(cls, layout):
    return all(layout.get(need) for need in cls.needs)


class Entry:
    def __init__(self, at_s, fault):
        self.at_s, self.fault = at_s, fault

    def __str__(self):
        return "%7.2f s  %s" % (self.at_s, self.fault)


def cards(layout):
    """Every kind in each of its variants, as far as the layout allows."""
    return [(cls, variant) for cls in KINDS.values()
            if cls.name not in ONCE and is_allowed(cls, layout)
            for variant in cls.variants]


def make(seed, seconds, layout):
    """A shuffled deck of all cards, dealt again and again. Neighbouring seeds begin at different
    places in it, so that a few short runs together have dealt every card."""
    draw = random.Random("schedule %d" % seed)
    all_cards = cards(layout)
    order = [card for card in all_cards if "standby" not in card[0].needs]
    random.Random("deck").shuffle(order)
    begin = seed * STRIDE % len(order)
    # Few seeds have a standby, so what only they can deal comes first.
    deck = [card for card in all_cards if card not in order] + order[begin:] + order[:begin]
    entries, busy_until, waiting = [], {}, []
    once = [(seconds * draw.uniform(*share), KINDS[name](draw, {}))
            for name, share in ONCE.items() if is_allowed(KINDS[name], layout)]
    at_s = 1.0
    while at_s < seconds - QUIET_END_S:
        if once and at_s >= once[0][0]:
            waiting.insert(0, once.pop(0)[1])
        entry = deal(draw, deck, waiting, all_cards, busy_until, at_s, seconds)
        if entry is not None:
            entries.append(entry)
        at_s += draw.uniform(0.4, 2 * GAP_S - 0.4)
    return entries


def deal(draw, deck, waiting, all_cards, busy_until, at_s, seconds):
    """The first fault whose things are free: of those that had to wait, then of the deck."""
    for fault in waiting:
        if is_free(fault, busy_until, at_s):
            waiting.remove(fault)
            return put(fault, busy_until, at_s, seconds)
    for _ in range(4):
        if not deck:
            deck += all_cards
            draw.shuffle(deck)
        cls, variant = deck.pop(0)
        fault = cls(draw, variant)
        if is_free(fault, busy_until, at_s):
            return put(fault, busy_until, at_s, seconds)
        waiting.append(fault)
    return None


def has_room(fault, at_s, running, todo):
    """May it be put between: does nothing touch its things now, or until it is over?"""
    end_s = at_s + fault.seconds + SETTLE_S
    return not any(fault.things & other.things for _, other in running) and not any(
        fault.things & entry.fault.things for entry in todo if entry.at_s < end_s)


def is_free(fault, busy_until, at_s):
    return all(busy_until.get(thing, 0) <= at_s for thing in fault.things)


def put(fault, busy_until, at_s, seconds):
    fault.seconds = round(min(fault.seconds, seconds - at_s), 2)
    for thing in fault.things:
        busy_until[thing] = at_s + fault.seconds + SETTLE_S
    return Entry(round(at_s, 2), fault)
