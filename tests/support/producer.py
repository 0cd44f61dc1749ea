"""A producer as design §3 wants one: it publishes payment requests from a thread of its own for as long
as a test likes, and repeats under the same key what was not answered, whatever happens to the servers.
"""
import os
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nats import Nats  # noqa: E402
from scenario import wait_for  # noqa: E402


class Producer:
    """Use as a context: it produces inside, and has every answer afterwards."""

    def __init__(self, stack, per_second=60, repeat_s=3, request=None, finish_s=90):
        self.stack = stack
        self.period_s = 1 / per_second
        self.repeat_s = repeat_s
        self.finish_s = finish_s
        self.waiting_max = 100  # who gets no answers does not ask for more and more
        self.request = request or stack.request
        self.waiting = {}  # out_trade_no -> (body, when it was last published)
        self.answers = {}  # out_trade_no -> [(status, body)], each answer that came
        self.reconnects = 0
        self.enough = threading.Event()
        self.gave_up = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, error, trace):
        if kind is not None:
            self.finish_s = 0  # the test has failed: nobody is interested in the rest
        self.enough.set()
        self.thread.join()
        if kind is None and self.gave_up:
            raise AssertionError(self.gave_up)

    def wait_answered(self, more=30, timeout=60):
        """Until that many more are answered than now."""
        goal = len(self.answers) + more
        wait_for("%d requests are answered" % goal, lambda: len(self.answers) >= goal or self.gave_up, timeout)
        if self.gave_up:
            raise AssertionError(self.gave_up)

    def _run(self):
        nats = sid = inbox = None
        next_at = time.monotonic()
        give_up_at = None
        while not (self.enough.is_set() and not self.waiting):
            try:
                if nats is None:
                    nats = Nats(self.stack.environment["ONCEPAY_NATS_URL"])
                    inbox = nats.inbox()
                    sid = nats.subscribe(inbox)
                now = time.monotonic()
                if not self.enough.is_set() and now >= next_at and len(self.waiting) < self.waiting_max:
                    next_at = max(next_at + self.period_s, now - 1)
                    self._publish(nats, self.request(), inbox)
                for body, at in list(self.waiting.values()):
                    if now - at > self.repeat_s:
                        self._publish(nats, body, inbox)
                nats.poll(0.01)
                self._take(nats.messages(sid))
            except (OSError, TimeoutError):  # the server is away: a new connection, the same requests
                nats = self._forget(nats)
                time.sleep(0.1)
            if self.enough.is_set():
                give_up_at = give_up_at or time.monotonic() + self.finish_s
                if time.monotonic() > give_up_at:
                    self.gave_up = "no answer to %s" % sorted(self.waiting)[:5]
                    break
        self._forget(nats)

    def _forget(self, nats):
        if nats is not None:
            self.reconnects += 1
            nats.close()
        return None

    def _publish(self, nats, body, inbox):
        self.waiting[body["out_trade_no"]] = (body, time.monotonic())
        head = {"Content-Type": "application/json", "Pay-Reply-To": inbox}
        nats.publish("pay.intake.%s.pay" % body["merchant"], body, head)

    def _take(self, messages):
        while messages:
            answer = messages.pop(0)
            number = answer.json().get("out_trade_no")
            self.answers.setdefault(number, []).append((int(answer.headers["pay-status"]), answer.body))
            self.waiting.pop(number, None)
