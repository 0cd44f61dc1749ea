"""Cases about who comes first: answers, events and recoverers race, stale writers wake up late, and
the end is the same in every order."""
import os
import sys
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from case import Case, card, fault, main, provider_key, wait_for  # noqa: E402
from msgpack import pack  # noqa: E402

QUICK = "100ms, 100ms, 200ms, 200ms, 300ms, 500ms, 1s, 1s"


class Interleaved(Case):
    """C27: a writer with a stale picture loses its compare-and-set, looks again, and takes nothing
    back. Every payment has an amount of its own, and each amount another order of things."""
    delays = QUICK

    def race(self, rules_of, count):
        """Pays count amounts at once, each under its own rules: [(out_trade_no, i)]."""
        s = self.stack
        rules = []
        for i in range(count):
            rules += [dict(rule, match={"amount": 5000 + i}) for rule in rules_of(i)]
        s.faults(rules)
        bodies = [s.request(amount=5000 + i) for i in range(count)]
        for body in bodies:
            s.publish(body)
        return [(body["out_trade_no"], i) for i, body in enumerate(bodies)]

    def check_no_way_back(self):
        """Nothing follows a final status, each version is one step, and every end is told once."""
        s = self.stack
        self.assertEqual(s.sql("SELECT id, version FROM oncepay.state_history WHERE entity = 2 "
                               "AND from_status IN (50, 60)"), [])
        self.assertEqual(s.sql("SELECT id, version FROM oncepay.state_history WHERE entity = 1 "
                               "AND from_status IN (50, 90) AND to_status <> from_status"), [])
        self.assertEqual(s.sql(
            "SELECT payment_id, count(*) FROM oncepay.outbox WHERE kind = 2 AND "
            "(subject LIKE '%.payment.succeeded' OR subject LIKE '%.payment.failed') "
            "GROUP BY 1 HAVING count(*) <> 1"), [])
        self.assertEqual(s.sql("SELECT kind, reason FROM oncepay.manual_case"), [])
        s.assert_books_agree()

    def wait_events_used(self):
        """Every webhook has been made evidence: the last writers have written."""
        wait_for("no webhook waits at the PSP", lambda: self.stack.sim("/_sim/health")
                 ["webhooks"]["waiting"] == 0)
        wait_for("no event waits here", lambda: self.stack.number(
            "SELECT count(*) FROM oncepay.webhook_inbox WHERE processed_at IS NULL") == 0)
        wait_for("no task is open", lambda: self.stack.number(
            "SELECT count(*) FROM oncepay.recovery_task WHERE status <> 50") == 0)
        wait_for("no fence stands", lambda: self.stack.number(
            "SELECT count(*) FROM oncepay.fence_batch") == 0)

    def test_c27_answer_webhook_and_recovery_race_in_a_hundred_orders(self):
        s = self.stack

        def rules_of(i):
            rules = [fault("answer_delay_ms", ms=1 + i % 5 * 60),
                     fault("webhook_delay_ms", ms=i // 5 % 5 * 60)]
            if i % 4 == 1:
                rules.append(fault("lost_after_commit"))
            if i % 4 == 2:
                rules.append(fault("lost_after_commit", times=2))
            if i % 3 == 0:
                rules += [fault("duplicate_webhooks", times=2), fault("reorder_webhooks", ms=100)]
            return rules
        for number, i in self.race(rules_of, 100):
            payment = s.wait_payment(number, "CAPTURED")
            self.assertEqual(payment["captured"], 5000 + i)
            self.charge(provider_key(number))
        self.wait_events_used()
        self.check_no_way_back()
        raced = s.number("SELECT count(*) FROM (SELECT attempt_id FROM oncepay.evidence "
                         "WHERE proves = 5 GROUP BY 1 HAVING count(DISTINCT source) > 1) AS seen")
        self.assertGreaterEqual(raced, 50)  # of these, more than one had the end in hand
        proofs = s.number("SELECT count(DISTINCT e.source) FROM oncepay.evidence e "
                          "JOIN oncepay.payment_attempt a ON a.evidence_id = e.id "
                          "AND a.payment_id = e.payment_id")
        self.assertGreaterEqual(proofs, 2, "one path won every race: nothing was raced")

    def test_c27_a_stale_pending_answer_never_takes_an_end_back(self):
        """The answer was true when it left and is old when it comes: the end is known meanwhile."""
        s = self.stack

        def ends_well(i):
            return i % 2 == 0

        def rules_of(i):
            return [fault("pending_then", ms=20 + i // 2 % 4 * 80,
                          result="succeeded" if ends_well(i) else "failed"),
                    fault("answer_delay_ms", ms=1 + i // 8 % 5 * 150)]
        for number, i in self.race(rules_of, 60):
            s.wait_payment(number, "CAPTURED" if ends_well(i) else "FAILED")
        self.wait_events_used()
        self.check_no_way_back()
        stale = s.number("SELECT count(*) FROM oncepay.evidence e JOIN oncepay.state_history h "
                         "ON h.payment_id = e.payment_id AND h.entity = 2 AND h.to_status >= 50 "
                         "WHERE e.source = 3 AND e.provider_status = 'processing' "
                         "AND e.created_at > h.at")
        self.assertGreater(stale, 5)  # that many came when all was over

    def test_c27_a_writer_that_stood_still_loses(self):
        """create holds the answer, stands still, and wakes when the webhook has ended it all."""
        s = self.stack
        s.stop("create")
        s.start("create", environment={"ONCEPAY_STOP_AT": "create.after_send_before_result"})
        s.faults([fault("pending_then", ms=100, result="succeeded")])
        number, payment, key = self.accepted()
        wait_for("create stands still", lambda: s.status("create") == "suspended")
        s.wait_payment(number, "CAPTURED")
        attempt, version = s.attempts(number)[0], s.payment(number)["version"]
        s.thaw("create")
        wait_for("its answer is kept, and proves nothing any more",
                 lambda: ("answer", 200, None) in self.evidence(payment, "answer"))
        self.assertEqual((s.attempts(number)[0], s.payment(number)["version"]), (attempt, version))
        after, _, _ = self.accepted()
        s.faults([])
        s.wait_payment(after, "CAPTURED")
        self.charge(key)
        s.assert_books_agree()


class Repeated(Case):
    """Protocol F, H1: a command may come again at any time; done once, it does nothing."""
    delays = QUICK
    KINDS = {"route": 1, "create": 2, "settle": 3, "recover": 5}

    def commands(self, payment):
        """(subject, body) of each command that was ever given for the payment, the last one first."""
        rows = self.stack.sql(
            "SELECT id, subject, entity_id, version FROM oncepay.outbox WHERE kind = 1 AND "
            "(payment_id = '%s' OR entity_id IN (SELECT id FROM oncepay.webhook_inbox "
            "WHERE payment_id = '%s')) ORDER BY id DESC" % (payment, payment))
        return [(subject, pack({"v": 1, "commands": [{
            "o": uuid.UUID(row).bytes, "p": uuid.UUID(payment).bytes, "e": uuid.UUID(entity).bytes,
            "n": int(version), "k": self.KINDS[subject.split(".")[1]]}]}))
                for row, subject, entity, version in rows]

    def test_all_commands_of_ended_payments_again_in_any_order(self):
        s = self.stack
        s.faults([fault("lost_after_commit", match={"amount": 701}),
                  fault("pending_then", ms=200, result="succeeded", match={"amount": 702})])
        ends = {}
        for amount, token, status in ((701, "pm_card_visa", "CAPTURED"),
                                      (702, "pm_card_visa", "CAPTURED"),
                                      (703, "pm_card_visa", "CAPTURED"),
                                      (704, "pm_card_chargeDeclined", "FAILED")):
            number, payment, key = self.accepted(amount=amount, method=card(token))
            s.wait_payment(number, status)
            wait_for("its event is evidence", lambda: self.evidence(payment, "webhook"))
            ends[number] = (payment, key)

        def picture():
            return [(s.payment(number), s.attempts(number), self.posts(key), self.requests(payment),
                     s.events(payment), self.cases(payment), self.strays(payment))
                    for number, (payment, key) in ends.items()]
        before = picture()
        for payment, _ in ends.values():
            commands = self.commands(payment)
            kinds = {subject.split(".")[1] for subject, _ in commands}
            self.assertEqual(kinds, {"route", "create", "settle", "recover"})
            for subject, body in commands + commands[::-1] + commands:
                s.nats.publish(subject, body, {"Content-Type": "application/msgpack"})
        s.nats.flush()
        for stream in ("PAY_ROUTE", "PAY_CREATE", "PAY_SETTLE", "PAY_RECOVER"):
            wait_for("%s is empty" % stream, lambda: s.nats.api(
                "STREAM.INFO." + stream)["state"]["messages"] == 0, 60)
        self.assertEqual(picture(), before)
        self.assertEqual(s.sql("SELECT consumer, code FROM oncepay.dead_letter"), [])
        s.assert_books_agree()


class Leases(Case):
    """C60: the lease that counts is the row's; who wakes after it has run out writes nothing."""
    delays = QUICK

    def setUp(self):
        super().setUp()
        self.stack.start("recover")

    def tearDown(self):
        self.stack.stop("recover#2")

    def stand_still_at(self, point):
        """A payment in doubt, and a recoverer that took its task and stands still at the point."""
        s = self.stack
        s.faults([fault("lost_after_commit"), fault("no_webhooks")])
        s.stop("recover")
        number, payment, key = self.accepted()
        s.wait_attempt(number, "UNKNOWN")
        s.start("recover", environment={"ONCEPAY_STOP_AT": point}, wait=False)
        wait_for("recover stands still", lambda: s.status("recover") == "suspended")
        self.assertEqual(self.task(payment)["status"], "LEASED")
        leased = self.task(payment)["version"]
        s.start("recover#2")
        s.wait_payment(number, "CAPTURED")
        self.wait_task(payment, "RESOLVED")
        self.assertGreater(self.task(payment)["version"], leased + 1)
        return number, payment, key

    def test_c60_paused_before_its_send_it_sends_nothing_any_more(self):
        s = self.stack
        number, payment, key = self.stand_still_at("recover.after_claim")
        self.assertEqual(self.requests(payment), ["create", "replay", "replay"])
        self.assertEqual(self.posts(key), 2)  # the first claim's replay has not left
        task, attempt = self.task(payment), s.attempts(number)
        s.thaw("recover")
        wait_for("it says that it has not sent", lambda: self.evidence(payment, "local"))
        self.assertEqual((self.task(payment), s.attempts(number)), (task, attempt))
        self.assertEqual(self.posts(key), 2)
        self.charge(key)
        s.assert_books_agree()

    def test_c60_paused_after_its_send_its_result_is_rejected_by_version(self):
        s = self.stack
        number, payment, key = self.stand_still_at("recover.before_result")
        self.assertEqual(self.posts(key), 3)
        task, attempt = self.task(payment), s.attempts(number)
        self.assertEqual(len(self.evidence(payment, "replay")), 1)  # the second one's
        s.thaw("recover")
        wait_for("what it saw is kept", lambda: len(self.evidence(payment, "replay")) == 2)
        self.assertEqual((self.task(payment), s.attempts(number)), (task, attempt))
        self.assertEqual(s.events(payment).count("payment.succeeded"), 1)
        self.charge(key)
        s.assert_books_agree()


if __name__ == "__main__":
    main()
