"""Cases about not knowing: time, missing answers and refused look-ups prove nothing; what is
unknown is said plainly, ends with evidence, and until then is a person's work, never a failure. One
create request is one POST.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from case import (  # noqa: E402
    ALWAYS, Case, event_text, fault, main, provider_key, wait_for)

SILENCE = [fault("lost_after_commit", times=ALWAYS), fault("no_webhooks")]


class OutOfStrategies(Case):
    """Few and short delays: a task is out of strategies after two seconds."""
    delays = "300ms, 300ms, 500ms, 500ms"

    def open_unknown(self):
        """A payment that was charged, of which we heard nothing. (payment, key, out_trade_no)."""
        self.stack.faults(SILENCE)
        number, payment, key = self.accepted()
        self.stack.wait_attempt(number, "UNKNOWN")
        return payment, key, number

    def tell_object(self, payment, key):
        """An event without an amount: it gives away the object's id and decides nothing."""
        self.assertEqual(self.post_event(event_text(
            "payment_intent.succeeded", self.charge(key)["object"], "succeeded", key,
            received=None)), 200)
        wait_for("the object is known", lambda: self.stack.value(
            "SELECT provider_payment_id FROM oncepay.payment_attempt WHERE payment_id = '%s'"
            % payment) is not None)

    def check_closed(self, payment, number):
        """The end as everybody sees it: once, with the case closed and nothing left to do."""
        s = self.stack
        s.wait_payment(number, "CAPTURED")
        self.assertEqual(s.events(payment),
                         ["payment.accepted", "payment.unknown", "payment.succeeded"])
        self.wait_cases(payment, [("unknown", "closed", 3)])
        self.assertEqual(self.case_events(payment), ["case.closed", "case.opened"])
        self.wait_task(payment, "RESOLVED")
        self.charge(provider_key(number))
        s.assert_books_agree()

    def check_escalated(self, payment, number):
        """Out of strategies: a case, and not one word of failure."""
        s = self.stack
        self.wait_task(payment, "ESCALATED")
        self.wait_cases(payment, [("unknown", "open", 3)])
        attempt = s.attempts(number)[0]
        self.assertEqual((attempt["status"], s.payment(number)["status"]),
                         ("UNKNOWN", "AUTHORIZING"))
        self.assertEqual(s.events(payment), ["payment.accepted", "payment.unknown"])
        s.verify()
        return attempt

    def test_c01_out_of_polls_is_not_evidence_and_a_late_webhook_ends_it(self):
        s = self.stack
        payment, key, number = self.open_unknown()
        self.check_escalated(payment, number)
        sent = self.requests(payment)
        self.assertEqual(sent, ["create"] + ["replay"] * (len(sent) - 1))
        self.assertGreater(len(sent), 2)
        step = self.task(payment)["step"]
        wait_for("two more delays passed", lambda: self.task(payment)["step"] >= step + 2)
        self.assertEqual(self.requests(payment), sent)  # an escalated task sends nothing
        s.faults([])
        self.psp_says("succeeded", key)
        self.check_closed(payment, number)
        self.assertEqual(self.requests(payment), sent)

    def look_ups_fail(self, action, http_status):
        """However often the look-up fails in this way, nothing moves; a good one then ends it."""
        s = self.stack
        payment, key, number = self.open_unknown()
        s.faults(SILENCE + [fault(action)])
        self.tell_object(payment, key)
        version = s.attempts(number)[0]["version"]
        wait_for("five look-ups failed", lambda: len([
            seen for seen in self.evidence(payment) if seen[1] == http_status]) >= 5)
        attempt = self.check_escalated(payment, number)
        self.assertEqual(attempt["version"], version)  # no transition by any of them
        self.assertEqual({proves for _, status, proves in self.evidence(payment)
                          if status == http_status}, {None})
        return payment, number

    def test_c01_look_ups_that_find_nothing_decide_nothing(self):
        payment, number = self.look_ups_fail("get_404", 404)
        self.stack.faults([])
        self.check_closed(payment, number)  # look-ups go on at the last delay, escalated or not
        self.assertEqual(self.requests(payment)[-1], "retrieve")

    def test_c04_a_refused_look_up_never_decides_and_is_told(self):
        payment, number = self.look_ups_fail("get_403", 403)
        attempt = self.stack.attempts(number)[0]["id"]
        alarms = [line for line in self.log_lines("recover")
                  if line.get("attempt") == attempt and line.get("alarm") == "psp_auth"]
        self.assertGreaterEqual(len(alarms), 5)
        counted = [line for line in self.metrics("recover") if 'class="request"' in line
                   and line.startswith("oncepay_attempt_results_total{")]
        self.assertEqual(len(counted), 1)
        self.assertGreaterEqual(int(counted[0].split()[-1]), 5)
        self.stack.faults([])
        self.check_closed(payment, number)


class Doubt(Case):
    """What a first answer leaves open, and what closes it."""

    def check_unknown(self, payment, number):
        """Everybody hears that it is not known, when it will be looked up, and not to pay again."""
        s = self.stack
        s.wait_attempt(number, "UNKNOWN")
        wait_for("the doubt is told", lambda: "payment.unknown" in s.events(payment))
        told = self.event(payment, "payment.unknown")
        self.assertEqual((told["status"], told["certainty"], told["safe_to_pay_again"]),
                         ("processing", "UNKNOWN", False))
        self.assertTrue(told["reason"])
        self.assertIsNotNone(told["next_check_at"])

    def check_captured(self, payment, number, source):
        s = self.stack
        s.wait_payment(number, "CAPTURED")
        self.assertEqual(s.events(payment),
                         ["payment.accepted", "payment.unknown", "payment.succeeded"])
        self.assertEqual(self.proof(payment), source)
        self.charge(provider_key(number))
        s.assert_books_agree()

    def test_c02_charged_and_answered_502_by_a_proxy_is_unknown_until_the_webhook(self):
        s = self.stack
        s.faults([fault("error_5xx_after", times=ALWAYS, status=502, stored=False),
                  fault("no_webhooks")])
        number, payment, key = self.accepted()
        self.check_unknown(payment, number)
        self.psp_says("succeeded", key)
        self.check_captured(payment, number, "webhook")

    def test_c02_a_stored_500_stops_the_replays_and_the_webhook_ends_it(self):
        s = self.stack
        s.faults([fault("error_5xx_after"), fault("no_webhooks")])
        number, payment, key = self.accepted()
        self.check_unknown(payment, number)
        wait_for("the stored error is known as one", lambda: self.task(payment)["stored_error"])
        sent = self.requests(payment)
        self.assertEqual(sent, ["create", "replay"])
        step = self.task(payment)["step"]
        wait_for("two more looks at the clock", lambda: self.task(payment)["step"] >= step + 2)
        self.assertEqual(self.requests(payment), sent)  # C16: it only waits for the webhook now
        self.psp_says("succeeded", key)
        self.check_captured(payment, number, "webhook")

    def test_c02_a_stored_500_closes_by_retrieve_once_an_event_gave_the_object(self):
        s = self.stack
        s.faults([fault("error_5xx_after"), fault("no_webhooks")])
        number, payment, key = self.accepted()
        self.check_unknown(payment, number)
        self.assertEqual(self.post_event(event_text(
            "payment_intent.succeeded", self.charge(key)["object"], "succeeded", key,
            received=None)), 200)
        self.check_captured(payment, number, "retrieve")

    def test_c18_a_409_in_progress_is_no_failure(self):
        s = self.stack
        s.faults([fault("in_progress_409", times=2), fault("no_webhooks")])
        number, payment, key = self.accepted()
        self.check_unknown(payment, number)
        self.check_captured(payment, number, "replay")
        self.assertEqual([seen[1] for seen in self.evidence(payment)], [409, 409, 200])
        self.assertEqual(self.posts(key), 3)

    def test_c18_a_first_request_that_is_still_running_answers_409_to_the_replay(self):
        """The call limit ends before the PSP does; the replay meets its own first request."""
        s = self.stack
        s.faults([fault("delay_ms", ms=6000), fault("no_webhooks")])
        number, payment, key = self.accepted()
        self.check_unknown(payment, number)
        self.check_captured(payment, number, "replay")
        statuses = [seen[1] for seen in self.evidence(payment)]
        self.assertEqual((statuses[0], statuses[-1]), (None, 200))
        self.assertIn(409, statuses)
        self.assertEqual(self.posts(key), len(self.requests(payment)))

    def test_a_pending_payment_is_looked_up_until_it_ends(self):
        s = self.stack
        s.faults([fault("pending_then", ms=86400000, result="succeeded"), fault("no_webhooks")])
        number, payment, key = self.accepted()
        s.wait_attempt(number, "PROCESSING")
        wait_for("two look-ups", lambda: self.requests(payment).count("retrieve") >= 2)
        self.psp_ends(key, "succeeded")
        s.wait_payment(number, "CAPTURED")
        self.assertEqual(s.events(payment),
                         ["payment.accepted", "payment.processing", "payment.succeeded"])
        s.assert_books_agree()


class Patient(Case):
    """The next look of its own is a minute away: what comes sooner came by a hint."""
    delays = "60s, 60s"

    def test_an_event_that_decides_nothing_makes_the_look_up_due_now(self):
        s = self.stack
        s.faults([fault("lost_after_commit"), fault("no_webhooks")])
        number, payment, key = self.accepted()
        s.wait_attempt(number, "UNKNOWN")
        self.assertEqual(self.post_event(event_text(
            "payment_intent.succeeded", self.charge(key)["object"], "succeeded", key,
            received=None)), 200)
        s.wait_payment(number, "CAPTURED", 30)
        self.assertEqual(self.requests(payment), ["create", "retrieve"])
        s.assert_books_agree()


class OneRequestOnePost(Case):
    """C21: nobody between us and the PSP sends a second time."""

    def test_c21_charged_and_500_one_post_until_recovery_decides(self):
        s = self.stack
        s.stop("recover")
        s.faults([fault("error_5xx_after"), fault("no_webhooks")])
        number, payment, key = self.accepted()
        s.wait_attempt(number, "UNKNOWN")
        self.assertEqual((self.posts(key), self.requests(payment)), (1, ["create"]))
        s.start("recover")
        wait_for("the replay was sent", lambda: self.requests(payment) == ["create", "replay"])
        wait_for("its POST arrived", lambda: self.posts(key) == 2)
        self.psp_says("succeeded", key)
        s.wait_payment(number, "CAPTURED")
        self.assertEqual(self.posts(key), len(self.requests(payment)))
        s.assert_books_agree()

    def test_c21_posts_equal_request_rows_on_dying_kept_alive_connections(self):
        """Resets, closed and half answers on connections in use: the transport repeats nothing."""
        s = self.stack
        warm = [self.accepted() for _ in range(8)]
        for number, _, _ in warm:
            s.wait_payment(number, "CAPTURED")
        s.faults([fault("reset", match={"amount": 1001}),
                  fault("half_body", match={"amount": 1002}),
                  fault("lost_after_commit", match={"amount": 1003}),
                  fault("drop_before", match={"amount": 1004}), fault("no_webhooks")])
        bodies = [s.request(amount=1001 + i % 5) for i in range(60)]
        for body in bodies:
            s.publish(body)
        for body in bodies:
            s.wait_payment(body["out_trade_no"], "CAPTURED")
        rows = s.sql("SELECT a.provider_key, count(*) FROM oncepay.attempt_request r "
                     "JOIN oncepay.payment_attempt a ON a.id = r.attempt_id "
                     "WHERE r.kind IN (1, 2) AND NOT EXISTS (SELECT FROM oncepay.evidence e WHERE "
                     "e.payment_id = r.payment_id AND e.request_id = r.id AND e.phase <= 2) "
                     "GROUP BY 1")
        sent = {key: int(count) for key, count in rows}
        seen = {entry["key"]: entry["posts"] for entry in s.sim("/_sim/requests")["keys"]}
        for body in bodies:
            key = provider_key(body["out_trade_no"])
            self.assertEqual(seen[key], sent[key], body)
        s.assert_books_agree()


if __name__ == "__main__":
    main()
