"""The same request many times, in many ways: one payment, one charge, and the first answer byte for byte."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from msgpack import pack  # noqa: E402
from scenario import Scenario, main  # noqa: E402

COPIES = 50
MSGPACK = {"Content-Type": "application/msgpack"}


def status_of(answer):
    return int(answer.headers["pay-status"])


def is_replay(answer):
    return answer.headers.get("idempotent-replayed") == "true"


def with_content(body, **changes):
    return dict(body, **changes)


class Duplicates(Scenario):
    """What must hold whoever eats the requests; run with one intake, with two, and without Redis."""
    together = 20

    def setUp(self):
        self.stack.faults([])

    def at_once(self, requests):
        """Publishes these (body, key) in one burst and returns their answers, in the same order."""
        nats = self.stack.nats
        inboxes = [nats.inbox() for _ in requests]
        sids = [nats.subscribe(inbox) for inbox in inboxes]
        for (body, key), inbox in zip(requests, inboxes):
            self.stack.publish(body, key, reply=inbox)
        answers = [nats.next(sid, 60) for sid in sids]
        nats.flush()
        for sid in sids:
            self.assertEqual(nats.messages(sid), [], "two answers to one request")
        return answers

    def check_paid_once(self, body):
        s = self.stack
        payment = s.wait_payment(body["out_trade_no"], "CAPTURED")
        events = s.events(payment["id"])
        self.assertEqual((events.count("payment.accepted"), events.count("payment.succeeded")), (1, 1))
        attempts = s.attempts(body["out_trade_no"])
        self.assertEqual(len(attempts), 1)
        self.assertEqual(len(s.charges(attempts[0]["key"])), 1)
        return payment

    def test_fifty_copies_at_once(self):
        body = self.stack.request()
        answers = self.at_once([(body, None)] * COPIES)
        self.assertEqual({status_of(a) for a in answers}, {202})
        self.assertEqual(len({a.body for a in answers}), 1)
        self.assertEqual([is_replay(a) for a in answers].count(False), 1, "one is the first")
        payment = self.check_paid_once(body)
        self.assertEqual(answers[0].json()["payment"], payment["id"])
        self.assertEqual(self.keys_of(payment["id"]), 1)
        self.stack.assert_books_agree()

    def test_fifty_keys_for_one_number(self):
        """The business key holds, whatever keys a producer makes up."""
        body = self.stack.request()
        answers = self.at_once([(body, "try-%s-%d" % (body["out_trade_no"], n)) for n in range(COPIES)])
        self.assertEqual({status_of(a) for a in answers}, {202})
        self.assertEqual(len({a.body for a in answers}), 1)
        payment = self.check_paid_once(body)
        self.assertEqual(self.keys_of(payment["id"]), COPIES)
        self.stack.assert_books_agree()

    def test_races_for_one_target(self):
        """Two payments of one order at the same instant: one goes on, the other hears which."""
        pairs = []
        for _ in range(self.together):
            first = self.stack.request()
            pairs.append((first, self.stack.request(target=first["target"])))
        answers = self.at_once([(body, None) for pair in pairs for body in pair])
        for pair, given in zip(pairs, zip(answers[::2], answers[1::2])):
            by_status = {status_of(answer): (body, answer.json()) for body, answer in zip(pair, given)}
            self.assertEqual(set(by_status), {202, 409}, [answer.body for answer in given])
            winner, accepted = by_status[202]
            loser, refused = by_status[409]
            self.assertEqual(refused["code"], "target_busy")
            self.assertEqual(refused["existing"]["payment"], accepted["payment"])
            self.assertEqual(refused["existing"]["out_trade_no"], winner["out_trade_no"])
            self.check_paid_once(winner)
            self.assertIsNone(self.stack.payment(loser["out_trade_no"]), "a refusal claims no number")
        self.stack.assert_books_agree()

    def test_one_key_with_two_contents_at_once(self):
        """Whichever comes first is accepted; the other one conflicts, and nothing happens for it."""
        rounds = []
        for _ in range(self.together):
            body = self.stack.request()
            rounds.append((body, with_content(body, amount=2099)))
        answers = self.at_once([(body, None) for pair in rounds for body in pair])
        for pair, given in zip(rounds, zip(answers[::2], answers[1::2])):
            by_status = {status_of(answer): (body, answer.json()) for body, answer in zip(pair, given)}
            self.assertEqual(set(by_status), {202, 422}, [answer.body for answer in given])
            self.assertEqual(by_status[422][1]["code"], "idempotency_conflict")
            self.assertEqual(by_status[202][1]["amount"], by_status[202][0]["amount"])
            self.check_paid_once(by_status[202][0])
        self.stack.assert_books_agree()

    def keys_of(self, payment):
        return self.stack.number("SELECT count(*) FROM oncepay.idempotency_key WHERE payment_id = '%s'" % payment)


class OneIntake(Duplicates):
    """And what needs no second one."""

    def test_a_replay_after_all_is_forgotten_in_redis(self):
        s = self.stack
        body = s.request()
        first = s.ask(body)
        self.check_paid_once(body)
        for forget in (lambda: None, lambda: s.redis("FLUSHALL")):
            forget()
            again = s.ask(body)
            self.assertEqual((again.body, again.headers["pay-status"]), (first.body, first.headers["pay-status"]))
            self.assertTrue(is_replay(again))
        self.assertEqual(first.json()["status"], "pending")  # the first answer, though it has long been paid

    def test_a_redis_that_lies(self):
        """A forged answer, another key's answer, plain nonsense: none of it gets out."""
        s = self.stack
        bodies = [s.request() for _ in range(2)]
        firsts = [s.ask(body) for body in bodies]
        for body in bodies:
            self.check_paid_once(body)
        s.redis("FLUSHALL")
        for body, first in zip(bodies, firsts):  # and Redis knows these two again, and no others
            self.assertEqual(s.ask(body).body, first.body)
        names = [name for name in s.redis("KEYS", "*").split("\n") if name.startswith("idem:")]
        self.assertEqual(len(names), 2)
        for name in names:
            s.redis("SETRANGE", name, str(int(s.redis("STRLEN", name)) - 9), "forged!!}")
        for body, first in zip(bodies, firsts):
            self.assertEqual(s.ask(body).body, first.body)
        for one, other in (names, names[::-1]):  # both have the one's answer, then both the other's
            self.assertEqual(s.redis("COPY", one, other, "REPLACE"), "1")
            for body, first in zip(bodies, firsts):
                self.assertEqual(s.ask(body).body, first.body)
        for name in s.redis("KEYS", "*").split("\n"):
            s.redis("SET", name, "nonsense")
        for body, first in zip(bodies, firsts):
            self.assertEqual(s.ask(body).body, first.body)
        other = with_content(bodies[0], amount=1)
        self.assertEqual(s.pay(other)[0], 422)
        s.assert_books_agree()

    def test_json_and_messagepack_are_one_request(self):
        s = self.stack
        for first_form, second_form in (("json", "msgpack"), ("msgpack", "json")):
            body = s.request(metadata={"cart": 7, "note": "für dich"})
            first = self.ask_in(first_form, body)
            second = self.ask_in(second_form, body)
            self.assertEqual((second.body, second.headers["content-type"]), (first.body, first.headers["content-type"]))
            self.assertEqual(first.headers["content-type"], "application/" + first_form)
            self.assertTrue(is_replay(second))
            self.check_paid_once(body)

    def ask_in(self, form, body):
        if form == "json":
            return self.stack.ask(body)
        return self.stack.ask(body, headers=MSGPACK, raw=pack(body))

    def test_what_belongs_to_a_request_and_what_does_not(self):
        s = self.stack
        body = s.request(metadata={"a": 100, "b": "x"})
        first = s.ask(body)
        same = [
            json.dumps(dict(reversed(list(body.items()))), indent=4),
            json.dumps(body).replace('"a": 100', '"a": 100.00'),
            json.dumps(with_content(body, return_url="https://shop.example/back", unknown_field=1)),
            json.dumps(with_content(body, expires_at="2099-01-01T00:00:00Z", capture="automatic")),
        ]
        for text in same:
            answer = s.ask(body, raw=text.encode())
            self.assertEqual((answer.body, is_replay(answer)), (first.body, True), text)
        different = [{"amount": 1100}, {"currency": "USD"}, {"target": {"kind": "order", "id": "another"}},
                     {"method": dict(body["method"], token="pm_card_mastercard")}, {"metadata": {"a": 101, "b": "x"}},
                     {"metadata": None}]
        for change in different:
            status, answer = s.pay(with_content(body, **change))
            self.assertEqual((status, answer["code"]), (422, "idempotency_conflict"), change)
        self.assertEqual(s.ask(body).body, first.body)  # a conflict leaves the first answer where it is
        self.check_paid_once(body)

    def test_another_key_for_a_number_that_is_known(self):
        s = self.stack
        body = s.request()
        first = s.ask(body, key="first-" + body["out_trade_no"])
        payment = self.check_paid_once(body)
        same = s.ask(body, key="second-" + body["out_trade_no"])
        self.assertEqual((same.body, status_of(same)), (first.body, 202))
        other = with_content(body, amount=5)
        key = "third-" + body["out_trade_no"]
        refused = s.ask(other, key=key)
        self.assertEqual((status_of(refused), refused.json()["code"]), (400, "out_trade_no_taken"))
        self.assertEqual(refused.json()["existing"]["payment"], payment["id"])
        self.assertEqual(refused.json()["existing"]["status"], "succeeded")  # as it is now
        self.assertEqual(s.ask(other, key=key).body, refused.body)  # that depends on state: it is kept
        s.assert_books_agree()

    def test_numbers_belong_to_their_merchant(self):
        s = self.stack
        mine = s.request()
        theirs = with_content(mine, merchant="m-1002")
        self.assertEqual((s.pay(mine)[0], s.pay(theirs)[0]), (202, 202))
        rows = s.sql("SELECT count(*) FROM oncepay.payment WHERE out_trade_no = '%s'" % mine["out_trade_no"])
        self.assertEqual(rows, [["2"]])
        s.wait_quiet()
        s.assert_books_agree()

    def test_a_busy_target(self):
        """Refused while the other one runs; the refusal stays under its key; afterwards a new try is a new one."""
        s = self.stack
        s.faults([{"action": "pending_then", "ms": 3000, "result": "failed"}])
        running = s.request()
        s.pay(running)
        payment = s.wait_attempt(running["out_trade_no"], "PROCESSING")
        self.assertTrue(payment)
        second = s.request(target=running["target"])
        refused = s.ask(second)
        self.assertEqual((status_of(refused), refused.json()["code"]), (409, "target_busy"))
        self.assertEqual(refused.json()["existing"]["out_trade_no"], running["out_trade_no"])
        s.faults([])
        s.wait_payment(running["out_trade_no"], "FAILED")
        self.assertEqual(s.ask(second).body, refused.body)
        self.assertEqual(s.ask(second, key="again-" + second["out_trade_no"]).headers["pay-status"], "202")
        self.check_paid_once(second)
        third = s.request(target=running["target"])  # a captured one keeps its target
        status, answer = s.pay(third)
        self.assertEqual((status, answer["code"], answer["existing"]["status"]), (409, "target_busy", "succeeded"))
        s.assert_books_agree()

    def test_no_target_no_barrier(self):
        s = self.stack
        bodies = [s.request(target={"kind": "none"}) for _ in range(5)]
        self.assertEqual([status_of(a) for a in self.at_once([(body, None) for body in bodies])], [202] * 5)
        for body in bodies:
            self.check_paid_once(body)


class TwoIntakes(Duplicates):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.stack.start("intake#2")


class WithoutRedis(Duplicates):
    """PostgreSQL alone decides."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.stack.start("intake#2")
        cls.stack.kill("redis")


del Duplicates  # it is only what the others share

if __name__ == "__main__":
    main()
