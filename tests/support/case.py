"""What the case tests (tests/scenario/c*_test.py) share: signed events of their own making, and the
rows around one payment as plain words. Built on scenario.py; nothing here knows how oncepay works
inside, only what protocol and tables say.
"""
import base64
import hashlib
import hmac
import json
import os
import sys
import time
import uuid

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from msgpack import unpack  # noqa: E402
from scenario import STAGES, Scenario, Stack, main, wait_for  # noqa: E402,F401

ALWAYS = 1000000
MERCHANT = "m-1001"
ACCOUNT = "stripe-main"
CARD = {"type": "card", "token": "pm_card_visa", "token_realm": "stripe"}

TASK = {10: "READY", 20: "LEASED", 30: "PAUSED", 40: "ESCALATED", 50: "RESOLVED"}
CASE = {1: "unknown", 2: "amount_mismatch", 3: "stray_fact", 4: "evidence_conflict", 5: "stuck",
        6: "dead_letter", 7: "task_paused", 8: "pending_too_long", 9: "unrecorded_send",
        10: "psp_rejects_us"}
STRAY = {1: "late_success", 2: "second_success"}
REQUEST = {1: "create", 2: "replay", 3: "retrieve"}
SOURCE = {1: "local", 2: "transport", 3: "answer", 4: "replay", 5: "retrieve", 7: "webhook"}


def fault(action, times=None, match=None, **more):
    rule = {"match": match or {}, "action": action, **more}
    if times is not None:
        rule["times"] = times
    return rule


def card(token):
    return dict(CARD, token=token)


def provider_key(out_trade_no, merchant=MERCHANT, installation="dev"):
    """The key of a payment's first create: a function of what the producer knows (protocol C4)."""
    text = "oncepay-key-1 %d:%s %d:%s %d:%s 1 1 1 1" % (
        len(installation), installation, len(merchant), merchant, len(out_trade_no), out_trade_no)
    digest = hashlib.sha256(text.encode()).digest()
    return "op_" + base64.b32encode(digest).decode().lower().rstrip("=")


def event_text(kind, object_id, status, reference, received=1099, **more):
    """A Stripe event about a payment intent of 10.99 EUR, as bytes. received None: not said."""
    intent = {"id": object_id, "object": "payment_intent", "amount": 1099, "currency": "eur",
              "status": status, "metadata": {"reference": reference}, **more}
    if received is not None:
        intent["amount_received"] = received
    return json.dumps({"id": "evt_" + uuid.uuid4().hex[:24], "object": "event", "type": kind,
                       "created": int(time.time()), "data": {"object": intent}}).encode()


def sign(body, at=None, secret="whsec_sim_" + ACCOUNT):
    """The Stripe-Signature header over these very bytes."""
    at = int(time.time() if at is None else at)
    digest = hmac.new(secret.encode(), b"%d." % at + body, hashlib.sha256).hexdigest()
    return "t=%d,v1=%s" % (at, digest)


class Case(Scenario):
    """A scenario with words for one payment's surroundings. Tests leave no fault rule behind."""
    edits = ()  # (text, replacement) in the development configuration

    @classmethod
    def setUpClass(cls):
        cls.stack = Stack(cls.__name__, cls.environment, cls.config, cls.delays)
        cls.edit_config()
        try:
            cls.stack.up(cls.stages, cls.faults)
        except BaseException:
            cls.stack.down()
            raise

    @classmethod
    def edit_config(cls):
        with open(cls.stack.environment["ONCEPAY_CONFIG"]) as file:
            text = file.read()
        for old, new in cls.edits:
            if text.count(old) != 1:
                raise AssertionError("the configuration has %d times: %s" % (text.count(old), old))
            text = text.replace(old, new)
        with open(cls.stack.environment["ONCEPAY_CONFIG"], "w") as file:
            file.write(text)

    def setUp(self):
        self.stack.faults([])

    # --- the PSP's side -------------------------------------------------------------------------

    def posts(self, key):
        """How many creates the PSP has seen under the key."""
        keys = self.stack.sim("/_sim/requests?key=" + key)["keys"]
        return keys[0]["posts"] if keys else 0

    def charge(self, key):
        """The one charge under the key."""
        charges = self.stack.charges(key)
        self.assertEqual(len(charges), 1, charges)
        return charges[0]

    def psp_says(self, kind, key, **more):
        """Makes the PSP send a signed event about what was made under this key."""
        return self.stack.sim("/_sim/webhook", dict(
            {"account": ACCOUNT, "type": "payment_intent." + kind, "key": key}, **more), "POST")

    def psp_ends(self, key, result, **more):
        """Something pending, or payable still, ends at the PSP; it tells us as it always does."""
        self.stack.sim("/_sim/resolve", dict(
            {"account": ACCOUNT, "key": key, "result": result}, **more), "POST")

    def psp_charges(self, object_id, reference, **more):
        """Money that the PSP takes without a request of ours, and its event. Returns its id."""
        return self.stack.sim("/_sim/webhook", dict(
            {"account": ACCOUNT, "type": "payment_intent.succeeded", "object": object_id,
             "amount": 1099, "currency": "EUR", "metadata": {"reference": reference},
             "charge": True}, **more), "POST")["event"]

    def post_event(self, body, signature=None, account=ACCOUNT):
        """Posts an event to the gateway as a PSP would; returns the HTTP status."""
        headers = {"Content-Type": "application/json"}
        if signature != "":
            headers["Stripe-Signature"] = sign(body) if signature is None else signature
        status, _, _ = self.stack.http(
            self.stack.environment["ONCEPAY_GATEWAY_URL"] + "/webhooks/" + account, body, "POST",
            headers)
        return status

    # --- our books ------------------------------------------------------------------------------

    def accepted(self, body=None, **fields):
        """Pays and returns (out_trade_no, payment id, provider key to be)."""
        body = body if body is not None else self.stack.request(**fields)
        status, answer = self.stack.pay(body)
        self.assertEqual(status, 202, answer)
        return body["out_trade_no"], answer["payment"], provider_key(body["out_trade_no"])

    def requests(self, payment):
        """Kinds of the requests sent for a payment, in order."""
        return [REQUEST[int(kind)] for (kind,) in self.stack.sql(
            "SELECT kind FROM oncepay.attempt_request WHERE payment_id = '%s' ORDER BY id"
            % payment)]

    def task(self, payment):
        """The last task of a payment, or None."""
        rows = self.stack.sql(
            "SELECT status, purpose, step, stored_error, escalated_at IS NOT NULL, version "
            "FROM oncepay.recovery_task WHERE payment_id = '%s' ORDER BY created_at DESC, id DESC "
            "LIMIT 1" % payment)
        if not rows:
            return None
        status, purpose, step, stored_error, was_escalated, version = rows[0]
        return {"status": TASK[int(status)], "purpose": int(purpose), "step": int(step),
                "stored_error": stored_error == "t", "was_escalated": was_escalated == "t",
                "version": int(version)}

    def wait_task(self, payment, status, timeout=60):
        def reached():
            task = self.task(payment)
            return task if task and task["status"] == status else None
        return wait_for("the task of %s is %s (now %s)" % (payment, status, self.task(payment)),
                        reached, timeout, 0.1)

    def cases(self, payment):
        """(kind, "open" or "closed", priority) of each case of a payment."""
        return [(CASE[int(kind)], "open" if status == "10" else "closed", int(priority))
                for kind, status, priority in self.stack.sql(
                    "SELECT kind, status, priority FROM oncepay.manual_case "
                    "WHERE payment_id = '%s' ORDER BY kind" % payment)]

    def wait_cases(self, payment, expected, timeout=30):
        wait_for("the cases of %s are %s (now %s)" % (payment, expected, self.cases(payment)),
                 lambda: self.cases(payment) == expected, timeout, 0.1)

    def strays(self, payment):
        rows = self.stack.sql("SELECT kind, amount, currency FROM oncepay.stray_fact "
                              "WHERE payment_id = '%s'" % payment)
        return [(STRAY[int(kind)], int(amount), currency) for kind, amount, currency in rows]

    def hold(self, target):
        return self.stack.value("SELECT hold FROM oncepay.active_payment WHERE merchant = '%s' "
                                "AND target_kind = '%s' AND target_id = '%s'"
                                % (MERCHANT, target["kind"], target["id"]))

    def statuses(self, payment):
        """Each status that the payment's first attempt went through, repeats included."""
        return [int(status) for (status,) in self.stack.sql(
            "SELECT to_status FROM oncepay.state_history WHERE payment_id = '%s' AND entity = 2 "
            "ORDER BY id, version" % payment)]

    def evidence(self, payment, source=None):
        """(source, HTTP status, what it proves) of each observation, as they were made."""
        rows = self.stack.sql("SELECT source, http_status, proves FROM oncepay.evidence "
                              "WHERE payment_id = '%s' ORDER BY created_at, id" % payment)
        seen = [(SOURCE[int(found)], http and int(http), proves and int(proves))
                for found, http, proves in rows]
        return [row for row in seen if source in (None, row[0])]

    def proof(self, payment):
        """The source of the evidence that ended the payment's attempt."""
        return SOURCE[self.stack.number(
            "SELECT e.source FROM oncepay.evidence e JOIN oncepay.payment_attempt a "
            "ON a.evidence_id = e.id AND a.payment_id = e.payment_id "
            "WHERE a.payment_id = '%s'" % payment)]

    def event(self, payment, kind):
        """The body of the payment's only event of this kind, from the outbox."""
        rows = self.stack.sql(
            "SELECT encode(body, 'hex') FROM oncepay.outbox WHERE kind = 2 AND payment_id = '%s' "
            "AND subject LIKE '%%.%s'" % (payment, kind))
        self.assertEqual(len(rows), 1, "%s events of %s" % (kind, payment))
        return unpack(bytes.fromhex(rows[0][0]))

    def case_events(self, payment):
        """Types of the events about the payment's cases, sorted."""
        return sorted(kind for (kind,) in self.stack.sql(
            "SELECT substring(subject from '[^.]*\\.[^.]*$') FROM oncepay.outbox WHERE kind = 2 "
            "AND version = 0 AND payment_id = '%s'" % payment))

    # --- processes ------------------------------------------------------------------------------

    def metrics(self, name):
        """What a process serves at /metrics, as lines."""
        rows = json.loads(self.stack.run(self.stack.stack, "status", "--json").stdout)
        port = next(row["port"] for row in rows if row["name"] == name)
        return self.stack.http("http://127.0.0.1:%d/metrics" % port)[2].decode().split("\n")

    def log_lines(self, name):
        """What a process has logged so far, as documents."""
        with open(os.path.join(self.stack.dir, "log", name + ".log")) as file:
            return [json.loads(line) for line in file if line.startswith("{")]
