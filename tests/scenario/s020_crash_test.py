"""SIGKILL of each process at its named crash points, and SIGSTOP between fence and send: whatever
instant it is, nothing is lost, nobody is charged twice, and no person lifts a hand."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from scenario import Scenario, main, wait_for  # noqa: E402

PAYMENTS = 12


def fault(action, **match):
    return {"match": match, "action": action}


class Crash(Scenario):
    def setUp(self):
        self.stack.faults([])

    def crash_at(self, name, point, faults=(), nth=1):
        """The process dies at the point while payments go through it, and comes back."""
        s = self.stack
        s.faults(list(faults))
        s.stop(name)
        bodies = [s.request() for _ in range(PAYMENTS)]
        inbox = s.nats.inbox()
        s.nats.subscribe(inbox)
        s.start(name, environment={"ONCEPAY_CRASH_AT": "%s:%d" % (point, nth)}, wait=False)
        for body in bodies:
            s.publish(body, reply=inbox)
        s.wait_dead(name)
        s.start(name)
        for body in bodies:  # a producer repeats what was not answered
            s.pay(body, timeout=60)
        for body in bodies:
            s.wait_payment(body["out_trade_no"], "CAPTURED", 90)
            attempts = s.attempts(body["out_trade_no"])
            self.assertEqual([a["status"] for a in attempts], ["SUCCEEDED"])
            self.assertEqual(len(s.charges(attempts[0]["key"])), 1)
        s.assert_books_agree()

    def test_intake_after_commit_before_publish(self):
        self.crash_at("intake", "intake.after_commit_before_publish")

    def test_intake_after_commit_before_ack(self):
        self.crash_at("intake", "intake.before_ack")

    def test_route_after_commit_before_publish(self):
        self.crash_at("route", "route.after_commit_before_publish")

    def test_route_after_commit_before_ack(self):
        self.crash_at("route", "route.before_ack")

    def test_create_after_fence_before_send(self):
        self.crash_at("create", "create.after_fence")

    def test_create_after_send_before_result(self):
        self.crash_at("create", "create.after_send_before_result")

    def test_create_after_result_before_publish(self):
        self.crash_at("create", "create.after_result_before_publish")

    def test_recover_after_claim(self):
        self.crash_at("recover", "recover.after_claim", [fault("lost_after_commit"), fault("no_webhooks")])

    def test_recover_before_result(self):
        self.crash_at("recover", "recover.before_result", [fault("lost_after_commit"), fault("no_webhooks")])

    def test_settle_after_commit_before_publish(self):
        self.crash_at("settle", "settle.after_commit_before_publish")

    def test_settle_after_commit_before_ack(self):
        self.crash_at("settle", "settle.before_ack")

    def test_relay_before_publish(self):
        self.crash_at("relay", "relay.before_publish")

    def test_relay_after_publish_before_mark(self):
        self.crash_at("relay", "relay.after_publish_before_mark")

    def test_gateway_after_commit_before_the_2xx(self):
        self.crash_at("gateway", "gateway.after_commit_before_publish")

    def test_article_1_row_three_killed_workers_lease_is_taken_over(self):
        """A worker dies after its claim: nobody calls within the lease, somebody does after it."""
        s = self.stack
        s.faults([fault("lost_after_commit"), fault("no_webhooks")])
        s.stop("recover")
        body = s.request()
        s.pay(body)
        s.wait_attempt(body["out_trade_no"], "UNKNOWN")
        s.start("recover", environment={"ONCEPAY_CRASH_AT": "recover.after_claim"}, wait=False)
        s.wait_dead("recover")
        row = s.sql("SELECT t.status, t.due_at > now(), (SELECT count(*) FROM oncepay.attempt_request r WHERE "
                    "r.attempt_id = t.attempt_id AND r.kind = 2) FROM oncepay.recovery_task t JOIN "
                    "oncepay.payment p ON p.id = t.payment_id WHERE p.out_trade_no = '%s'" % body["out_trade_no"])
        self.assertEqual(row, [["20", "t", "1"]])  # LEASED, still valid, its one request row stands
        s.start("recover")
        s.wait_payment(body["out_trade_no"], "CAPTURED", 60)
        key = s.attempts(body["out_trade_no"])[0]["key"]
        self.assertEqual(len(s.charges(key)), 1)
        s.assert_books_agree()

    def test_stopped_between_fence_and_send_until_recovery_has_decided(self):
        """The late sender wakes when all is over: its send_by has passed, it sends nothing."""
        s = self.stack
        s.faults([fault("no_webhooks")])
        s.stop("create")
        s.start("create", environment={"ONCEPAY_STOP_AT": "create.after_fence"})
        body = s.request()
        s.pay(body)
        s.wait_payment(body["out_trade_no"], "CAPTURED", 60)  # by recover: fence overdue, UNKNOWN, replay
        key = s.attempts(body["out_trade_no"])[0]["key"]
        self.assertEqual(len(s.charges(key)), 1)
        posts_before = self.posts(key)
        s.thaw("create")
        after = s.request()
        s.pay(after)
        s.wait_payment(after["out_trade_no"], "CAPTURED", 60)  # it works again …
        self.assertEqual(self.posts(key), posts_before)  # … and did not send the old one
        self.assertEqual(len(s.charges(key)), 1)
        local = s.number("SELECT count(*) FROM oncepay.evidence e JOIN oncepay.payment_attempt a ON a.id = e.attempt_id "
                         "WHERE a.provider_key = '%s' AND e.source = 1" % key)
        self.assertEqual(local, 1)  # its own word that it did not send is kept
        s.assert_books_agree()

    def posts(self, key):
        return len(next(k for k in self.stack.sim("/_sim/requests")["keys"] if k["key"] == key)["arrivals"])

    def test_no_request_comes_later_than_its_row_allows(self):
        """I20, measured from outside: arrivals at the PSP against send_by + call limit."""
        s = self.stack
        rows = s.sql("SELECT a.provider_key, extract(epoch FROM max(r.send_by)) * 1000 + 2000 "
                     "FROM oncepay.attempt_request r JOIN oncepay.payment_attempt a ON a.id = r.attempt_id "
                     "WHERE r.kind IN (1, 2) GROUP BY 1")
        limits = {key: float(ms) for key, ms in rows}
        seen = [dict(arrival, key=entry["key"]) for entry in self.stack.sim("/_sim/requests")["keys"]
                for arrival in entry["arrivals"]]
        self.assertGreater(len(seen), 0)
        self.assertEqual([a for a in seen if a["real_ms"] > limits[a["key"]]], [])


class RecoverTwice(Scenario):
    """Two recoverers at once: every task is worked on by one."""

    def test_two_recoverers_share_the_tasks(self):
        s = self.stack
        s.start("recover#2")
        s.faults([fault("lost_after_commit"), fault("no_webhooks")])
        bodies = [s.request() for _ in range(60)]
        for body in bodies:
            s.publish(body)
        for body in bodies:
            s.wait_payment(body["out_trade_no"], "CAPTURED", 60)
        double = s.sql("SELECT attempt_id, count(*) FROM oncepay.attempt_request WHERE kind = 2 GROUP BY 1 HAVING count(*) > 1")
        self.assertEqual(double, [])
        wait_for("every task is resolved",
                 lambda: s.number("SELECT count(*) FROM oncepay.recovery_task WHERE status <> 50") == 0)
        s.assert_books_agree()


if __name__ == "__main__":
    main()
