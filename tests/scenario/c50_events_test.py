"""Cases about what leaves us: each event at least once, the first copies of a payment's events in
the order of its versions, and copies that a consumer knows by their id. And about killing each
process in turn while the cache is emptied again and again: nobody holds the only copy of anything.
"""
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from case import STAGES, Case, fault, main, wait_for  # noqa: E402
from producer import Producer  # noqa: E402

LOST = [fault("lost_after_commit", match={"probability": 0.3}),
        fault("drop_before", match={"probability": 0.1}),
        fault("duplicate_webhooks", match={"probability": 0.3})]


class Consumer:
    """An order service: it reads the whole stream, and does a thing once per event id."""

    def __init__(self, messages):
        self.copies = len(messages)
        self.inbox = set()
        self.effects = []  # (payment, version, type), once per event
        for message in messages:
            if message.headers["ce-id"] in self.inbox:
                continue
            self.inbox.add(message.headers["ce-id"])
            self.effects.append((message.headers["ce-subject"], int(message.headers["ce-sequence"]),
                                 message.headers["ce-type"].split("payment.")[-1]))

    def of(self, payment):
        return [effect[1:] for effect in self.effects if effect[0] == payment]


class Events(Case):
    """A message id is forgotten after a second here, so that copies are copies."""
    edits = (("streams:\n", "streams:\n  duplicate_window_s: 1\n"),)
    WINDOW_S = 1

    def consume(self):
        return Consumer(self.stack.nats.stream_messages("PAY_EVENT", "pay.event.*.payment.*"))

    def written(self):
        """Numbered events in the outbox, as a consumer sees them."""
        return {(payment, int(version), kind) for payment, version, kind in self.stack.sql(
            "SELECT payment_id, version, substring(subject from '[^.]*$') FROM oncepay.outbox "
            "WHERE kind = 2 AND version > 0")}

    def wait_published(self):
        written = self.written()
        wait_for("all %d events are in the stream" % len(written),
                 lambda: written <= set(self.consume().effects), 60, 0.3)

    def check_order(self, consumer):
        """First copies: in order, and each event once."""
        self.assertEqual(sorted(consumer.effects), sorted(self.written()))
        for payment in {effect[0] for effect in consumer.effects}:
            versions = [version for version, _ in consumer.of(payment)]
            self.assertEqual(versions, sorted(versions), payment)
            self.assertEqual(versions[0], 1, payment)

    def window_over(self):
        """The stream has forgotten the ids of what it holds: its own clock says so."""
        end = time.monotonic() + self.WINDOW_S + 0.5
        wait_for("the duplicate window is over", lambda: time.monotonic() > end)

    def test_c50_order_is_kept_while_the_relay_is_killed_again_and_again(self):
        s = self.stack
        s.faults(LOST)
        with Producer(s) as producer:
            for _ in range(4):
                producer.wait_answered(25)
                s.kill("relay")
                producer.wait_answered(10)
                s.start("relay")
        s.reconnect()
        s.wait_quiet()
        self.assertGreater(len(producer.answers), 100)
        self.wait_published()
        consumer = self.consume()
        self.check_order(consumer)
        self.assertIn("unknown", {kind for _, _, kind in consumer.effects})  # more than two events
        s.assert_books_agree()

    def test_c51_the_same_event_again_and_again_has_one_effect(self):
        """Published, killed before that was noted, published again after the restart; and twice
        more by hand: three or more copies, one effect."""
        s = self.stack
        s.faults([fault("lost_after_commit", match={"probability": 0.5})])
        s.stop("relay")
        bodies = [s.request() for _ in range(6)]
        payments = [self.accepted(body)[1] for body in bodies]
        for body in bodies:
            s.wait_payment(body["out_trade_no"], "CAPTURED")
        s.start("relay", environment={"ONCEPAY_CRASH_AT": "relay.after_publish_before_mark"},
                wait=False)
        s.wait_dead("relay")
        before = self.consume()
        self.assertGreaterEqual(before.copies, 1)
        self.window_over()
        s.start("relay")
        self.wait_published()
        once = self.consume()
        self.assertGreater(once.copies, len(once.inbox), "nothing was published twice")
        for _ in range(2):
            self.window_over()
            for payment in payments:
                done = s.cli("--json", "outbox", "republish", "--payment", payment)
                self.assertTrue(json.loads(done.stdout)["complete"], done.stdout)
        again = self.consume()
        self.assertGreaterEqual(again.copies, once.copies + 4 * len(payments))
        self.assertEqual(again.effects, once.effects)
        self.check_order(again)
        for payment in payments:
            self.assertEqual([kind for _, kind in again.of(payment)].count("succeeded"), 1)
        s.assert_books_agree()


class Invisible(Case):
    """C50: the order of ids is not the order of commits. Rows by hand; nothing else runs."""
    stages = ("relay",)

    def insert(self, number, payment):
        """An event row, as one statement. Ids follow number."""
        head = "".join("%s: %s\\n" % pair for pair in (
            ("ce-specversion", "1.0"), ("ce-id", self.id_of(number)), ("ce-subject", payment),
            ("ce-type", "oncepay.payment.accepted"), ("ce-sequence", "1")))
        values = (self.id_of(number), payment, payment, head)
        return ("INSERT INTO oncepay.outbox (id, kind, subject, entity, entity_id, version, "
                "payment_id, body, headers) VALUES ('%s', 2, 'pay.event.m-1001.payment.accepted', "
                "1, '%s', 1, '%s', '\\x80', E'%s');\n" % values)

    def id_of(self, number):
        return self.floor[:-4] + "%04x" % number

    def setUp(self):
        super().setUp()
        self.floor = self.stack.value("SELECT oncepay.uuid_floor(now())")

    def published(self):
        return [message.headers["ce-id"]
                for message in self.stack.nats.stream_messages("PAY_EVENT")]

    def test_c50_an_event_that_commits_after_its_successor_is_not_skipped(self):
        s = self.stack
        late = [subprocess.Popen(["psql", s.environment["ONCEPAY_PG_URL"], "-X", "-q", "-v",
                                  "ON_ERROR_STOP=1"], stdin=subprocess.PIPE, text=True)
                for _ in range(2)]
        for i, session in enumerate(late):  # the first numbers, not committed yet
            session.stdin.write("BEGIN;\n" + self.insert(i, self.payment(i)) +
                                "\\! touch '%s/inserted-%d'\n" % (s.dir, i))
            session.stdin.flush()
            wait_for("row %d is written" % i,
                     lambda: os.path.exists("%s/inserted-%d" % (s.dir, i)))
        for i in range(2, 8):  # later numbers, each committed at once
            s.sql(self.insert(i, self.payment(i)))
        later = [self.id_of(i) for i in range(2, 8)]
        wait_for("what is committed is published", lambda: sorted(self.published()) == later)
        s.restart("relay")
        s.sql(self.insert(8, self.payment(8)))
        wait_for("and goes on", lambda: self.id_of(8) in self.published())
        for session in late:
            session.stdin.write("COMMIT;\n")
            session.stdin.close()
            self.assertEqual(session.wait(30), 0)
        expected = [self.id_of(i) for i in range(9)]
        wait_for("what was committed late is published too",
                 lambda: sorted(set(self.published())) == expected)

    def payment(self, number):
        return self.floor[:-4] + "%04x" % (0x1000 + number)


class Nobody(Case):
    """C52: no process and no cache holds the only copy of anything."""

    def test_c52_each_process_killed_and_redis_emptied_at_each_step(self):
        s = self.stack
        s.faults(LOST)
        with Producer(s) as producer:
            for name in STAGES:
                producer.wait_answered(8)
                s.redis("FLUSHALL")
                s.kill(name)
                s.redis("FLUSHALL")
                s.start(name)
                s.redis("FLUSHALL")
        s.reconnect()
        s.wait_quiet()
        for number, given in producer.answers.items():
            self.assertEqual({status for status, _ in given}, {202}, number)
            self.assertEqual(len(set(given)), 1, "%s was answered in two ways" % number)
            self.assertEqual(s.payment(number)["status"], "CAPTURED", number)
        for table in ("payment", "payment_attempt"):
            self.assertEqual(s.number("SELECT count(*) FROM oncepay." + table),
                             len(producer.answers), table)
        self.assertEqual(len(s.charges()), len(producer.answers))
        self.assertEqual(s.sql("SELECT kind, reason FROM oncepay.manual_case"), [])
        s.assert_books_agree()


if __name__ == "__main__":
    main()
