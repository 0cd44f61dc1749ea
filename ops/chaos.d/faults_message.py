"""ops/chaos.d/faults_message.py: messages come twice, out of order, long after, or mean nothing;
clocks are wrong."""
import itertools
import os
import uuid

from fault import Fault, register
from world import STAGES

KINDS = ["intake", "route", "create", "recover", "settle"]


@register
class Republish(Fault):
    """Raw copies of requests and stage commands that were heard before, shuffled, some of them
    twice, under message ids of their own."""
    name = "republish"
    duration_s = (0, 0)

    variants = tuple({"kind": kind} for kind in KINDS)

    def drawn(self, draw):
        return {"count": draw.choice([5, 30, 150]), "times": draw.choice([1, 2])}

    def begin(self, run):
        copies = run.watcher.taken(self.parameters["kind"], self.parameters["count"], run.draw)
        sent = sum(itertools.takewhile(bool, (
            run.publish(message.subject, message.body, self.headers(message))
            for message in copies * self.parameters["times"])))  # a server that is away stays away
        if sent:
            run.saw("republish." + self.parameters["kind"], sent)

    @staticmethod
    def headers(message):
        headers = {name: value for name, value in message.headers.items() if name[0] != ":"}
        if headers.pop("nats-msg-id", None):
            headers["Nats-Msg-Id"] = "chaos-" + uuid.uuid4().hex
        return headers


@register
class Poison(Fault):
    """What nobody can decode, on a subject of a stage. It becomes a dead letter, and holds
    nothing up."""
    name = "poison"
    variants = tuple({"subject": subject} for subject in (
        "pay.route.3", "pay.settle.5", "pay.create.stripe-main.new"))
    duration_s = (0, 0)

    def drawn(self, draw):
        return {"number": draw.randrange(1 << 30)}

    def begin(self, run):
        body = b"\xc1 chaos %d" % self.parameters["number"]
        run.poison.append(body)  # it may have got there even if nobody says so
        if run.publish(self.parameters["subject"], body, {"Content-Type": "application/msgpack"}):
            run.saw("poison")


@register
class Nonsense(Fault):
    """Requests that no producer should send: they are refused, and claim nothing."""
    name = "nonsense"
    duration_s = (0, 0)

    def begin(self, run):
        head = {"Content-Type": "application/json"}
        bodies = [b"{", b"[]", b"", b"\xff\xfe", b'{"version": 99}', b'{"merchant": "m-1002"}']
        run.poison += bodies
        if all(run.publish("pay.intake.m-1001.pay", body, head) for body in bodies):
            run.saw("nonsense")


@register
class ClockSkew(Fault):
    """One instance of a stage lives in another time for a while; its monotonic clock stays
    right."""
    name = "clock_skew"
    needs = ("faketime",)
    duration_s = (3.0, 7.0)

    def drawn(self, draw):
        return {"stage": draw.choice(STAGES),
                "offset_s": draw.choice([-3600, -120, -7, 7, 120, 3600])}

    def touched(self):
        return [self.parameters["stage"]]

    def begin(self, run):
        child = run.world.stages(self.parameters["stage"])[0]
        child.kill()
        child.once.update(LD_PRELOAD=run.faketime, FAKETIME="%+d" % self.parameters["offset_s"],
                          FAKETIME_DONT_FAKE_MONOTONIC="1", FAKETIME_NO_CACHE="1")
        child.start()
        self.process = child.process

    def end(self, run):
        child = run.world.stages(self.parameters["stage"])[0]
        if child.process is self.process and child.is_alive() and preloads(child.pid, run.faketime):
            run.saw("clock_skew." + self.parameters["stage"])
            child.kill()


def preloads(pid, library):
    """It really runs with it: the library is mapped."""
    with open("/proc/%d/maps" % pid) as file:
        return os.path.basename(library) in file.read()
