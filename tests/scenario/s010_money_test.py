"""The first thing that must work: a payment goes all the way, and a lost answer charges nobody twice."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from msgpack import unpack  # noqa: E402
from scenario import Scenario, main, wait_for  # noqa: E402


def fault(action, **match):
    return {"match": match, "action": action}


class Money(Scenario):
    def setUp(self):
        self.stack.faults([])

    def test_a_payment_is_captured_and_told(self):
        s = self.stack
        body = s.request()
        status, answer = s.pay(body)
        self.assertEqual((status, answer["status"], answer["version"]), (202, "pending", 1))
        payment = s.wait_payment(body["out_trade_no"], "CAPTURED")
        self.assertEqual(payment["captured"], 1099)
        self.assertEqual(s.events(payment["id"]), ["payment.accepted", "payment.succeeded"])
        self.assertEqual([a["status"] for a in s.attempts(body["out_trade_no"])], ["SUCCEEDED"])
        s.assert_books_agree()

    def test_events_reach_a_subscriber_in_order_and_say_cloudevents(self):
        s = self.stack
        sid = s.nats.subscribe("pay.event.m-1001.>")
        s.nats.flush()
        body = s.request()
        _, answer = s.pay(body)
        mine = []

        def seen():
            s.nats.poll(0.2)
            mine[:] = [m for m in s.nats.messages(sid) if m.headers.get("ce-subject") == answer["payment"]]
            return any(m.headers["ce-type"].endswith("payment.succeeded") for m in mine)

        wait_for("the final event", seen)
        sequences = [int(m.headers["ce-sequence"]) for m in mine]
        self.assertEqual(sequences, sorted(sequences))
        self.assertEqual([m.headers["ce-type"].split("oncepay.")[-1] for m in mine], ["payment.accepted", "payment.succeeded"])
        self.assertEqual(mine[-1].headers["ce-specversion"], "1.0")
        self.assertEqual(mine[-1].headers["content-type"], "application/msgpack")
        self.assertEqual(unpack(mine[-1].body)["status"], "succeeded")
        self.assertNotIn("pm_card_visa", "".join(m.body.decode("latin-1") + str(m.headers) for m in mine))

    def test_article_1_case_one_the_answer_is_lost_after_the_charge(self):
        """UNKNOWN at the first PSP, replay under the same key, one success, one event, no second PSP."""
        s = self.stack
        s.faults([fault("lost_after_commit"), fault("no_webhooks")])
        body = s.request()
        s.pay(body)
        payment = s.wait_payment(body["out_trade_no"], "CAPTURED")
        attempts = s.attempts(body["out_trade_no"])
        self.assertEqual(len(attempts), 1)
        self.assertEqual(len(s.charges(attempts[0]["key"])), 1)
        events = s.events(payment["id"])
        self.assertEqual(events.count("payment.succeeded"), 1)
        self.assertEqual(events.count("payment.unknown"), 1)
        kinds = [int(row[0]) for row in s.sql("SELECT kind FROM oncepay.attempt_request WHERE payment_id = '%s' "
                                              "ORDER BY id" % payment["id"])]
        self.assertEqual(kinds[:2], [1, 2])  # create, then a replay of the same bytes
        accounts = s.sql("SELECT DISTINCT channel_account FROM oncepay.payment_attempt a JOIN oncepay.payment p "
                         "ON p.id = a.payment_id WHERE p.out_trade_no = '%s'" % body["out_trade_no"])
        self.assertEqual(accounts, [["stripe-main"]])
        s.assert_books_agree()

    def test_the_request_that_never_arrived_is_replayed_too(self):
        s = self.stack
        s.faults([fault("drop_before"), fault("no_webhooks")])
        body = s.request()
        s.pay(body)
        s.wait_payment(body["out_trade_no"], "CAPTURED")
        key = s.attempts(body["out_trade_no"])[0]["key"]
        self.assertEqual(len(s.charges(key)), 1)
        s.assert_books_agree()

    def test_a_decline_fails_and_frees_the_target(self):
        s = self.stack
        body = s.request(method={"type": "card", "token": "pm_card_chargeDeclined", "token_realm": "stripe"})
        s.pay(body)
        payment = s.wait_payment(body["out_trade_no"], "FAILED")
        self.assertEqual(s.events(payment["id"]), ["payment.accepted", "payment.failed"])
        again = s.request(target=body["target"])
        status, _ = s.pay(again)
        self.assertEqual(status, 202)
        s.wait_payment(again["out_trade_no"], "CAPTURED")
        s.assert_books_agree()

    def test_rows_two_of_article_1_webhook_and_recovery_succeed_at_once(self):
        """One CAS transition, one history row, one event, whoever finds it first."""
        s = self.stack
        s.faults([fault("lost_after_commit")])  # webhooks on: both paths race
        bodies = [s.request() for _ in range(30)]
        for body in bodies:
            s.publish(body)
        for body in bodies:
            payment = s.wait_payment(body["out_trade_no"], "CAPTURED")
            self.assertEqual(s.events(payment["id"]).count("payment.succeeded"), 1)
        rows = s.sql("SELECT id, count(*) FROM oncepay.state_history WHERE entity = 2 AND to_status = 50 "
                     "GROUP BY id HAVING count(*) <> 1")
        self.assertEqual(rows, [])
        s.assert_books_agree()


if __name__ == "__main__":
    main()
