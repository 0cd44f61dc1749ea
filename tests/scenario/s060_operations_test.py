"""What an operator does and sees: SIGTERM under load, several processes of a stage, a topology that
somebody changed by hand, metrics, and two stacks on one machine."""
import glob
import os
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from producer import Producer  # noqa: E402
from scenario import BIN, STAGES, Scenario, Stack, main, wait_for  # noqa: E402

SLOW = [{"action": "answer_delay_ms", "ms": 300}]
QUIET = [{"action": "no_webhooks"}]  # so that who sent a request is the only one to hear how it ended
LOST = [{"action": "lost_after_commit", "match": {"probability": 0.1}}]
DRAIN_S = 15  # timers.drain_s of the test configuration, and some for a busy machine
ACK_WAIT_S = 30  # what was handed back comes again sooner than what was only forgotten


FAKETIME = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")[0]


class Child:
    """A stage process as a child of this test, which then has its exit code. In place of the stack's own."""

    def __init__(self, stack, name, **environment):
        port = stack.health_url(name).rsplit(":", 1)[1]
        gateway = stack.environment["ONCEPAY_GATEWAY_URL"].rsplit(":", 1)[1]
        self.log = os.path.join(stack.dir, "log", "child-%s.log" % name)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [os.path.join(BIN, "oncepay-" + name)], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                env=dict(stack.environment, ONCEPAY_METRICS_PORT=port, ONCEPAY_GATEWAY_PORT=gateway,
                         **environment))
        self.url = stack.health_url(name)
        self.stack = stack

    def wait_ready(self):
        def is_ready():
            if self.process.poll() is not None:
                raise AssertionError("ended with %s: %s" % (self.process.returncode, self.text()))
            try:
                return self.stack.http(self.url + "/readyz")[0] == 200
            except OSError:
                return False
        wait_for("the child is ready", is_ready, 30)
        return self

    def terminate(self):
        """SIGTERM; returns the exit code and the seconds that it took."""
        started = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        return code, time.monotonic() - started

    def text(self):
        with open(self.log) as file:
            return file.read()

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Drain(Scenario):
    """SIGTERM under load: what was started is finished, the rest is handed back, exit 0."""
    faults = SLOW

    def drain(self, name, faults=tuple(SLOW + QUIET)):
        s = self.stack
        s.faults(list(faults))
        s.health_url(name)
        s.stop(name)
        child = Child(s, name)
        try:
            child.wait_ready()
            with Producer(s, per_second=100) as producer:
                producer.wait_answered(100)
                code, seconds = child.terminate()
                sending = s.number("SELECT count(*) FROM oncepay.payment_attempt WHERE status = 20")
                ended = time.monotonic()
                s.start(name)
            for number in producer.answers:
                s.wait_payment(number, "CAPTURED", 60)
            self.assertEqual(code, 0, child.text())
            self.assertLess(seconds, DRAIN_S)
            self.assertLess(time.monotonic() - ended, ACK_WAIT_S, "it came again only after the ack wait")
            s.assert_books_agree()
            self.assertEqual(s.sql("SELECT id FROM oncepay.attempt_request WHERE kind <> 1"), [],
                             "somebody had to find out what a drained process had left")
            self.assertEqual(s.sql("SELECT id FROM oncepay.manual_case"), [])
            return sending
        finally:
            child.end()
            s.start(name)

    def test_intake(self):
        self.drain("intake")

    def test_route(self):
        self.drain("route")

    def test_create(self):
        self.assertEqual(self.drain("create"), 0, "calls in flight were left behind")

    def test_recover(self):
        self.drain("recover")

    def test_settle(self):
        self.drain("settle")

    def test_relay(self):
        self.drain("relay")

    def test_gateway(self):
        self.drain("gateway", SLOW)


class TwoOfEach(Scenario):
    """Any number of each may run, and any of them may die."""
    faults = LOST

    def test_one_of_each_pair_is_killed_in_turn(self):
        s = self.stack
        twins = [name + "#2" for name in STAGES]
        s.start(*twins, wait=False)
        for name in twins:
            if name != "relay#2":  # it stands by until the first one is gone
                wait_for("%s is ready" % name, lambda: self.is_ready(name), 30, 0.2)
        with Producer(s, per_second=40) as producer:
            for name in STAGES:
                producer.wait_answered(20)
                s.kill(name)
                producer.wait_answered(20)
            wait_for("the second relay has taken over", lambda: self.is_ready("relay#2"), 30, 0.2)
            s.start(*(name for name in STAGES if name != "relay"))
            s.start("relay", wait=False)
            producer.wait_answered(20)
        for number, given in producer.answers.items():
            self.assertEqual(len({answer[1] for answer in given}), 1, number)
            s.wait_payment(number, "CAPTURED")
        s.assert_books_agree()
        double = s.sql("SELECT payment_id FROM oncepay.payment_attempt GROUP BY 1 HAVING count(*) > 1")
        self.assertEqual(double, [])

    def is_ready(self, name):
        try:
            return self.stack.http(self.stack.health_url(name) + "/readyz")[0] == 200
        except OSError:
            return False


class Topology(Scenario):
    """Somebody changes a stream or consumer by hand: workers say what differs, and do not start."""
    CHANGES = [  # process, stream, durable or None, field, value, what the text must say
        ("intake", "PAY_INTAKE", "intake", "ack_wait", 5000000000, "ack_wait"),
        ("route", "PAY_ROUTE", "route", "max_deliver", 3, "max_deliver"),
        ("create", "PAY_CREATE", "stripe-main_new", "filter_subject", "pay.create.nobody.new", "filter_subject"),
        ("settle", "PAY_SETTLE", "settle", "max_ack_pending", 1, "max_ack_pending"),
        ("recover", "PAY_RECOVER", None, "max_age", 3600000000000, "max_age"),
    ]

    def test_a_mismatch_is_refused(self):
        s = self.stack
        for name, stream, durable, field, value, word in self.CHANGES:
            with self.subTest("%s.%s" % (durable or stream, field)):
                s.stop(name)
                self.change(stream, durable, field, value)
                child = Child(s, name)
                try:
                    self.assertEqual(child.process.wait(20), 3)
                    self.assertIn("topology apply", child.text())
                    self.assertIn(word, child.text())
                    self.assertIn(durable or stream, child.text())
                finally:
                    child.end()
                plan = s.cli("--json", "topology", "plan", check=False).stdout
                self.assertIn(word, plan)
                s.cli("topology", "apply")
                s.start(name)
        body = s.request()
        s.pay(body)
        s.wait_payment(body["out_trade_no"], "CAPTURED")

    def test_a_clock_that_is_days_off_is_refused(self):
        """Ids carry the time: events with ids of last month would be looked for in vain."""
        s = self.stack
        s.stop("settle")
        for skew in ("-20d", "+9d"):
            child = Child(s, "settle", LD_PRELOAD=FAKETIME, FAKETIME=skew)
            try:
                self.assertEqual(child.process.wait(30), 3)
                self.assertIn("clock", child.text())
            finally:
                child.end()
        s.start("settle")

    def test_an_older_schema_is_refused(self):
        s = self.stack
        s.stop("settle")
        last = s.value("SELECT max(name) FROM oncepay.schema_migration")
        s.sql("CREATE TABLE forgotten AS SELECT * FROM oncepay.schema_migration WHERE name = '%s'" % last)
        s.sql("DELETE FROM oncepay.schema_migration WHERE name = '%s'" % last)
        child = Child(s, "settle")
        try:
            self.assertEqual(child.process.wait(20), 3)
            self.assertIn("oncepay migrate", child.text())
            self.assertIn(last, child.text())
        finally:
            child.end()
            s.sql("INSERT INTO oncepay.schema_migration SELECT * FROM forgotten")
            s.start("settle")

    def test_a_change_under_a_running_worker_ends_it(self):
        s = self.stack
        s.stop("settle")
        child = Child(s, "settle").wait_ready()
        try:
            self.change("PAY_SETTLE", "settle", "ack_wait", 5000000000)
            self.assertEqual(child.process.wait(30), 3)
            self.assertIn("ack_wait", child.text())
        finally:
            child.end()
            s.cli("topology", "apply")
            s.start("settle")

    def test_the_relay_leaves_a_mismatch_alone(self):
        """It makes what is missing; what differs is somebody's decision, and it says so."""
        s = self.stack
        s.stop("create")  # it would end, and that is another test
        self.change("PAY_CREATE", "stripe-backup_new", "max_ack_pending", 7)
        self.assertTrue(s.nats.api("CONSUMER.DELETE.PAY_CREATE.stripe-main_follow")["success"])
        try:
            def says_so():
                with open(os.path.join(s.dir, "log/relay.log")) as log:
                    return any("max_ack_pending" in line and "PAY_CREATE/stripe-backup_new" in line for line in log)
            wait_for("the relay says what differs", says_so, 60, 0.5)
            wait_for("the relay has made what was missing", lambda: "config" in s.nats.api(
                "CONSUMER.INFO.PAY_CREATE.stripe-main_follow"), 60, 0.5)
            config = s.nats.api("CONSUMER.INFO.PAY_CREATE.stripe-backup_new")["config"]
            self.assertEqual(config["max_ack_pending"], 7)
        finally:
            s.cli("topology", "apply")
            s.start("create")

    def change(self, stream, durable, field, value):
        nats = self.stack.nats
        if durable is None:
            config = nats.api("STREAM.INFO." + stream)["config"]
            answer = nats.api("STREAM.UPDATE." + stream, dict(config, **{field: value}))
        else:
            config = nats.api("CONSUMER.INFO.%s.%s" % (stream, durable))["config"]
            answer = nats.api("CONSUMER.DURABLE.CREATE.%s.%s" % (stream, durable),
                              {"stream_name": stream, "config": dict(config, **{field: value})})
        self.assertNotIn("error", answer)


class Metrics(Scenario):
    """Every process serves what design §8 names for it, and it counts."""
    faults = [{"action": "lost_after_commit", "limit": 3}, {"action": "no_webhooks"}]
    EVERYBODY = ["oncepay_build_info", "oncepay_payment_stuck", "oncepay_unknown_open", "oncepay_unknown_amount_minor",
                 "oncepay_unknown_oldest_seconds", "oncepay_recovery_oldest_age_seconds"]
    STAGE = ["oncepay_stage_lag", "oncepay_stage_messages_total", "oncepay_stage_batch_seconds"]
    PSP = ["oncepay_attempt_results_total", "oncepay_psp_request_seconds"]
    OWN = {"intake": STAGE + ["oncepay_idempotency_hits_total", "oncepay_idempotency_conflicts_total"],
           "route": STAGE, "settle": STAGE, "create": STAGE[:2] + PSP, "recover": PSP + ["oncepay_recovery_sla_seconds"],
           "relay": ["oncepay_stage_messages_total", "oncepay_outbox_lag_seconds"], "gateway": ["oncepay_requests_total"]}

    def test_names_and_numbers(self):
        s = self.stack
        bodies = [s.request() for _ in range(10)]
        for body in bodies:
            s.pay(body)
        for body in bodies:
            s.wait_payment(body["out_trade_no"], "CAPTURED")
        s.pay(bodies[0])  # a replay
        s.pay(dict(bodies[0], amount=1))  # a conflict
        s.http(s.environment["ONCEPAY_GATEWAY_URL"] + "/webhooks/stripe-main", b"{}", "POST")
        recover = self.scrape("recover")
        self.assertGreaterEqual(self.total(recover, "oncepay_attempt_results_total", 'certainty="CONFIRMED_SUCCESS"'), 3)
        unknown = self.leave_one_unknown()
        for name in STAGES:
            seen = recover if name == "recover" else self.scrape(name)
            names = self.OWN[name] + (self.EVERYBODY if name != "recover" else [])
            self.assertEqual([metric for metric in names if metric not in seen[0]], [], name)
            self.assertEqual(self.total(seen, "oncepay_build_info", 'program="oncepay-%s"' % name), 1)
        seen = self.scrape("intake")
        self.assertGreaterEqual(self.total(seen, "oncepay_stage_messages_total", 'verdict="accepted"'), 11)
        self.assertEqual(self.total(seen, "oncepay_idempotency_hits_total"), 1)
        self.assertEqual(self.total(seen, "oncepay_idempotency_conflicts_total"), 1)
        self.assertEqual(self.total(seen, "oncepay_unknown_amount_minor", 'currency="USD"'), 777)
        self.assertGreater(self.total(seen, "oncepay_unknown_oldest_seconds"), 0)
        for name in ("route", "settle"):
            self.assertGreaterEqual(
                self.total(self.scrape(name), "oncepay_stage_messages_total", 'stage="%s"' % name), 10)
        seen = self.scrape("create")
        self.assertGreaterEqual(self.total(seen, "oncepay_psp_request_seconds_count", 'account="stripe-main"'), 11)
        self.assertGreaterEqual(self.total(seen, "oncepay_attempt_results_total", 'certainty="UNKNOWN"'), 4)
        self.assertGreaterEqual(self.total(self.scrape("gateway"), "oncepay_requests_total"), 1)
        self.assertGreaterEqual(self.total(self.scrape("relay"), "oncepay_stage_messages_total", 'stage="relay"'), 20)
        s.faults([])
        s.start("recover")
        s.wait_payment(unknown, "CAPTURED")
        wait_for("the gauge is down", lambda: self.total(self.scrape("intake"), "oncepay_unknown_open") == 0, 20, 0.5)

    def leave_one_unknown(self):
        """Stops recover; returns the number of a payment that nobody finds out about then."""
        s = self.stack
        s.stop("recover")
        s.faults([{"action": "drop_before"}, {"action": "no_webhooks"}])
        body = s.request(amount=777, currency="USD")
        s.pay(body)
        s.wait_attempt(body["out_trade_no"], "UNKNOWN")
        for name in STAGES:
            if name != "recover":
                wait_for("%s counts it" % name, lambda: self.total(
                    self.scrape(name), "oncepay_unknown_open", 'account="stripe-main",method="card"') == 1, 20, 0.5)
        return body["out_trade_no"]

    def scrape(self, name):
        """({metric: kind}, {series: value}) of a process."""
        status, headers, body = self.stack.http(self.stack.health_url(name) + "/metrics")
        self.assertEqual(status, 200)
        self.assertIn("text/plain", headers["Content-Type"])
        kinds, series = {}, {}
        for line in body.decode().split("\n"):
            if line.startswith("# TYPE "):
                _, _, metric, kind = line.split(" ")
                kinds[metric] = kind
            elif line and not line.startswith("#"):
                what, _, value = line.rpartition(" ")
                self.assertNotIn(what, series, "twice")
                series[what] = float(value)
        return kinds, series

    def total(self, scraped, metric, labels=""):
        return sum(value for what, value in scraped[1].items() if what.split("{")[0] == metric and labels in what)


class SideBySide(Scenario):
    """A second checkout's stack runs beside this one, and neither sees the other."""

    def test_two_stacks(self):
        other = Stack("SideBySideOther", {"ONCEPAY_PORT_BASE": str(self.free_block())}, self.config, self.delays)
        try:
            other.up()
            self.assertNotEqual(other.environment["ONCEPAY_NATS_URL"], self.stack.environment["ONCEPAY_NATS_URL"])
            body = self.stack.request()
            for s in (self.stack, other):  # the same number on both: two businesses
                self.assertEqual(s.pay(body)[0], 202)
            for s in (self.stack, other):
                s.wait_payment(body["out_trade_no"], "CAPTURED")
                self.assertEqual(len(s.charges()), 1)
                s.assert_books_agree()
        finally:
            other.down()
        again = self.stack.request()
        self.assertEqual(self.stack.pay(again)[0], 202)
        self.stack.wait_payment(again["out_trade_no"], "CAPTURED")

    def free_block(self):
        for base in range(10000, 20000, 100):
            if all(self.is_free(base + offset) for offset in range(80)):
                return base
        raise AssertionError("no free block of ports")

    def is_free(self, port):
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                return False
            return True


if __name__ == "__main__":
    main()
