"""Messages that are wrong in every way: each one is answered with field and rule and kept, and nobody
else notices. Garbage on the stages' own subjects becomes a dead letter with a case."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from msgpack import pack, unpack  # noqa: E402
from nats import Nats  # noqa: E402
from scenario import Scenario, main, wait_for  # noqa: E402

CARD_NUMBER = "4242424242424242"
MSGPACK = {"Content-Type": "application/msgpack"}
TOKEN = "pm_card_visa_topsecret"  # any token pays; this one must turn up nowhere


class Bad:
    """One wrong message and what must become of it."""

    def __init__(self, name, status, code, field=None, change=None, raw=None, headers=None, operation="pay",
                 merchant="m-1001", is_kept=True, is_answered=True):
        self.name, self.status, self.code, self.field = name, status, code, field
        self.change, self.raw, self.headers = change, raw, headers or {}
        self.operation, self.merchant, self.is_kept, self.is_answered = operation, merchant, is_kept, is_answered

    def body(self, good):
        """The good request, spoiled: as bytes."""
        if callable(self.raw):
            return self.raw(good)
        if self.raw is not None:
            return self.raw
        body = dict(good)
        for path, value in (self.change or {}).items():
            outer, _, inner = path.partition(".")
            place = body
            if inner:
                place = body[outer] = dict(body[outer])
            if value is None:
                place.pop(inner or outer)
            else:
                place[inner or outer] = value
        return json.dumps(body).encode()


def text(**replacements):
    """The good request as JSON text, with one piece of it replaced by what no JSON writer would write."""
    (old, new), = replacements.values()
    return lambda good: json.dumps(good).replace(old, new).encode("utf-8", "surrogateescape")


def missing(path):
    return Bad("without " + path, 400, "field_missing", path, {path: None})


def wrong(name, path, value, code="field_type"):
    return Bad(name, 400, code, path, {path: value})


AMOUNT = '"amount": 1099'
REQUESTS = [
    Bad("nothing at all", 400, "not_json", raw=b""),
    Bad("nothing at all, binary", 400, "not_msgpack", raw=b"", headers=MSGPACK),
    Bad("cut off", 400, "not_json", raw=lambda good: json.dumps(good).encode()[:-20]),
    Bad("cut off, binary", 400, "not_msgpack", raw=lambda good: pack(good)[:-3], headers=MSGPACK),
    Bad("two documents", 400, "not_json", raw=lambda good: json.dumps(good).encode() * 2),
    Bad("two documents, binary", 400, "not_msgpack", raw=lambda good: pack(good) * 2, headers=MSGPACK),
    Bad("binary that calls itself JSON", 400, "not_json", raw=pack),
    Bad("JSON that calls itself binary", 400, "not_msgpack", raw=lambda good: json.dumps(good).encode(), headers=MSGPACK),
    Bad("an unknown content type", 415, "unsupported_content_type", "Content-Type", {}, headers={"Content-Type": "text/xml"}),
    Bad("a list", 400, "not_json", raw=b"[1, 2]"),
    Bad("a binary list", 400, "not_msgpack", raw=pack([1, 2]), headers=MSGPACK),
    Bad("nested too deep", 400, "not_json", raw=b'{"metadata":' * 5000 + b"1" + b"}" * 5000),
    Bad("nested too deep, binary", 400, "not_msgpack", raw=b"\x91" * 20000 + b"\xc0", headers=MSGPACK),
    Bad("a map of four thousand million members", 400, "not_msgpack", raw=b"\xdf\xff\xff\xff\xff\xa1a\x01", headers=MSGPACK),
    Bad("a key twice", 400, "not_json", raw=text(x=(AMOUNT, AMOUNT + ', "amount": 1'))),
    Bad("a key twice, binary", 400, "not_msgpack", headers=MSGPACK, raw=b"\x82\xa6amount\x01\xa6amount\x02"),
    Bad("a NUL in a text", 400, "not_json", raw=text(x=('"EUR"', '"E\\u0000R"'))),
    Bad("a NUL in a binary text", 400, "not_msgpack", headers=MSGPACK, raw=lambda good: pack(dict(good, out_trade_no="a\0b"))),
    Bad("no UTF-8", 400, "not_json", raw=text(x=('"EUR"', '"E\udcffR"'))),
    Bad("no UTF-8, binary", 400, "not_msgpack", headers=MSGPACK, raw=lambda good: pack(dict(good, currency="E\udcffR"))),
    Bad("half a surrogate", 400, "not_json", raw=text(x=('"EUR"', '"\\ud800"'))),
    Bad("version 2", 400, "unknown_version", "version", {"version": 2}),
    Bad("version 0", 400, "unknown_version", "version", {"version": 0}),
    wrong("version as text", "version", "1"),
    missing("merchant"), missing("out_trade_no"), missing("target"), missing("target.id"), missing("target.kind"),
    missing("amount"), missing("currency"), missing("method"), missing("method.type"), missing("method.token"),
    wrong("a number as out_trade_no", "out_trade_no", 7),
    wrong("an empty out_trade_no", "out_trade_no", "", "field_pattern"),
    wrong("an out_trade_no too long", "out_trade_no", "x" * 65, "field_pattern"),
    wrong("an out_trade_no with a line break", "out_trade_no", "a\nb", "field_pattern"),
    wrong("an out_trade_no in Greek", "out_trade_no", "\u03b1", "field_pattern"),
    wrong("a text as target", "target", "order-1"),
    wrong("a target id too long", "target.id", "x" * 65, "field_pattern"),
    wrong("amount as text", "amount", "1099"),
    wrong("no amount", "amount", 0, "field_range"),
    wrong("a negative amount", "amount", -1, "field_range"),
    Bad("100.00", 400, "field_type", "amount", raw=text(x=(AMOUNT, '"amount": 100.00'))),
    Bad("1e3", 400, "field_type", "amount", raw=text(x=(AMOUNT, '"amount": 1e3'))),
    Bad("a binary float", 400, "field_type", "amount", headers=MSGPACK, raw=lambda good: pack(dict(good, amount=1099.0))),
    Bad("2^63", 400, "field_range", "amount", raw=text(x=(AMOUNT, '"amount": 9223372036854775808'))),
    Bad("2^63, binary", 400, "field_range", "amount", headers=MSGPACK, raw=lambda good: pack(dict(good, amount=1 << 63))),
    wrong("no such currency", "currency", "XQX", "field_range"),
    wrong("a currency in lower case", "currency", "eur", "field_range"),
    wrong("a list as method", "method", ["card"]),
    wrong("no such method", "method.type", "cheque", "field_range"),
    wrong("a token with a blank", "method.token", "a b", "field_pattern"),
    wrong("a token too long", "method.token", "x" * 256, "field_pattern"),
    wrong("no such capture", "capture", "later", "field_range"),
    wrong("a return_url that is none", "return_url", "javascript:alert(1)", "field_pattern"),
    wrong("a time that is none", "expires_at", "tomorrow", "field_pattern"),
    wrong("metadata as text", "metadata", "x"),
    wrong("nested metadata", "metadata", {"a": {"b": 1}}),
    wrong("too much metadata", "metadata", {"n%d" % n: n for n in range(51)}, "field_range"),
    Bad("a card number as token", 422, "raw_card_number", "method", {"method.token": CARD_NUMBER}),
    Bad("a card number in groups", 422, "raw_card_number", "method", {"method.note": "4242 4242 4242 4242"}),
    Bad("a card's fields", 422, "raw_card_number", "method", {"method.cvc": "123"}),
    Bad("another merchant than the subject's", 400, "merchant_mismatch", "merchant", {"merchant": "m-1002"}),
    Bad("a merchant whom nobody knows", 403, "merchant_unknown", "merchant", {"merchant": "m-9999"}, merchant="m-9999"),
    Bad("no such operation", 404, "unknown_operation", "subject", {}, operation="steal"),
    # libnats takes the next line for an empty header's value, and reads none if there is no next line: where
    # the answer should go is lost with it.
    Bad("an empty key", 400, "field_pattern", "headers", {}, headers={"Idempotency-Key": ""}, is_answered=False),
    Bad("an empty content type", 415, "unsupported_content_type", "Content-Type", {}, headers={"Content-Type": ""},
        is_answered=False),
    Bad("a key too long", 400, "field_pattern", "Idempotency-Key", {}, headers={"Idempotency-Key": "k" * 256}),
    Bad("a key that is no ASCII", 400, "field_pattern", "Idempotency-Key", {}, headers={"Idempotency-Key": "\u03b1"}),
    Bad("capture", 501, "not_supported", "subject", {}, operation="capture", is_kept=False),
    Bad("void", 501, "not_supported", "subject", {}, operation="void", is_kept=False),
    Bad("refund", 501, "not_supported", "subject", {}, operation="refund", is_kept=False),
    Bad("cancel", 501, "not_supported", "subject", {}, operation="cancel", is_kept=False),
    Bad("manual capture", 501, "not_supported", "capture", {"capture": "manual"}, is_kept=False),
    Bad("a voucher", 501, "not_supported", "method.type", {"method.type": "voucher"}, is_kept=False),
]


class Burst(Scenario):
    def setUp(self):
        self.stack.faults([])

    def publish_raw(self, bad, good, reply):
        head = {"Content-Type": "application/json", "Pay-Reply-To": reply}
        head.update(bad.headers)
        self.stack.nats.publish("pay.intake.%s.%s" % (bad.merchant, bad.operation), bad.body(good), head)

    def test_each_is_refused_by_name_and_the_good_ones_go_through(self):
        """All in one burst, each wrong one between two good ones."""
        s = self.stack
        nats = s.nats
        first_event = s.nats.api("STREAM.INFO.PAY_EVENT")["state"]["last_seq"] + 1
        inboxes, goods = {}, []
        for bad in REQUESTS:
            goods.append(s.request())
            s.publish(goods[-1], reply=inboxes.setdefault("good", nats.inbox()))
            inboxes[bad] = nats.inbox()
            inboxes[bad, "sid"] = nats.subscribe(inboxes[bad])
            spoiled = s.request(method={"type": "card", "token": TOKEN, "token_realm": "stripe"}, merchant=bad.merchant)
            inboxes[bad, "body"] = spoiled
            self.publish_raw(bad, spoiled, inboxes[bad])
        for bad in REQUESTS:
            if not bad.is_answered:
                continue
            with self.subTest(bad.name):
                answer = nats.next(inboxes[bad, "sid"], 30)
                self.check_answer(bad, answer)
        for body in goods:
            s.wait_payment(body["out_trade_no"], "CAPTURED")
        nats.flush()
        for bad in REQUESTS:
            self.assertEqual(nats.messages(inboxes[bad, "sid"]), [], "answered twice: %s" % bad.name)
        self.check_nothing_is_stored(len(goods))
        self.check_letters()
        self.check_rejections(first_event)
        self.check_secrets()
        s.assert_books_agree()

    def check_answer(self, bad, answer):
        form = bad.headers.get("Content-Type", "application/json")
        given = unpack(answer.body) if form == "application/msgpack" else answer.json()
        self.assertEqual((given["status"], given["code"], given.get("field")), (bad.status, bad.code, bad.field), given)
        self.assertEqual(answer.headers["pay-status"], str(bad.status))
        self.assertTrue(given["title"] and given["type"], given)

    def check_nothing_is_stored(self, goods):
        """No payment, no number, no key for any of them; intake has nothing left to do."""
        s = self.stack
        self.assertEqual(s.number("SELECT count(*) FROM oncepay.payment"), goods)
        self.assertEqual(s.number("SELECT count(*) FROM oncepay.idempotency_key"), goods)
        wait_for("intake's stream is empty", lambda: s.nats.api("STREAM.INFO.PAY_INTAKE")["state"]["messages"] == 0)

    def check_letters(self):
        kept = sorted((code, field or "") for code, field in self.stack.sql("SELECT code, field FROM oncepay.dead_letter"))
        self.assertEqual(kept, sorted((bad.code, bad.field or "") for bad in REQUESTS if bad.is_kept))
        self.assertEqual(self.stack.sql("SELECT id, reason FROM oncepay.manual_case"), [], "a producer's fault is no case")

    def check_rejections(self, first_event):
        s = self.stack

        def rejections():
            return [m for m in s.nats.stream_messages("PAY_EVENT", "pay.event.m-1001.request.rejected")]
        expected = sorted(bad.code for bad in REQUESTS if bad.merchant == "m-1001")
        wait_for("every rejection is told", lambda: len(rejections()) >= len(expected))
        told = rejections()
        self.assertEqual(sorted(unpack(m.body)["code"] for m in told), expected)
        self.assertEqual({m.headers["ce-type"].split("oncepay.")[-1] for m in told}, {"request.rejected"})
        self.assertGreaterEqual(first_event, 1)

    def check_secrets(self):
        """No card number, no token: not in a dead letter's body, an event, an outbox row, a log."""
        s = self.stack
        for what in (CARD_NUMBER, "4242 4242 4242 4242", TOKEN):
            digits = what.encode().hex()
            for table, column in (("dead_letter", "body"), ("outbox", "body"), ("idempotency_key", "answer_body")):
                found = s.number("SELECT count(*) FROM oncepay.%s WHERE position('\\x%s'::bytea in %s) > 0"
                                 % (table, digits, column))
                self.assertEqual(found, 0, "%s in %s" % (what, table))
            found = s.number("SELECT count(*) FROM oncepay.dead_letter WHERE position('%s' in headers || problem || "
                             "subject) > 0" % what)
            self.assertEqual(found, 0)
            for name in os.listdir(os.path.join(s.dir, "log")):
                if not name.startswith(("pg", "redis", "nats")):
                    with open(os.path.join(s.dir, "log", name), "rb") as file:
                        self.assertNotIn(what.encode(), file.read(), name)
        kept = s.number("SELECT count(*) FROM oncepay.dead_letter WHERE method_token LIKE '%%%s%%'" % TOKEN)
        self.assertGreater(kept, 0, "a replay needs the token")
        self.assertEqual(s.number("SELECT count(*) FROM oncepay.dead_letter WHERE method_token LIKE '%4242%'"), 0)


class Edges(Scenario):
    def setUp(self):
        self.stack.faults([])

    def test_larger_than_a_request_may_be(self):
        """An answer that says so, and the raw message is kept; nothing is stored under the key."""
        s = self.stack
        for size in (65537, 900000):
            body = s.request()
            raw = json.dumps(body).encode()
            status, answer = s.pay(body, raw=raw + b" " * (size - len(raw)))
            self.assertEqual((status, answer["code"]), (413, "too_large"))
            self.assertIsNone(s.payment(body["out_trade_no"]))
        self.assertEqual(s.number("SELECT count(*) FROM oncepay.dead_letter WHERE code = 'too_large'"), 2)
        self.assertEqual(s.pay()[0], 202)

    def test_as_large_as_a_request_may_be(self):
        s = self.stack
        body = s.request()
        raw = json.dumps(body).encode()
        status, _ = s.pay(body, raw=raw + b" " * (65536 - len(raw)))
        self.assertEqual(status, 202)
        s.wait_payment(body["out_trade_no"], "CAPTURED")

    def test_more_than_any_account_takes(self):
        """A valid amount that nobody serves is an accepted payment that fails, and frees its target."""
        s = self.stack
        body = s.request(amount=(1 << 63) - 1)
        status, answer = s.pay(body)
        self.assertEqual((status, answer["amount"]), (202, (1 << 63) - 1))
        payment = s.wait_payment(body["out_trade_no"], "FAILED")
        self.assertEqual(s.events(payment["id"]), ["payment.accepted", "payment.failed"])
        self.assertEqual(s.pay(s.request(target=body["target"]))[0], 202)

    def test_subjects_that_are_none(self):
        """No merchant or no operation can be read from them: kept, without an answer."""
        s = self.stack
        before = s.number("SELECT count(*) FROM oncepay.dead_letter WHERE code = 'unknown_operation'")
        subjects = ["pay.intake.m-1001", "pay.intake.m-1001.pay.now", "pay.intake.m$1001.pay", "pay.intake.%s.pay" % ("m" * 65)]
        for subject in subjects:
            s.nats.publish(subject, s.request(), {"Content-Type": "application/json"})
        wait_for("all are kept", lambda: s.number(
            "SELECT count(*) FROM oncepay.dead_letter WHERE code = 'unknown_operation'") == before + len(subjects))
        self.assertEqual(s.pay()[0], 202)

    def test_an_answer_goes_only_where_answers_may_go(self):
        """Pay-Reply-To is a producer's word: it must not make us speak on our own subjects."""
        s = self.stack
        targets = ["pay.route.3", "pay.settle.1", "pay.intake.m-1002.pay", "$JS.API.STREAM.DELETE.PAY_EVENT",
                   "$JS.ACK.PAY_INTAKE.intake.1.1.1.1.0", "reply.m-1002.x", "reply.m-1001.", "_INBOX.", "_INBOX.>", "_INBOX.*",
                   "oncepay.wake.relay", "_INBOX", "inbox.x", "_INBOX.a..b", "_INBOX." + "x" * 300]
        listening = [s.nats.subscribe(subject) for subject in
                     ("pay.route.*", "pay.settle.*", "pay.intake.m-1002.>", "reply.>", "inbox.>", "_INBOX.>")]
        for target in targets:
            body = s.request()
            s.publish(body, reply=target)
        refused = "SELECT count(*) FROM oncepay.dead_letter WHERE field = 'Pay-Reply-To'"
        wait_for("all are refused", lambda: s.number(refused) == len(targets))
        self.assertEqual(s.pay()[0], 202)  # its answer comes after theirs would have
        s.wait_quiet()
        for sid in listening:
            for message in s.nats.messages(sid):
                self.assertNotIn(b"Pay-Reply-To", message.body, message.subject)
        self.assertIn("state", s.nats.api("STREAM.INFO.PAY_EVENT"))
        own = "reply.m-1001.desk.7"
        sid = s.nats.subscribe(own)
        s.publish(s.request(), reply=own)
        self.assertEqual(s.nats.next(sid).headers["pay-status"], "202")

    def test_deadlines_that_have_passed(self):
        s = self.stack
        body = s.request(expires_at="2020-01-01T00:00:00Z")
        first = s.ask(body)
        self.assertEqual((first.headers["pay-status"], first.json()["code"]), ("422", "expired"))
        self.assertEqual(s.ask(body).body, first.body)  # a refusal that depends on state stays under its key
        self.assertIsNone(s.payment(body["out_trade_no"]))


class Poison(Scenario):
    """What oncepay's own user could publish by mistake: every stage lives on, and a person hears of it."""
    SUBJECTS = {"pay.route.3": "PAY_ROUTE", "pay.create.stripe-main.new": "PAY_CREATE", "pay.settle.1": "PAY_SETTLE",
                "pay.recover.evidence.stripe-main": "PAY_RECOVER"}
    GARBAGE = [b"", b"\xff\x00garbage", b'{"v": 1, "commands": []}', pack({"v": 1, "commands": 7}), pack([1, 2, 3]),
               pack({"v": 1, "commands": [{"o": b"short", "p": b"", "e": b"", "n": 1, "k": 1}]}), b"\x91" * 9000]

    def test_garbage_becomes_a_dead_letter_with_a_case(self):
        s = self.stack
        bodies = []
        for subject in self.SUBJECTS:
            for garbage in self.GARBAGE:
                s.nats.publish(subject, garbage)
                bodies.append(s.request())
                s.publish(bodies[-1])
        s.nats.flush()
        for subject, stream in self.SUBJECTS.items():
            wait_for("%s is kept (now %s)" % (subject, self.letters(subject)),
                     lambda: self.letters(subject) == len(self.GARBAGE))
            wait_for("%s is drained" % stream, lambda: s.nats.api("STREAM.INFO." + stream)["state"]["messages"] == 0)
        for body in bodies:
            s.wait_payment(body["out_trade_no"], "CAPTURED")
        rows = s.sql("SELECT d.subject, count(DISTINCT c.id) FROM oncepay.dead_letter d JOIN oncepay.manual_case c "
                     "ON c.id = d.case_id AND c.kind = 6 AND c.status = 10 GROUP BY 1 ORDER BY 1")
        self.assertEqual(rows, [[subject, str(len(self.GARBAGE))] for subject in sorted(self.SUBJECTS)])
        kept = s.sql("SELECT 'x' || encode(body, 'hex') FROM oncepay.dead_letter WHERE subject = 'pay.route.3'")
        self.assertEqual(sorted(row[0] for row in kept), sorted("x" + garbage.hex() for garbage in self.GARBAGE))
        s.assert_books_agree()

    def test_commands_of_a_newer_schema_are_handed_back(self):
        """Another version of us will know what they mean: no dead letter, no lost command."""
        s = self.stack
        before = s.number("SELECT count(*) FROM oncepay.dead_letter")
        for subject in self.SUBJECTS:
            s.nats.publish(subject, pack({"v": 2, "whatever": True}))
        s.nats.flush()
        body = s.request()
        s.pay(body)
        s.wait_payment(body["out_trade_no"], "CAPTURED")
        for stream in self.SUBJECTS.values():
            self.assertEqual(s.nats.api("STREAM.INFO." + stream)["state"]["messages"], 1, stream)
        self.assertEqual(s.number("SELECT count(*) FROM oncepay.dead_letter"), before)
        for stream in self.SUBJECTS.values():
            s.nats.api("STREAM.PURGE." + stream)

    def test_commands_about_what_is_not_there(self):
        """Well-formed, and the database knows none of it: nothing happens, and nobody is held up."""
        s = self.stack
        before = s.number("SELECT count(*) FROM oncepay.payment_attempt")
        kinds = {"pay.route.3": 1, "pay.create.stripe-main.new": 2, "pay.settle.1": 3,
                 "pay.recover.evidence.stripe-main": 5}
        for subject, kind in kinds.items():
            command = {"o": os.urandom(16), "p": os.urandom(16), "e": os.urandom(16), "n": 1, "k": kind}
            s.nats.publish(subject, pack({"v": 1, "commands": [command]}))
        s.nats.flush()
        bodies = [s.request() for _ in range(20)]
        for body in bodies:
            s.pay(body)
        for body in bodies:
            s.wait_payment(body["out_trade_no"], "CAPTURED")
        self.assertEqual(s.number("SELECT count(*) FROM oncepay.payment_attempt"), before + len(bodies))
        for stream in self.SUBJECTS.values():
            s.nats.api("STREAM.PURGE." + stream)  # settle waits for what a restored database may lack for a while
        s.assert_books_agree()

    def letters(self, subject):
        return self.stack.number("SELECT count(*) FROM oncepay.dead_letter WHERE subject = '%s'" % subject)


class Replay(Scenario):
    """Refused, kept, and published again by a person once the reason is gone."""

    def test_a_refused_request_goes_through_when_its_merchant_is_known(self):
        s = self.stack
        token = "pm_card_chargeDeclinedLostCard_topsecret"
        soon = s.request(merchant="m-1003", method={"type": "card", "token": token, "token_realm": "stripe"})
        late = s.request(merchant="m-1003")
        self.assertEqual([s.pay(body)[1]["code"] for body in (soon, late)], ["merchant_unknown"] * 2)
        letters = {json.loads(self.show(line["dead_letter"])["body"])["out_trade_no"]: line["dead_letter"]
                   for line in self.letters()}
        self.assertNotIn(token, json.dumps([self.show(letter) for letter in letters.values()]))
        self.make_known("m-1003")

        s.cli("dead-letter", "replay", letters[soon["out_trade_no"]])
        payment = wait_for("it is accepted", lambda: s.payment(soon["out_trade_no"], "m-1003"))
        sent = ("SELECT count(*) FROM oncepay.payment_attempt WHERE payment_id = '%s' AND "
                "position('%s'::bytea in request_bytes) > 0" % (payment["id"], token))
        wait_for("it is sent with the very token that nobody was shown", lambda: s.number(sent) == 1)
        s.cli("dead-letter", "replay", letters[soon["out_trade_no"]])  # and again: the same request
        self.assertEqual(sorted(line["replays"] for line in self.letters()), [0, 2])

        # An hour has passed since the other one first reached its stream: it is not paid now.
        s.sql("UPDATE oncepay.dead_letter SET stored_at = stored_at - interval '1 hour' WHERE id = '%s'"
              % letters[late["out_trade_no"]])
        s.cli("dead-letter", "replay", letters[late["out_trade_no"]])
        wait_for("it is refused", lambda: s.number(
            "SELECT count(*) FROM oncepay.idempotency_key WHERE merchant = 'm-1003' AND answer_status = 422") == 1)
        self.assertIsNone(s.payment(late["out_trade_no"], "m-1003"))
        s.wait_quiet()
        self.assertEqual(s.number("SELECT count(*) FROM oncepay.payment"), 1)
        s.assert_books_agree()

    def test_a_letter_that_is_none(self):
        for letter, code in (("01a22c91-f98e-7000-a4c1-c0cdf22a2cda", 1), ("nonsense", 2)):
            done = self.stack.cli("dead-letter", "replay", letter, check=False)
            self.assertEqual((done.returncode, done.stdout), (code, ""))
            self.assertIn(letter, done.stderr)

    def letters(self):
        lines = self.stack.cli("--json", "dead-letter", "list").stdout
        return [json.loads(line) for line in lines.split("\n") if line]

    def show(self, letter):
        return json.loads(self.stack.cli("--json", "dead-letter", "show", letter).stdout)

    def make_known(self, merchant):
        s = self.stack
        path = s.environment["ONCEPAY_CONFIG"]
        with open(path) as file:
            text = file.read()
        with open(path, "w") as file:
            file.write(text.replace("merchants:\n", "merchants:\n  - id: %s\n    key_lifetime_h: 24\n" % merchant, 1))
        s.cli("topology", "apply")
        s.restart("intake")


class Limits(Scenario):
    """What a merchant's NATS user may do (protocol E)."""

    def test_a_merchant_pays_with_its_own_user(self):
        s = self.stack
        nats = self.merchant()
        inbox = "_INBOX.m-1001.7"
        sid = nats.subscribe(inbox)
        body = s.request()
        nats.publish("pay.intake.m-1001.pay", body, {"Content-Type": "application/json", "Pay-Reply-To": inbox})
        self.assertEqual(nats.next(sid).headers["pay-status"], "202")
        self.assertEqual(nats.errors, [])
        s.wait_payment(body["out_trade_no"], "CAPTURED")

    def test_a_merchant_may_publish_only_its_own_requests(self):
        s = self.stack
        body = s.request(merchant="m-1002")
        for subject in ("pay.intake.m-1002.pay", "pay.route.3", "pay.create.stripe-main.new", "pay.settle.1",
                        "pay.recover.evidence.stripe-main", "pay.event.m-1001.payment.succeeded", "oncepay.wake.relay",
                        "$JS.API.STREAM.DELETE.PAY_EVENT", "$JS.API.STREAM.PURGE.PAY_INTAKE",
                        "$JS.API.CONSUMER.MSG.NEXT.PAY_INTAKE.intake", "$JS.ACK.PAY_INTAKE.intake.1.1.1.1.0"):
            nats = self.merchant()
            nats.publish(subject, body, {"Content-Type": "application/json"})
            nats.flush()
            self.assertEqual(len(nats.errors), 1, subject)
            self.assertIn("Permissions Violation for Publish", nats.errors[0])
        self.assertIsNone(s.payment(body["out_trade_no"], "m-1002"))

    def test_a_merchant_may_not_listen_to_others(self):
        for subject in ("pay.event.>", "pay.intake.>", "reply.m-1002.>", "_INBOX.m-1002.>", "_INBOX.>", ">", "oncepay.>",
                        "$JS.>"):
            nats = self.merchant()
            nats.subscribe(subject)
            nats.flush()
            self.assertEqual(len(nats.errors), 1, subject)
            self.assertIn("Permissions Violation for Subscription", nats.errors[0])

    def merchant(self):
        return Nats(self.stack.environment["ONCEPAY_NATS_URL_m_1001"])


if __name__ == "__main__":
    main()
