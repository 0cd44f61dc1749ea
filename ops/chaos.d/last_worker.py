"""ops/chaos.d/last_worker.py: a create that stops between its fence and the send, near the end
of the run, and sleeps until everybody else has finished: recover has swept its fence, asked the
PSP again and ended the payment. Then it wakes up with the request still in its hands, and must
not send it.
"""
import time
from signal import SIGCONT

POINT = "create.after_fence"
BEFORE_END_S = 12


class LastWorker:
    def __init__(self, run, seconds):
        self.run = run
        self.begin_at_s = seconds - BEFORE_END_S
        self.child = None

    def added_to(self, entries):
        """The schedule with our beginning in it; ours is the last create instance, which is new."""
        return sorted(entries + [_Begin(self)], key=lambda entry: entry.at_s)

    def begin(self):
        self.child = self.run.world.add_stage("create", 5)
        self.child.once["ONCEPAY_STOP_AT"] = POINT
        self.child.start()

    def wake(self):
        """Everything is quiet. Whether it stopped is seen; what it does now must change nothing."""
        world = self.run.world
        if self.child is None or not self.child.has_stopped():
            return
        before = self.requests()
        self.run.saw("worker_asleep_until_all_is_over")
        self.run.effective[_Begin.card] += 1
        self.child.signal(SIGCONT)
        time.sleep(2.5)  # more than a send and its answer take
        if self.requests() != before:
            self.run.problem("a worker that woke up when all was over has sent a request")
        world.note("the last worker woke up")

    def requests(self):
        totals = self.run.world.sim("/_sim/requests", timeout=30)["totals"]
        return sorted((t["account"], t["count"]) for t in totals if t["method"] == "POST")


class _Begin:
    """As a schedule entry and as a fault that is over at once."""
    seconds = patience_s = 0
    comes_again = False
    things = frozenset()
    card = "last_worker"

    def __init__(self, worker):
        self.at_s = worker.begin_at_s
        self.fault = self
        self.worker = worker

    def begin(self, run):
        self.worker.begin()

    def end(self, run):
        pass

    def __str__(self):
        return "last_worker stops at " + POINT
