"""The oncepay command on a real stack: what it prints, what it never prints, and its exit codes."""
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from scenario import ROOT, Scenario, main  # noqa: E402

TOKEN = "pm_card_visa_told_to_nobody"


class Cli(Scenario):

    def run_cli(self, *arguments, code=0):
        done = self.stack.cli(*arguments, check=False)
        self.assertEqual(done.returncode, code, "%s: %s%s" % (arguments, done.stdout, done.stderr))
        self.assertNotIn(TOKEN, done.stdout + done.stderr)
        return done

    def document(self, *arguments, code=0):
        return json.loads(self.run_cli(*arguments, "--json", code=code).stdout)

    def lines(self, *arguments, code=0):
        return [json.loads(line) for line in self.run_cli(*arguments, "--json", code=code).stdout.splitlines()]

    def pay(self, number, *more, token=TOKEN, amount="1099", code=0):
        return self.document("pay", "--merchant", "m-1001", "--out-trade-no", number, "--target", "order/" + number,
                             "--amount", amount, "--currency", "EUR", "--token", token, "--realm", "stripe", *more,
                             code=code)

    def test_pay_waits_until_it_is_captured_and_repeats_the_first_answer(self):
        first = self.pay("cli-1", "--wait", "--metadata", "a=b")
        self.assertEqual((first["answer_status"], first["replayed"]), (202, False))
        self.assertEqual(first["final"]["status"], "succeeded")
        again = self.pay("cli-1", "--metadata", "a=b")
        self.assertTrue(again["replayed"])
        self.assertEqual(again["answer"], first["answer"])
        self.assertIsNone(again["final"])

    def test_a_refusal_names_field_and_rule(self):
        problem = self.pay("cli-2", amount="10.99", code=1)["answer"]
        self.assertEqual((problem["field"], problem["code"]), ("amount", "field_type"))
        done = self.run_cli("pay", "--merchant", "m-1001", "--out-trade-no", "cli-2", "--target", "order/x", "--amount",
                            "0", "--currency", "EUR", "--token", TOKEN, code=1)
        self.assertIn("field amount", done.stderr)
        declined = self.pay("cli-3", "--wait", token="pm_card_chargeDeclined", code=1)["final"]
        self.assertEqual((declined["status"], declined["safe_to_pay_again"]), ("failed", True))

    def test_show_timeline_and_explain_tell_of_a_capture(self):
        payment = self.pay("cli-4", "--wait")["answer"]["payment"]
        shown = self.document("show", "cli-4")
        self.assertEqual(shown, dict(self.document("show", payment), as_of=shown["as_of"]))
        self.assertEqual(shown["payment"], self.document("show", "--target", "order/cli-4", "--merchant", "m-1001")["payment"])
        self.assertEqual((shown["state"], shown["captured"]), ("CAPTURED", 1099))
        attempt = shown["attempts"][0]
        self.assertEqual((attempt["status"], len(attempt["requests"])), ("SUCCEEDED", 1))
        self.assertIn(attempt["proof"], [row["evidence"] for row in attempt["evidence"]])
        entries = self.lines("timeline", payment)
        self.assertEqual([e["at"] for e in entries], sorted(e["at"] for e in entries))
        whats = [(e["kind"], e["what"].split(" (")[0]) for e in entries]
        for expected in [("payment", "CREATED"), ("command", "pay.create.stripe-main.new"), ("attempt", "CREATED -> SENDING"),
                         ("request", "create to stripe-main"), ("attempt", "SENDING -> SUCCEEDED"),
                         ("payment", "AUTHORIZING -> CAPTURED"), ("event", "payment.accepted"), ("event", "payment.succeeded")]:
            self.assertEqual(whats.count(expected), 1, expected)
        answers = {q["question"]: q["answer"] for q in self.document("explain", payment)["questions"]}
        self.assertEqual(answers["what_failed"][0]["text"], "Nothing has failed.")
        self.assertIn("Nobody", answers["what_comes_next"][0]["text"])
        for command in ("show", "timeline", "explain"):  # and for people
            self.assertGreater(len(self.run_cli(command, payment).stdout), 500)

    def test_explain_says_what_recover_then_does(self):
        self.stack.faults([{"action": "lost_after_commit", "times": 3}, {"action": "no_webhooks"}])
        self.addCleanup(lambda: self.stack.faults([]))
        payment = self.pay("cli-5")["answer"]["payment"]
        self.stack.wait_attempt("cli-5", "UNKNOWN")
        answers = {q["question"]: q["answer"] for q in self.document("explain", payment)["questions"]}
        self.assertIn("may have arrived", answers["what_failed"][0]["text"])
        self.assertIn("sends the stored bytes again", answers["what_comes_next"][0]["text"])
        self.stack.wait_payment("cli-5", "CAPTURED")
        answers = {q["question"]: q["answer"] for q in self.document("explain", payment)["questions"]}
        self.assertTrue(any("UNKNOWN -> SUCCEEDED once" in line["text"] for line in answers["how_it_shows"]))
        requests = self.document("show", payment)["attempts"][0]["requests"]
        self.assertEqual([r["kind"] for r in requests], ["create", "replay", "replay", "replay"])

    def test_events_are_published_again_under_their_first_id(self):
        payment = self.pay("cli-6", "--wait")["answer"]["payment"]
        sid = self.stack.nats.subscribe("pay.event.>")
        self.stack.nats.flush()
        self.assertEqual(self.document("outbox", "republish", "--payment", payment), {"published": 2, "complete": True})
        copies = [self.stack.nats.next(sid, 5) for _ in range(2)]
        self.assertEqual([c.headers["ce-type"] for c in copies], ["payment.accepted", "payment.succeeded"])
        ids = [row[0] for row in self.stack.sql(
            "SELECT id FROM oncepay.outbox WHERE kind = 2 AND payment_id = '%s' ORDER BY version" % payment)]
        self.assertEqual([c.headers["ce-id"] for c in copies], ids)
        self.assertGreaterEqual(self.document("outbox", "republish", "--since", "1h")["published"], 2)
        self.run_cli("outbox", "republish", "--payment", "01a22c88-5279-7000-9a67-cf983de0d7be", code=1)

    def test_watch_verify_and_fsm(self):
        self.pay("cli-7", "--wait")
        look = self.document("watch", "--once")
        self.assertEqual({row["stage"] for row in look["stages"]}, {"intake", "route", "create", "follow-up", "recover", "settle"})
        self.assertGreaterEqual(look["newest_payments"]["CAPTURED"], 1)
        self.assertTrue(all(row["holds"] for row in self.lines("verify")))
        rows = self.lines("fsm", "task")
        self.assertIn({"entity": "task", "from": None, "to": "READY", "why": "something about the attempt is open"}, rows)

    def test_what_is_not_there_or_not_understood(self):
        for arguments, code in [(("show", "no-such-number"), 1), (("explain", "01a22c88-5279-7000-9a67-cf983de0d7be"), 1),
                                (("show", "--target", "order/none", "--merchant", "m-1001"), 1),
                                (("dead-letter", "show", "01a22c88-5279-7000-9a67-cf983de0d7be"), 1),
                                (("show",), 2), (("show", "a", "--no-such-option"), 2), (("fsm", "nothing"), 2),
                                (("watch", "--interval", "0"), 2), (("no-such-command",), 2),
                                (("pay", "--merchant", "m 1001"), 2), (("outbox", "republish", "--since", "soon"), 2)]:
            self.run_cli(*arguments, code=code)
        self.assertEqual(self.run_cli("help").stdout, self.run_cli("--help").stdout)


class Readme(Scenario):
    """What README says of itself is true as far as a machine can tell."""

    def text(self):
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
            return file.read()

    def test_its_producer_runs_and_is_answered(self):
        snippet = re.search(r"```python\n(.*?)```", self.text(), re.S).group(1)
        done = self.stack.run("python3", "-c", snippet)
        status, body = done.stdout.splitlines()
        self.assertEqual(status, "pay-status: 202")
        payment = json.loads(body)
        self.assertEqual(payment["status"], "pending")
        self.stack.wait_payment(payment["out_trade_no"], "CAPTURED")

    def test_its_command_runs(self):
        command = re.search(r"^oncepay pay (?:.*\\\n)*.*$", self.text(), re.M).group(0)
        done = self.stack.run("bash", "-c", command)
        self.assertIn("final:    CAPTURED", done.stdout)

    def test_what_it_points_to_is_there(self):
        commands = set(re.findall(r"`oncepay ([a-z-]+)`", self.text()))
        self.assertGreaterEqual(len(commands), 8)
        for command in commands - {"help"}:
            self.stack.cli("help", command)
        paths = [path for path in re.findall(r"`([a-z_.A-Z/]+)`", self.text()) if "/" in path and not path.startswith("/")]
        self.assertGreaterEqual(len(paths), 20)
        for path in paths:
            self.assertTrue(os.path.exists(os.path.join(ROOT, path)), path)


class CliWithoutServers(Scenario):
    stages = ()

    def test_a_server_that_is_away_is_said_within_seconds(self):
        def ends(*arguments):
            done = self.stack.cli(*arguments, check=False)
            self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
            self.assertNotEqual(done.stderr, "")
        pay = ("pay", "--merchant", "m-1001", "--out-trade-no", "x", "--target", "none", "--amount", "1", "--currency",
               "EUR", "--token", "x")
        ends(*pay, "--timeout", "2")  # queued, and nobody answers
        self.stack.stop("nats")
        ends(*pay)
        ends("watch", "--once")
        self.stack.stop("pg")
        for command in (("show", "x"), ("verify",), ("dead-letter", "list"), ("migrate",)):
            ends(*command)


if __name__ == "__main__":
    main()
