"""Cases about the same thing twice: one target, one key, one content, one charge."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from case import ALWAYS, Case, card, event_text, fault, main, provider_key, wait_for  # noqa: E402

CONFIRMED_SUCCESS = 5
DECLINED = "pm_card_chargeDeclinedInsufficientFunds"


class Same(Case):
    def captured_of(self, target):
        return self.stack.number("SELECT coalesce(sum(captured), 0) FROM oncepay.payment "
                                 "WHERE target_id = '%s'" % target["id"])

    def test_c07_a_target_whose_payment_is_unknown_takes_no_second_one(self):
        s = self.stack
        s.faults([fault("lost_after_commit", times=ALWAYS), fault("no_webhooks")])
        first = s.request()
        number, payment, key = self.accepted(first)
        s.wait_attempt(number, "UNKNOWN")
        second = s.request(target=first["target"])
        status, answer = s.pay(second)
        self.assertEqual((status, answer.get("code")), (409, "target_busy"))
        self.assertEqual((answer["payment"], answer["existing"]["out_trade_no"]), (payment, number))
        self.assertEqual((answer["existing"]["status"], answer["existing"]["safe_to_pay_again"]),
                         ("processing", False))
        self.psp_says("succeeded", key)
        s.wait_payment(number, "CAPTURED")
        self.assertEqual(s.pay(second), (status, answer))  # its first answer, as long as it lives
        third, refused = s.pay(s.request(target=first["target"]))
        self.assertEqual((third, refused.get("code"), refused["existing"]["status"]),
                         (409, "target_busy", "succeeded"))
        self.assertEqual(self.captured_of(first["target"]), first["amount"])
        self.assertIsNone(s.payment(second["out_trade_no"]))
        self.assertEqual(self.posts(provider_key(second["out_trade_no"])), 0)
        s.assert_books_agree()

    def test_c19_same_key_other_amount_is_a_conflict_and_calls_nobody(self):
        s = self.stack
        body = s.request(amount=1000)
        status, answer = s.pay(body, key="k-" + body["out_trade_no"])
        self.assertEqual(status, 202)
        s.wait_payment(body["out_trade_no"], "CAPTURED")
        posts = self.posts(provider_key(body["out_trade_no"]))
        payments = s.number("SELECT count(*) FROM oncepay.payment")
        for changed in (dict(body, amount=1200), dict(body, currency="USD"),
                        dict(body, metadata={"a": "b"}),
                        dict(body, method=card("pm_card_mastercard")),
                        dict(s.request(target=body["target"]), amount=1000)):
            refused, problem = s.pay(changed, key="k-" + body["out_trade_no"])
            self.assertEqual((refused, problem.get("code")), (422, "idempotency_conflict"), changed)
        self.assertEqual(s.pay(body, key="k-" + body["out_trade_no"]), (status, answer))
        self.assertEqual(s.number("SELECT count(*) FROM oncepay.payment"), payments)
        self.assertEqual(self.posts(provider_key(body["out_trade_no"])), posts)
        self.assertEqual(self.charge(provider_key(body["out_trade_no"]))["amount"], 1000)
        s.assert_books_agree()

    def test_c19_a_replay_has_the_very_body_of_the_first_request(self):
        """The PSP compares the parameters of a key with those it saw first, and refuses others."""
        s = self.stack
        s.faults([fault("lost_after_commit", times=3), fault("no_webhooks")])
        number, payment, key = self.accepted(
            metadata={"note": "not sent"}, return_url="https://shop.example/back?a=1&b=%C3%A4")
        s.wait_payment(number, "CAPTURED")
        self.assertEqual(self.requests(payment), ["create", "replay", "replay", "replay"])
        self.assertEqual(self.posts(key), 4)
        self.assertEqual(self.evidence(payment)[-1], ("replay", 200, CONFIRMED_SUCCESS))
        self.assertEqual(self.cases(payment), [])  # a mismatch would be one
        kept, computed, count = s.sql(
            "SELECT encode(request_hash, 'hex'), encode(sha256(request_bytes), 'hex'), "
            "count(*) OVER () FROM oncepay.payment_attempt WHERE payment_id = '%s'" % payment)[0]
        self.assertEqual((kept, count), (computed, "1"))
        s.assert_books_agree()


class SameEnd(Case):
    """C08: what follows from a failure does not hang on who found it."""
    FREE = ("payment", "out_trade_no", "version")

    def failed_by_answer(self):
        return self.accepted(method=card(DECLINED))

    def failed_by_replay(self):
        self.stack.faults([fault("lost_after_commit"), fault("no_webhooks")])
        return self.accepted(method=card(DECLINED))

    def failed_by_retrieve(self):
        s = self.stack
        s.faults([fault("pending_then", ms=86400000, result="failed"), fault("no_webhooks")])
        number, payment, key = self.accepted()
        s.wait_attempt(number, "PROCESSING")
        self.psp_ends(key, "failed", code="insufficient_funds")
        return number, payment, key

    def failed_by_webhook(self):
        s = self.stack
        s.faults([fault("lost_after_commit", times=ALWAYS), fault("no_webhooks")])
        number, payment, key = self.accepted(method=card(DECLINED))
        s.wait_attempt(number, "UNKNOWN")
        self.psp_says("payment_failed", key, code="insufficient_funds")
        return number, payment, key

    def failed_by_event_after_retrieves(self):
        """The webhook names an object that look-ups could not read: still the same end."""
        s = self.stack
        s.faults([fault("lost_after_commit", times=ALWAYS), fault("get_403"), fault("no_webhooks")])
        number, payment, key = self.accepted(method=card(DECLINED))
        s.wait_attempt(number, "UNKNOWN")
        (row,) = [row for row in s.ledger() if row["key"] == key]
        self.assertEqual(self.post_event(event_text(
            "payment_intent.payment_failed", row["object"], "requires_payment_method", key,
            received=0, last_payment_error={"type": "card_error", "code": "card_declined",
                                            "decline_code": "insufficient_funds"})), 200)
        return number, payment, key

    def test_c08_the_same_failure_has_the_same_event_whoever_found_it(self):
        s = self.stack
        told, sources, pointers = {}, {}, {}
        for finder in (self.failed_by_answer, self.failed_by_replay, self.failed_by_retrieve,
                       self.failed_by_webhook, self.failed_by_event_after_retrieves):
            s.faults([])
            number, payment, key = finder()
            name = finder.__name__
            s.wait_payment(number, "FAILED")
            self.assertEqual(s.charges(key), [])
            told[name] = self.event(payment, "payment.failed")
            for field in self.FREE:
                self.assertIn(field, told[name])
                del told[name][field]
            sources[name] = self.proof(payment)
            pointers[name] = s.sql("SELECT hold FROM oncepay.active_payment WHERE payment_id = '%s'"
                                   % payment)
            wait_for("nothing is left to do", lambda: self.task(payment) is None or
                     self.task(payment)["status"] == "RESOLVED")
        self.assertEqual(list(sources.values()),
                         ["answer", "replay", "retrieve", "webhook", "webhook"])
        first = told["failed_by_answer"]
        self.assertEqual((first["status"], first["certainty"], first["reason"],
                          first["safe_to_pay_again"]),
                         ("failed", "DEFINITE_FAILURE", "insufficient_funds", True))
        for name, event in told.items():
            self.assertEqual(event, first, name)
            self.assertEqual(pointers[name], [[None]], name)  # and the same freedom to pay again
        s.assert_books_agree()


if __name__ == "__main__":
    main()
