"""Cases about what a PSP tells by itself: who may tell, what is kept until it fits, what
contradicts what is final, and what does not agree in amount. None of it moves a final status.
"""
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from case import (  # noqa: E402
    ACCOUNT, ALWAYS, Case, card, event_text, fault, main, provider_key, sign, wait_for)

CONFIRMED_SUCCESS = 5
DECLINED = "pm_card_chargeDeclined"
SILENCE = [fault("lost_after_commit", times=ALWAYS), fault("no_webhooks")]


class Signatures(Case):
    """C30, C29: the bytes as they came, in constant time, old and new secret, in time."""
    OLD = "whsec_sim_stripe-backup"  # any other secret in a file will do as the one before
    edits = (("    webhook_secret_file: secrets/dev-stripe-main-webhook.txt\n",
              "    webhook_secret_file: secrets/dev-stripe-main-webhook.txt\n"
              "    webhook_secret_old_file: secrets/dev-stripe-backup-webhook.txt\n"),)

    def make(self):
        return event_text("payment_intent.succeeded", "pi_nobody", "succeeded", "op_nobody")

    def kept(self, body):
        return self.stack.number("SELECT count(*) FROM oncepay.webhook_inbox WHERE event_id = '%s'"
                                 % json.loads(body)["id"])

    def test_c30_raw_bytes_pass_and_the_same_json_in_other_bytes_does_not(self):
        body = self.make()
        document = json.loads(body)
        signature = sign(body)
        for other in (json.dumps(document, sort_keys=True), json.dumps(document, indent=1),
                      json.dumps(document, separators=(",", ":")), body.decode() + "\n"):
            self.assertNotEqual(other.encode(), body)
            self.assertEqual(json.loads(other), document)
            self.assertEqual(self.post_event(other.encode(), signature), 401, other)
        self.assertEqual(self.kept(body), 0)
        self.assertEqual(self.post_event(body, signature), 200)
        self.assertEqual(self.kept(body), 1)

    def test_c30_old_and_new_secret_pass_while_a_rotation_lasts(self):
        for secrets, status in ((["whsec_sim_" + ACCOUNT], 200), ([self.OLD], 200),
                                (["whsec_other", self.OLD], 200), (["whsec_other"], 401)):
            body = self.make()
            now = int(time.time())
            signatures = [sign(body, now, secret).split(",")[1] for secret in secrets]
            self.assertEqual(self.post_event(body, ",".join(["t=%d" % now] + signatures)), status)
            self.assertEqual(self.kept(body), 1 if status == 200 else 0)

    def test_c29_a_timestamp_is_needed_and_ages(self):
        now = int(time.time())
        for at, status in ((now - 600, 401), (now + 600, 401), (now - 200, 200)):
            body = self.make()
            self.assertEqual(self.post_event(body, sign(body, at)), status, at)
        body = self.make()
        signature = sign(body)
        for bad in ("", signature.split(",")[1], signature.split(",")[0], "t=,v1=", "nonsense",
                    signature.replace("t=", "t=1")):
            self.assertEqual(self.post_event(body, bad), 401, bad)
        self.assertEqual(self.kept(body), 0)

    def test_c29_an_event_that_comes_again_is_one_event(self):
        body = self.make()
        self.assertEqual([self.post_event(body) for _ in range(4)], [200] * 4)
        self.assertEqual(self.kept(body), 1)

    def test_an_account_has_its_own_secret_and_unknown_accounts_none(self):
        body = self.make()
        self.assertEqual(self.post_event(body, sign(body), "stripe-backup"), 401)
        self.assertEqual(self.post_event(body, sign(body), "nobody"), 404)
        self.assertEqual(self.kept(body), 0)


class Early(Case):
    """C26: an event that nobody matches is kept, and matched when there is somebody."""

    def test_c26_an_event_before_the_attempt_is_parked_then_matched_and_charges_once(self):
        """A database that lost its last commits: the PSP knows a payment that we are yet to make.
        The key is the same again, so the event finds it, and nobody sends a create for it."""
        s = self.stack
        body = s.request()
        key = provider_key(body["out_trade_no"])
        s.stop("create")
        event = self.psp_charges("pi_early", key, key=key)
        self.wait_parked(event)
        number, payment, _ = self.accepted(body)
        s.wait_payment(number, "CAPTURED")
        self.assertEqual(self.requests(payment), ["retrieve"])  # the event was a hint only
        self.wait_cases(payment, [("unrecorded_send", "open", 2)])
        self.assertEqual(s.value("SELECT payment_id FROM oncepay.webhook_inbox "
                                 "WHERE event_id = '%s'" % event), payment)
        s.start("create")
        after, _, _ = self.accepted()
        s.wait_payment(after, "CAPTURED")
        self.assertEqual(self.posts(key), 0)
        self.assertEqual(self.charge(key)["object"], "pi_early")
        s.assert_books_agree()

    def looks(self, event):
        return self.stack.number("SELECT coalesce(max(looks), 0) FROM oncepay.webhook_inbox "
                                 "WHERE event_id = '%s'" % event)

    def wait_parked(self, event):
        wait_for("%s is parked" % event, lambda: self.looks(event) >= 1)
        self.assertIsNone(self.stack.value("SELECT processed_at FROM oncepay.webhook_inbox "
                                           "WHERE event_id = '%s'" % event))

    def test_c26_an_event_that_matches_nobody_stays_parked(self):
        body = event_text("payment_intent.succeeded", "pi_unknown", "succeeded", "op_unknown")
        self.assertEqual(self.post_event(body), 200)
        event = json.loads(body)["id"]
        self.wait_parked(event)
        wait_for("it was looked at three times", lambda: self.looks(event) >= 3, 60)
        self.assertEqual(self.stack.sql(
            "SELECT processed_at, payment_id, look_at > now() - interval '1 minute' "
            "FROM oncepay.webhook_inbox WHERE event_id = '%s'" % event), [[None, None, "t"]])

    def test_c26_events_wait_while_recover_is_away(self):
        s = self.stack
        s.stop("recover")
        s.faults([fault("lost_after_commit", times=ALWAYS)])
        bodies = [s.request() for _ in range(5)]
        for body in bodies:
            self.accepted(body)
        keys = [provider_key(body["out_trade_no"]) for body in bodies]
        wait_for("all events are kept", lambda: s.number(
            "SELECT count(*) FROM oncepay.webhook_inbox WHERE processed_at IS NULL "
            "AND reference IN ('%s')" % "','".join(keys)) == 5)
        s.start("recover")
        for body in bodies:
            s.wait_payment(body["out_trade_no"], "CAPTURED")
        for key in keys:
            self.charge(key)
        s.assert_books_agree()


class Contradiction(Case):
    """Evidence against what is final: kept, told, looked into; the status stays (protocol D)."""

    def stand(self, number):
        return (self.stack.payment(number), self.stack.attempts(number))

    def settled(self, payment, count):
        """Waits until this many events about the payment have been made evidence."""
        wait_for("%d events are evidence" % count,
                 lambda: len(self.evidence(payment, "webhook")) >= count)

    def test_c24_a_failure_after_the_success_is_a_case_and_one_retrieve(self):
        s = self.stack
        s.faults([fault("no_webhooks")])
        number, payment, key = self.accepted()
        s.wait_payment(number, "CAPTURED")
        before = self.stand(number)
        self.psp_says("payment_failed", key, created_offset_s=60)
        self.wait_cases(payment, [("evidence_conflict", "open", 2)])
        wait_for("one look", lambda: self.requests(payment) == ["create", "retrieve"])
        self.wait_task(payment, "RESOLVED")
        self.assertEqual(self.stand(number), before)
        self.assertEqual(self.statuses(payment), [10, 20, 50])
        self.assertEqual(s.events(payment), ["payment.accepted", "payment.succeeded"])
        self.assertEqual(self.evidence(payment)[-1][:2], ("retrieve", 200))
        self.assertEqual(self.case_events(payment), ["case.opened"])
        self.charge(key)
        s.verify()

    def test_c24_a_failure_dated_before_the_success_is_evidence_only(self):
        s = self.stack
        s.faults(SILENCE)
        number, payment, key = self.accepted()
        s.wait_attempt(number, "UNKNOWN")
        self.psp_says("succeeded", key)
        s.wait_payment(number, "CAPTURED")
        sent = self.requests(payment)
        before = self.stand(number)
        self.psp_says("payment_failed", key, created_offset_s=-120)
        self.settled(payment, 2)
        self.psp_says("processing", key, created_offset_s=60)
        self.settled(payment, 3)
        self.assertEqual(self.stand(number), before)
        self.assertEqual((self.cases(payment), self.requests(payment)), ([], sent))
        self.charge(key)
        s.verify()

    def declined(self, target=None):
        """A payment that failed while its object can still be paid (a hostile PSP)."""
        s = self.stack
        s.faults([fault("declined_stays_payable")])
        fields = {"target": target} if target else {}
        body = s.request(method=card(DECLINED), **fields)
        number, payment, key = self.accepted(body)
        s.wait_payment(number, "FAILED")
        wait_for("its event is evidence", lambda: self.evidence(payment, "webhook"))
        return body, payment, key

    def pay_late(self, key):
        """The customer pays the declined object after all; the PSP tells us."""
        self.psp_ends(key, "succeeded")

    def test_a_success_on_a_failed_attempt_is_a_stray_fact_and_holds_the_target(self):
        s = self.stack
        body, payment, key = self.declined()
        number = body["out_trade_no"]
        before, attempts = self.stand(number)
        self.pay_late(key)
        self.wait_cases(payment, [("stray_fact", "open", 2)])
        self.assertEqual(self.strays(payment), [("late_success", 1099, "EUR")])
        after = s.payment(number)
        self.assertEqual((after["status"], after["version"]), ("FAILED", before["version"] + 1))
        self.assertEqual(s.attempts(number), attempts)
        self.assertEqual(s.events(payment),
                         ["payment.accepted", "payment.failed", "payment.late_success"])
        told = self.event(payment, "payment.late_success")
        self.assertEqual((told["status"], told["safe_to_pay_again"], told["hold"]),
                         ("failed", False, "stray_fact"))
        self.assertEqual(self.hold(body["target"]), "stray_fact")
        status, answer = s.pay(s.request(target=body["target"]))
        self.assertEqual((status, answer.get("code")), (409, "target_held"))
        self.psp_says("succeeded", key)  # once more, as another event: no second fact
        self.settled(payment, 3)
        self.assertEqual((s.payment(number), self.strays(payment)),
                         (after, [("late_success", 1099, "EUR")]))
        s.verify()

    def test_a_success_on_a_failed_attempt_stops_what_its_target_has_not_sent(self):
        s = self.stack
        body, payment, key = self.declined()
        s.stop("create")
        number, second, second_key = self.accepted(target=body["target"])
        s.wait_attempt(number, "CREATED")
        self.pay_late(key)
        s.wait_payment(number, "FAILED")
        self.assertEqual(s.attempts(number)[0]["status"], "FAILED")
        told = self.event(second, "payment.failed")
        self.assertEqual((told["reason"], told["certainty"], told["safe_to_pay_again"]),
                         ("target_held", "NO_SIDE_EFFECT", False))
        s.start("create")
        other, _, _ = self.accepted()
        s.wait_payment(other, "CAPTURED")
        self.assertEqual(self.posts(second_key), 0)
        self.assertEqual(self.strays(payment), [("late_success", 1099, "EUR")])
        s.verify()

    def test_a_late_success_beside_a_captured_payment_is_a_double_success(self):
        s = self.stack
        body, payment, key = self.declined()
        s.faults([])
        number, second, second_key = self.accepted(target=body["target"])
        kept = s.wait_payment(number, "CAPTURED")
        self.pay_late(key)
        self.wait_cases(payment, [("stray_fact", "open", 2)])
        self.assertEqual(self.strays(payment), [("second_success", 1099, "EUR")])
        self.assertEqual(s.events(payment),
                         ["payment.accepted", "payment.failed", "payment.double_success"])
        self.assertEqual((s.payment(number), self.cases(second)), (kept, []))
        self.assertEqual(s.payment(body["out_trade_no"])["status"], "FAILED")
        self.assertEqual(self.hold(body["target"]), "stray_fact")
        self.assertEqual((len(s.charges(key)), len(s.charges(second_key))), (1, 1))
        s.verify()

    def test_an_answer_of_success_after_an_event_of_failure_is_a_late_success(self):
        """The PSP contradicts itself while its answer is on the way: create has the stray fact."""
        s = self.stack
        s.faults([fault("answer_delay_ms", ms=1500), fault("no_webhooks")])
        number, payment, key = self.accepted()
        wait_for("the PSP has charged", lambda: s.charges(key))
        self.psp_says("payment_failed", key)
        s.wait_payment(number, "FAILED")
        self.wait_cases(payment, [("stray_fact", "open", 2)])
        self.assertEqual(self.strays(payment), [("late_success", 1099, "EUR")])
        self.assertEqual(self.evidence(payment, "answer"), [("answer", 200, CONFIRMED_SUCCESS)])
        self.assertEqual(s.events(payment),
                         ["payment.accepted", "payment.failed", "payment.late_success"])
        self.assertEqual(self.statuses(payment), [10, 20, 60])
        wait_for("its fence is gone", lambda: s.number(
            "SELECT count(*) FROM oncepay.fence_batch WHERE '%s' = ANY (attempts)"
            % s.attempts(number)[0]["id"]) == 0)
        s.verify()

    def test_a_second_object_that_succeeds_under_one_reference_is_a_double_success(self):
        s = self.stack
        number, payment, key = self.accepted()
        s.wait_payment(number, "CAPTURED")
        before = s.attempts(number)
        self.psp_charges("pi_second", key)
        self.wait_cases(payment, [("stray_fact", "open", 2)])
        self.assertEqual(self.strays(payment), [("second_success", 1099, "EUR")])
        self.assertEqual(s.events(payment),
                         ["payment.accepted", "payment.succeeded", "payment.double_success"])
        self.assertEqual(s.payment(number)["captured"], 1099)
        self.assertEqual(s.attempts(number), before)
        s.verify()


class Mismatch(Case):
    """B5: success of another amount, currency or reference is no success; only people go on."""
    delays = "300ms, 300ms, 500ms, 500ms"

    def check_stopped(self, number, payment, key, word):
        s = self.stack
        wait_for("it is told", lambda: "payment.amount_mismatch" in s.events(payment))
        self.wait_task(payment, "ESCALATED")
        self.assertIn(("amount_mismatch", "open", 1), self.cases(payment))
        wait_for("nothing will be looked up by itself", lambda: s.value(
            "SELECT due_at = 'infinity' FROM oncepay.recovery_task WHERE payment_id = '%s' "
            "AND status <> 50" % payment) == "t")
        told = self.event(payment, "payment.amount_mismatch")
        self.assertEqual((told["status"], told["certainty"], told["reason"], told["captured"],
                          told["safe_to_pay_again"]), ("processing", "UNKNOWN", word, 0, False))
        sent, events = self.requests(payment), len(self.evidence(payment))
        attempt = s.attempts(number)[0]
        self.assertEqual(attempt["status"], "UNKNOWN")
        s.faults([])
        self.psp_says("succeeded", key, amount=1099, currency="eur", metadata={"reference": key})
        wait_for("a right event is evidence", lambda: len(self.evidence(payment)) > events)
        self.assertEqual(s.attempts(number)[0], attempt)  # … and decides nothing any more
        self.assertEqual(self.requests(payment), sent)
        self.assertEqual(s.payment(number)["status"], "AUTHORIZING")
        self.assertEqual(s.events(payment).count("payment.amount_mismatch"), 1)
        self.assertNotIn("payment.succeeded", s.events(payment))
        self.assertNotIn("payment.failed", s.events(payment))
        s.verify()

    def open_unknown(self):
        self.stack.faults(SILENCE)
        number, payment, key = self.accepted()
        self.stack.wait_attempt(number, "UNKNOWN")
        return number, payment, key

    def test_by_webhook_with_another_amount(self):
        number, payment, key = self.open_unknown()
        self.psp_says("succeeded", key, amount=999)
        self.check_stopped(number, payment, key, "amount_mismatch")

    def test_by_webhook_with_another_currency(self):
        number, payment, key = self.open_unknown()
        self.psp_says("succeeded", key, currency="usd")
        self.check_stopped(number, payment, key, "currency_mismatch")

    def test_by_the_answer(self):
        self.stack.faults([fault("wrong_echo", amount=109900), fault("no_webhooks")])
        number, payment, key = self.accepted()
        self.check_stopped(number, payment, key, "amount_mismatch")

    def test_by_the_answer_with_somebody_elses_reference(self):
        self.stack.faults([fault("wrong_echo", reference="op_somebody"), fault("no_webhooks")])
        number, payment, key = self.accepted()
        self.check_stopped(number, payment, key, "reference_mismatch")

    def test_by_retrieve(self):
        s = self.stack
        s.faults(SILENCE + [fault("wrong_echo", amount=1)])
        number, payment, key = self.accepted()
        s.wait_attempt(number, "UNKNOWN")
        (row,) = [row for row in s.ledger() if row["key"] == key]
        self.assertEqual(self.post_event(event_text(
            "payment_intent.succeeded", row["object"], "succeeded", key, received=None)), 200)
        wait_for("a retrieve saw it", lambda: self.evidence(payment, "retrieve"))
        self.check_stopped(number, payment, key, "amount_mismatch")


if __name__ == "__main__":
    main()
