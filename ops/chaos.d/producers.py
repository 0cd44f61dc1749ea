"""ops/chaos.d/producers.py: merchants under chaos. They publish through the fault proxy, repeat
under the same key what was not answered, repeat some of what was, and write down everything they
were told.

What they ask for is drawn from the seed by number, so request n is the same in every run.
"""
import random
import sys
import threading
import time

import world as world_module

sys.path.insert(0, world_module.ROOT + "/tests/support")
from nats import Nats  # noqa: E402

REPEAT_S = 3
WAITING_MAX = 120
# Method tokens of the simulator (ops/sim/README.md) and how many in a hundred requests use them.
TOKENS = [("pm_card_visa", 70), ("pm_card_chargeDeclined", 8), ("pm_card_insufficientFunds", 5),
          ("pm_sim_pending_succeeded_800", 6), ("pm_sim_pending_failed_800", 4),
          ("pm_sim_pending_succeeded_3000", 4), ("pm_card_processingError", 3)]
CURRENCIES = ["EUR", "USD", "GBP", "CHF", "JPY"]


class Ask:
    """One request under one key, and every answer to it."""

    def __init__(self, number, body, key):
        self.number, self.body, self.key = number, body, key
        self.answers = []      # (status, body bytes, is a replay)
        self.published = 0
        self.at = 0

    @property
    def name(self):
        return (self.body["merchant"], self.key)


def draw_request(seed, number):
    """(body, key): the number-th request of this seed. Some go for the target of an earlier one."""
    draw = random.Random("request %d %d" % (seed, number))
    kind = draw.random()
    twin = number - draw.randint(1, 60) if kind < 0.2 else None
    target = number if twin is None or twin < 0 else twin
    # A target belongs to a merchant, so whoever shares it must be the same one.
    merchant = world_module.MERCHANTS[random.Random("target %d %d" % (seed, target)).random() < 0.3]
    token = draw.choices([name for name, _ in TOKENS], [weight for _, weight in TOKENS])[0]
    out_trade_no = "c%d-%d" % (seed, number)
    body = {"version": 1, "merchant": merchant, "out_trade_no": out_trade_no,
            "target": {"kind": "order", "id": "t%d-%d" % (seed, target)},
            "amount": draw.randint(1, 500000), "currency": draw.choice(CURRENCIES),
            "method": {"type": "card", "token": token, "token_realm": "stripe"}}
    key = out_trade_no if draw.random() < 0.6 else "k-" + out_trade_no
    return body, key


class Producers:
    def __init__(self, world, per_second):
        self.world, self.period_s = world, 1 / per_second
        self.draw = random.Random("producers %d" % world.seed)
        self.asks = {}             # (merchant, key) -> Ask
        self.conflicts = {}        # (merchant, key) -> answers to other content under a used key
        self.waiting = {}          # inbox token -> Ask
        self.next_number = 0
        self.reconnects = 0
        self.enough = threading.Event()
        self.failed = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def start(self):
        self.thread.start()

    def finish(self, timeout):
        """No new requests; true when every one is answered in time."""
        self.enough.set()
        self.thread.join(timeout)
        if self.failed:
            raise self.failed
        return not self.waiting

    def _run(self):
        try:
            self._produce()
        except Exception as error:  # the run must hear of it, whatever it is
            self.failed = error

    def _produce(self):
        nats = sid = inbox = None
        next_at = time.monotonic()
        while not (self.enough.is_set() and not self.waiting):
            try:
                if nats is None:
                    nats = Nats(self.world.nats.url(self.world.proxy.port("producer-nats")))
                    inbox = nats.inbox()
                    sid = nats.subscribe(inbox + ".*")
                now = time.monotonic()
                if not self.enough.is_set() and now >= next_at and len(self.waiting) < WAITING_MAX:
                    next_at = max(next_at + self.period_s, now - 1)
                    self._act(nats, inbox)
                for ask in list(self.waiting.values()):
                    if now - ask.at > REPEAT_S:
                        self._publish(nats, inbox, ask)
                nats.poll(0.005)
                self._take(nats.messages(sid))
            except (OSError, TimeoutError, ValueError, IndexError):
                # Cut off, half a line: a new connection, the same requests.
                if nats is not None:
                    nats.close()
                    self.reconnects += 1
                nats = None
                time.sleep(0.1)
        if nats is not None:
            nats.close()

    def _act(self, nats, inbox):
        """Mostly a new request; now and then an old one again, or other content under its key."""
        what = self.draw.random()
        answered = len(self.asks) - len(self.waiting)
        if what < 0.08 and answered > 0:
            number = self.draw.randrange(self.next_number)
            body, key = draw_request(self.world.seed, number)
            ask = self.asks.get((body["merchant"], key))
            if ask and ask.answers and what < 0.05:
                self.waiting[str(number)] = ask
                self._publish(nats, inbox, ask)
            elif ask and ask.answers:
                other = dict(body, amount=body["amount"] + 1)
                self._send(nats, inbox, "x%d" % number, other, key)
            return
        body, key = draw_request(self.world.seed, self.next_number)
        ask = Ask(self.next_number, body, key)
        self.asks[ask.name] = ask
        self.waiting[str(self.next_number)] = ask
        self.next_number += 1
        self._publish(nats, inbox, ask)

    def _publish(self, nats, inbox, ask):
        ask.at = time.monotonic()
        ask.published += 1
        body = ask.body
        if ask.number % 23 == 7:  # another one at each repeat: it is no part of the fingerprint
            until = time.gmtime(time.time() + 60)
            body = dict(body, expires_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", until))
        self._send(nats, inbox, str(ask.number), body, ask.key)

    @staticmethod
    def _send(nats, inbox, token, body, key):
        head = {"Content-Type": "application/json", "Pay-Reply-To": inbox + "." + token,
                "Idempotency-Key": key}
        nats.publish("pay.intake.%s.pay" % body["merchant"], body, head)

    def _take(self, messages):
        while messages:
            message = messages.pop(0)
            token = message.subject.rpartition(".")[2]
            answer = (int(message.headers["pay-status"]), message.body,
                      message.headers.get("idempotent-replayed") == "true")
            if token.startswith("x"):
                body, key = draw_request(self.world.seed, int(token[1:]))
                self.conflicts.setdefault((body["merchant"], key), []).append(answer)
                continue
            body, key = draw_request(self.world.seed, int(token))
            self.asks[(body["merchant"], key)].answers.append(answer)
            self.waiting.pop(token, None)

    # --- afterwards ------------------------------------------------------------------------------

    def statuses(self):
        """Of every answer that came."""
        told = [ask.answers for ask in self.asks.values()] + list(self.conflicts.values())
        return [status for answers in told for status, _, _ in answers]
