"""Redis, JetStream, NATS or PostgreSQL is flushed, emptied, killed or away while payments go through:
it costs time and nothing else, and nobody lifts a hand."""
import json
import os
import shutil
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from producer import Producer  # noqa: E402
from scenario import STAGES, Scenario, main, wait_for  # noqa: E402

LOST = [{"action": "lost_after_commit", "match": {"probability": 0.1}},
        {"action": "drop_before", "match": {"probability": 0.05}}]


class Infrastructure(Scenario):
    """Something happens in the middle of a steady stream of requests, some of whose answers get lost."""

    def during(self, what_happens):
        """Runs it under load, and checks what must hold afterwards. Returns the numbers that went through."""
        self.stack.reconnect()  # ours may be one that a server's end has cut
        pids = self.pids()
        try:
            with Producer(self.stack) as producer:
                producer.wait_answered(30)
                try:
                    what_happens()
                finally:
                    self.mend()
                producer.wait_answered(30)
            self.stack.reconnect()
            self.assertEqual(self.pids(), pids, "a process ended")
            self.check(producer.answers)
        finally:
            self.assertEqual(self.pids(), pids, "a process ended")
        return producer.answers

    def mend(self):
        """A test that failed half-way leaves the next one a whole stack."""
        self.stack.start("pg", "nats", "redis")
        self.stack.thaw(*STAGES)

    def check(self, answers):
        s = self.stack
        for number, given in answers.items():
            self.assertEqual(given[0][0], 202, (number, given))
            self.assertEqual(len(set(given)), 1, "%s was answered in two ways: %s" % (number, given))
        s.wait_quiet()
        rows = dict(s.sql("SELECT out_trade_no, status FROM oncepay.payment"))
        lost = [number for number in answers if rows.get(number) != "50"]
        self.assertEqual(lost, [], "accepted, and not CAPTURED")
        s.assert_books_agree()
        self.check_events({json.loads(given[0][1])["payment"] for given in answers.values()})
        self.assertEqual(s.sql("SELECT id, kind, reason FROM oncepay.manual_case"), [], "somebody had to lift a hand")
        self.assertEqual(s.sql("SELECT id, consumer, code FROM oncepay.dead_letter"), [])

    def check_events(self, payments):
        """The stream has each payment's events, the first copies in the order of its versions."""
        wait_for("the stream has every event", lambda: not self.without_end(payments), 60, 0.5)
        for payment, seen in self.first_copies().items():
            self.assertEqual(seen, sorted(seen), "%s out of order" % payment)
            self.assertEqual(seen[0], 1, "%s does not begin with its acceptance" % payment)

    def without_end(self, payments):
        ended = {m.headers["ce-subject"] for m in self.stack.nats.stream_messages("PAY_EVENT")
                 if m.headers["ce-type"].endswith("payment.succeeded")}
        return payments - ended

    def first_copies(self):
        seen = {}
        for message in self.stack.nats.stream_messages("PAY_EVENT", "pay.event.*.payment.*"):
            versions = seen.setdefault(message.headers["ce-subject"], [])
            sequence = int(message.headers["ce-sequence"])
            if sequence not in versions:
                versions.append(sequence)
        return seen

    def pids(self):
        rows = json.loads(self.stack.run(self.stack.stack, "status", "--json").stdout)
        return {row["name"]: row["pid"] for row in rows if row["name"] in STAGES}

    def wait_unready(self, names, word, timeout=30):
        """Each of them answers /readyz with 503 and names this, while /livez stays 200."""
        for name in names:
            def says_so():
                status, _, body = self.stack.http(self.stack.health_url(name) + "/readyz")
                return status == 503 and word in body.decode().lower()
            wait_for("%s is unready for %s" % (name, word), says_so, timeout, 0.2)
            self.assertEqual(self.stack.http(self.stack.health_url(name) + "/livez")[0], 200)

    def wait_ready(self, names=tuple(STAGES), timeout=60):
        for name in names:
            wait_for("%s is ready" % name,
                     lambda: self.stack.http(self.stack.health_url(name) + "/readyz")[0] == 200, timeout, 0.2)


class Redis(Infrastructure):
    faults = LOST

    def test_flushed(self):
        self.during(lambda: [self.stack.redis("FLUSHALL") for _ in range(5)])

    def test_stopped_and_started(self):
        s = self.stack

        def happens():
            s.kill("redis")
            s.wait_payment(self.captured_meanwhile(), "CAPTURED")
            s.start("redis")
        self.during(happens)

    def test_standing_still(self):
        """Neither alive nor dead: connections stand, answers do not come."""
        s = self.stack

        def happens():
            s.freeze("redis")
            s.wait_payment(self.captured_meanwhile(), "CAPTURED")
            s.thaw("redis")
        self.during(happens)

    def captured_meanwhile(self):
        body = self.stack.request()
        self.assertEqual(self.stack.pay(body)[0], 202)
        return body["out_trade_no"]


class JetStream(Infrastructure):
    faults = LOST

    def test_create_commands_purged(self):
        """Messages that are gone before anybody saw them: the relay sees unmoved work and emits it again."""
        s = self.stack

        def happens():
            s.freeze("create")
            wait_for("commands wait", lambda: self.waiting("PAY_CREATE") > 0)
            purged = s.nats.api("STREAM.PURGE.PAY_CREATE")
            self.assertTrue(purged["success"] and purged["purged"] > 0, purged)
            s.thaw("create")
        self.during(happens)

    def test_every_stage_stream_purged(self):
        s = self.stack

        def happens():
            s.freeze("route", "create", "settle")
            for stream in ("PAY_ROUTE", "PAY_CREATE", "PAY_SETTLE", "PAY_RECOVER", "PAY_INTAKE"):
                self.assertTrue(s.nats.api("STREAM.PURGE." + stream)["success"])
            s.thaw("route", "create", "settle")
        self.during(happens)

    def test_the_whole_store_deleted(self):
        """Streams, consumers, messages, published events: all gone. The relay makes them anew."""
        s = self.stack
        before = {}

        def happens():
            before["payments"] = {m.headers["ce-subject"] for m in s.nats.stream_messages("PAY_EVENT")}
            s.kill("nats")
            shutil.rmtree(os.path.join(s.dir, "nats/store"))
            s.start("nats")
            self.wait_ready()
        self.during(happens)
        again = {m.headers["ce-subject"] for m in s.nats.stream_messages("PAY_EVENT", "pay.event.*.payment.accepted")}
        self.assertEqual(before["payments"] - again, set(), "events from before are not in the new stream")
        self.check_topology()

    def test_a_consumer_deleted(self):
        """Deleted under load, made again by the relay; the worker goes on without a restart."""
        s = self.stack

        def happens():
            for stream, durable in (("PAY_INTAKE", "intake"), ("PAY_CREATE", "stripe-main_new"), ("PAY_SETTLE", "settle")):
                self.assertTrue(s.nats.api("CONSUMER.DELETE.%s.%s" % (stream, durable))["success"])
            for stream, durable in (("PAY_INTAKE", "intake"), ("PAY_CREATE", "stripe-main_new"), ("PAY_SETTLE", "settle")):
                wait_for("%s is there again" % durable, lambda: "config" in s.nats.api(
                    "CONSUMER.INFO.%s.%s" % (stream, durable)), 60, 0.2)
        self.during(happens)
        self.check_topology()

    def test_the_event_stream_deleted(self):
        s = self.stack
        self.during(lambda: self.assertTrue(s.nats.api("STREAM.DELETE.PAY_EVENT")["success"]))
        everybody = {row[0] for row in s.sql("SELECT id FROM oncepay.payment")}
        wait_for("all events of all payments are there again", lambda: not self.without_end(everybody), 60, 0.5)

    def test_restarted(self):
        self.during(lambda: self.stack.restart("nats"))

    def test_killed_again_and_again(self):
        """A killed server forgets acks, or keeps messages whose acks it has: neither may hold anything up."""
        def happens():
            for _ in range(5):
                self.stack.kill("nats")
                self.stack.start("nats")
                self.wait_ready()
        self.during(happens)

    def test_killed(self):
        def happens():
            self.stack.kill("nats")
            self.wait_unready(STAGES, "nats")
            self.stack.start("nats")
            self.wait_ready()
        self.during(happens)

    def waiting(self, stream):
        return self.stack.nats.api("STREAM.INFO." + stream)["state"]["messages"]

    def check_topology(self):
        """What the relay made is what topology apply would have made."""
        plan = [json.loads(line) for line in self.stack.cli("--json", "topology", "plan").stdout.splitlines()]
        self.assertEqual({line["change"] for line in plan if "change" in line}, {"none"}, plan)


class PostgreSQL(Infrastructure):
    faults = LOST

    def test_restarted(self):
        self.during(lambda: self.stack.restart("pg"))

    def test_killed(self):
        def happens():
            self.stack.kill("pg")
            self.stack.start("pg")
        self.during(happens)

    def test_away_and_back_while_nothing_happens(self):
        """Nobody pays: all the same they say that it is away, and that it is back."""
        s = self.stack
        pids = self.pids()
        s.kill("pg")
        try:
            self.wait_unready(STAGES, "postgres")
        finally:
            s.start("pg")
        self.wait_ready()
        self.assertEqual(self.pids(), pids)

    def test_away_for_ten_seconds(self):
        """Stages live, wait, and say so; then all goes on."""
        s = self.stack

        def happens():
            s.stop("pg")
            end = wait_for_seconds(10)
            self.wait_unready(STAGES, "postgres")
            end()
            for name in STAGES:
                self.assertEqual(s.http(s.health_url(name) + "/livez")[0], 200)
            s.start("pg")
            self.wait_ready()
        self.during(happens)


def wait_for_seconds(seconds):
    """Time that must pass by itself, counted from now; the result waits for what is left of it."""
    until = time.monotonic() + seconds
    return lambda: time.sleep(max(0, until - time.monotonic()))


if __name__ == "__main__":
    main()
