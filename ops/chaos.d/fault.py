"""ops/chaos.d/fault.py: what a fault is, and the list of all. A fault is drawn (its parameters
come from the seed alone), begins, ends, and says how often it was seen to have an effect.
"""

KINDS = {}  # name -> class, in the order of definition


def register(cls):
    KINDS[cls.name] = cls
    return cls


class Fault:
    name = None
    touches = ()             # no two faults touch one thing at the same time
    needs = ()               # of machine and layout: "shim", "dns" …; else it is skipped
    duration_s = (1.0, 4.0)  # drawn between; (0, 0): it is over at once
    patience_s = 0           # goes on that much longer at most while it has met nobody
    comes_again = True       # if it has met nobody, where the schedule has room
    variants = ({},)         # parameters that a schedule has all of before any comes again

    def __init__(self, draw, variant):
        self.seconds = round(draw.uniform(*self.duration_s), 2)
        self.parameters = dict(self.drawn(draw), **variant)
        self.card = " ".join([self.name, *variant.values()])
        self.things = set(self.touched())

    def drawn(self, draw):
        """Parameters as plain words and numbers, for the schedule that is printed."""
        return {}

    def touched(self):
        return self.touches

    def has_met(self, run):
        """Whether it has had an effect by now; asked only of those that have patience."""
        return True

    def begin(self, run):
        raise NotImplementedError

    def end(self, run):
        pass

    def __str__(self):
        words = " ".join("%s=%s" % item for item in sorted(self.parameters.items()))
        return "%s%s for %.2f s" % (self.name, words and " " + words, self.seconds)
