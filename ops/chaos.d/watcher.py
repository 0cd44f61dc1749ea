"""ops/chaos.d/watcher.py: hears everything on pay.> past the fault proxy, as a bystander: the
events in the order in which they are published, and raw copies of requests and stage commands,
which the faults publish again later.

What it misses while nats-server is away stands in the stream; a stream that is about to be
destroyed is read first (snapshot).
"""
import collections
import sys
import threading
import time

import world as world_module

sys.path.insert(0, world_module.ROOT + "/tests/support")
from nats import Nats  # noqa: E402

COPIES_MAX = 400  # of each kind, the newest
BATCH = 2000      # messages of a stream that are read at once
KINDS = ["intake", "route", "create", "recover", "settle"]


class Event:
    """One copy of a published event; small, for a long run has millions of them."""
    __slots__ = ("id", "type", "payment", "version", "at_ns")

    def __init__(self, message, at_ns):
        headers = message.headers
        self.id = headers.get("ce-id")
        self.type = sys.intern(headers.get("ce-type", ""))
        self.payment = headers.get("ce-subject")
        self.version = int(headers.get("ce-sequence", 0))
        self.at_ns = at_ns


class Watcher:
    def __init__(self, world):
        self.world = world
        self.lock = threading.Lock()
        self.copies = {kind: collections.deque(maxlen=COPIES_MAX) for kind in KINDS}
        self.live = []  # events as they were heard
        self.stored = {}           # (when, id) -> event, of all readings of the stream
        self.enough = threading.Event()
        self.failed = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def start(self):
        self.thread.start()

    def finish(self):
        self.enough.set()
        self.thread.join(10)
        if self.failed:
            raise self.failed

    def _run(self):
        try:
            self._listen()
        except Exception as error:  # the run must hear of it, whatever it is
            self.failed = error

    def _listen(self):
        nats = sid = None
        while not self.enough.is_set():
            try:
                if nats is None:
                    nats = Nats(self.world.nats.url())
                    sid = nats.subscribe("pay.>")
                nats.poll(0.05)
                messages = nats.messages(sid)
                with self.lock:
                    for message in messages:
                        self._keep(message)
                messages.clear()
            except (OSError, TimeoutError):
                if nats is not None:
                    nats.close()
                nats = None
                time.sleep(0.02)
        if nats is not None:
            nats.close()

    def _keep(self, message):
        kind = message.subject.split(".")[1]
        if kind == "event":
            self.live.append(Event(message, time.time_ns()))
        elif kind in self.copies:
            self.copies[kind].append(message)

    def taken(self, kind, count, draw):
        """Copies of that many messages, drawn, in any order."""
        with self.lock:
            held = list(self.copies[kind])
        draw.shuffle(held)
        return held[:count]

    def snapshot(self, nats=None):
        """Reads the event stream whole. What it holds is kept and returned."""
        own = nats or Nats(self.world.nats.url())
        try:
            events = [Event(message, stored_ns(message))
                      for message in read_stream(own, "PAY_EVENT")]
        finally:
            if nats is None:
                own.close()
        for event in events:
            self.stored.setdefault((event.at_ns, event.id), event)
        return events


def read_stream(nats, stream):
    """All that it holds, a batch at a time: at once it would be more than the server lets wait."""
    made = nats.api("CONSUMER.CREATE." + stream, {"stream_name": stream, "config": {
        "deliver_policy": "all", "ack_policy": "none", "replay_policy": "instant"}})
    if "error" in made:
        raise ConnectionError("no consumer on %s: %s" % (stream, made["error"]))
    inbox = nats.inbox()
    sid = nats.subscribe(inbox)
    while True:
        nats.publish("$JS.API.CONSUMER.MSG.NEXT.%s.%s" % (stream, made["name"]),
                     {"batch": BATCH, "no_wait": True}, reply=inbox)
        taken = 0
        while taken < BATCH:
            message = nats.next(sid)
            if ":status" in message.headers:
                break
            yield message
            taken += 1
        if taken < BATCH:
            return


def stored_ns(message):
    """When the stream stored it:
    $JS.ACK.<stream>.<consumer>.<delivered>.<seq>.<seq>.<ns>.<pending>."""
    parts = (message.reply or "").split(".")
    return int(parts[-2]) if len(parts) >= 9 else time.time_ns()
