"""ops/chaos.d/faults_process.py: processes are killed, stand still, die and stop at named
points."""
from signal import SIGCONT

from fault import Fault, register
from world import LEASE_S, STAGES

CRASH_POINTS = {
    "intake.after_commit_before_publish": "intake", "intake.before_ack": "intake",
    "route.after_commit_before_publish": "route", "route.before_ack": "route",
    "create.after_fence": "create", "create.after_send_before_result": "create",
    "create.after_result_before_publish": "create",
    "recover.after_claim": "recover", "recover.before_result": "recover",
    "settle.after_commit_before_publish": "settle", "settle.before_ack": "settle",
    "relay.before_publish": "relay", "relay.after_publish_before_mark": "relay",
    "gateway.after_commit_before_publish": "gateway",
}


class StageFault(Fault):
    """One instance of a stage, or all of them."""

    variants = tuple({"stage": stage} for stage in STAGES)

    def drawn(self, draw):
        return {"all": draw.random() < 0.3}

    def touched(self):
        return [self.parameters["stage"]]

    def victims(self, run):
        children = run.world.stages(self.parameters["stage"])
        return children if self.parameters["all"] else children[:1]


@register
class Kill(StageFault):
    """SIGKILL; started again when the fault ends."""
    name = "kill"
    duration_s = (0.1, 3.0)

    def begin(self, run):
        for child in self.victims(run):
            child.holds.add(self)
            if child.kill():
                run.saw("kill." + self.parameters["stage"])

    def end(self, run):
        for child in self.victims(run):
            child.holds.discard(self)


@register
class Freeze(StageFault):
    """SIGSTOP, and SIGCONT when leases and fences have run out, or before."""
    name = "freeze"

    def drawn(self, draw):
        is_long = draw.random() < 0.5
        bounds = (LEASE_S + 1, LEASE_S + 3) if is_long else (0.3, 2)
        self.seconds = round(draw.uniform(*bounds), 2)
        return super().drawn(draw)

    def begin(self, run):
        for child in self.victims(run):
            if child.freeze():
                run.saw("freeze." + self.parameters["stage"])

    def end(self, run):
        for child in self.victims(run):
            child.thaw()


class AtPoint(Fault):
    """The first instance is started anew with a trap at a named point."""
    variable = None

    def drawn(self, draw):
        return {"nth": draw.randint(1, 8)}

    def touched(self):
        return [CRASH_POINTS[self.parameters["point"]]]

    def child(self, run):
        return run.world.stages(CRASH_POINTS[self.parameters["point"]])[0]

    def begin(self, run):
        child = self.child(run)
        child.kill()
        child.once[self.variable] = "%(point)s:%(nth)d" % self.parameters
        child.start()
        self.starts = child.starts


@register
class Crash(AtPoint):
    name = "crash"
    variants = tuple({"point": point} for point in [*CRASH_POINTS, "recover.after_claim"])
    variable = "ONCEPAY_CRASH_AT"
    duration_s = (3.0, 8.0)

    def end(self, run):
        child = self.child(run)
        if child.starts > self.starts or not child.is_alive():
            run.saw("crash." + self.parameters["point"])
        else:
            child.kill()  # the point was not reached: the trap must not go off later


@register
class StopAtPoint(AtPoint):
    """Stands still at the point until the others have taken its work over."""
    name = "stop_at"
    variants = tuple({"point": point} for point in (
        "intake.before_ack", "route.after_commit_before_publish", "create.after_fence",
        "create.after_send_before_result", "recover.after_claim", "recover.before_result",
        "settle.after_commit_before_publish", "relay.before_publish"))
    variable = "ONCEPAY_STOP_AT"
    duration_s = (LEASE_S + 2, LEASE_S + 6)

    def end(self, run):
        child = self.child(run)
        if child.has_stopped():
            run.saw("stop_at." + self.parameters["point"])
            child.signal(SIGCONT)
        else:
            child.kill()


@register
class KillSimulator(Fault):
    name = "kill_psp"
    touches = ("sim",)
    duration_s = (0.1, 2.5)

    def begin(self, run):
        run.world.take_sim_requests()
        child = run.world.children["sim"]
        child.holds.add(self)
        if child.kill():
            run.saw("kill.psp")

    def end(self, run):
        run.world.children["sim"].holds.discard(self)


@register
class FreezeSimulator(Fault):
    name = "freeze_psp"
    touches = ("sim",)
    duration_s = (1.0, 7.0)

    def begin(self, run):
        run.excuse_begin(self)
        if run.world.children["sim"].freeze():
            run.saw("freeze.psp")

    def end(self, run):
        run.world.children["sim"].thaw()
        run.excuse_end(self)
