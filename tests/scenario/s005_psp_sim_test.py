"""The simulator itself: what everything else is measured against must not lie. Faults on the wire,
kills, keys, webhooks.
"""
import http.client
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from psp_sim import (  # noqa: E402
    CREATE, PATIENCE_S, PROGRAM, Receiver, Simulator, form, is_signed, wait_for)


class Case(unittest.TestCase):
    options = ()

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="oncepay-sim-")
        self.addCleanup(shutil.rmtree, self.directory)
        self.sim = Simulator(self.directory, *self.make_options())
        self.addCleanup(self.check_clean_stop)

    def make_options(self):
        return self.options

    def check_clean_stop(self):
        self.assertEqual(self.sim.stop(), 0)

    def states(self, key=None):
        return [row["state"] for row in self.sim.ledger(key)]


class Protocol(Case):
    def test_create_replay_mismatch_retrieve(self):
        first = self.sim.create("k1")
        self.assertEqual((first.status, first.json["status"]), (200, "succeeded"))
        self.assertEqual(first.json["metadata"], {"reference": "k1"})
        self.assertFalse(first.replayed)
        again = self.sim.create("k1")
        self.assertEqual((again.status, again.body, again.replayed), (200, first.body, True))
        other = self.sim.create("k1", amount=1100)
        self.assertEqual((other.status, other.json["error"]["type"]), (400, "idempotency_error"))
        self.assertEqual(self.sim.retrieve(first.json["id"]).json["status"], "succeeded")
        self.assertEqual(self.sim.ledger(), [{
            "account": "stripe-main", "key": "k1", "object": first.json["id"],
            "amount": 1099, "currency": "EUR", "state": "succeeded"}])

    def test_declines_are_stored_under_the_key(self):
        declined = self.sim.create("k", payment_method="pm_card_chargeDeclinedStolenCard")
        error = declined.json["error"]
        self.assertEqual(declined.status, 402)
        self.assertEqual((error["type"], error["code"], error["decline_code"]),
                         ("card_error", "card_declined", "stolen_card"))
        self.assertEqual(error["payment_intent"]["status"], "requires_payment_method")
        again = self.sim.create("k", payment_method="pm_card_chargeDeclinedStolenCard")
        self.assertEqual((again.status, again.body, again.replayed), (402, declined.body, True))
        self.assertEqual(self.states(), ["failed"])

    def test_accounts_are_apart_and_keys_are_checked(self):
        one = self.sim.create("k")
        two = self.sim.create("k", account="stripe-backup")
        self.assertNotEqual(one.json["id"], two.json["id"])
        self.assertEqual(self.sim.retrieve(one.json["id"], "stripe-backup").status, 404)
        missing = self.sim.retrieve("pi_none")
        self.assertEqual((missing.status, missing.json["error"]["code"]), (404, "resource_missing"))
        refused = self.sim.ask("POST", "/stripe-main" + CREATE, form(),
                               {"Authorization": "Bearer sk_sim_stripe-backup"})
        self.assertEqual((refused.status, refused.json["error"]["type"]),
                         (401, "invalid_request_error"))
        self.assertEqual(self.sim.ask("GET", "/stripe-main" + CREATE).status, 401)
        self.assertEqual(self.sim.ask("GET", "/nonsense").status, 404)
        self.assertEqual(len(self.sim.ledger()), 2)

    def test_bad_requests_store_nothing(self):
        bad = self.sim.create("k", amount="10.0")
        self.assertEqual((bad.status, bad.json["error"]["param"]), (400, "amount"))
        self.assertEqual(self.sim.create("k").status, 200)
        self.assertEqual(self.sim.create("x" * 256).status, 400)
        big = self.sim.create("big", description="x" * 300000)
        self.assertEqual(big.status, 413)

    def test_without_a_key_every_request_charges(self):
        self.assertNotEqual(self.sim.create(None).json["id"], self.sim.create(None).json["id"])
        self.assertEqual([r["key"] for r in self.sim.ledger()], [None, None])

    def test_a_key_is_forgotten_after_24_hours(self):
        first = self.sim.create("k").json["id"]
        self.sim.control("POST", "/clock", {"advance_s": 24 * 3600 - 60})
        self.assertEqual(self.sim.create("k").json["id"], first)
        self.sim.control("POST", "/clock", {"advance_s": 120})
        self.sim.kill_and_restart()
        second = self.sim.create("k")
        self.assertFalse(second.replayed)
        self.assertNotEqual(second.json["id"], first)
        self.assertEqual(self.states("k"), ["succeeded", "succeeded"])

    def test_reset_forgets_all_but_the_rules(self):
        self.sim.faults({"action": "decline", "match": {"amount": 7}})
        first = self.sim.create("k").json["id"]
        self.sim.control("POST", "/reset")
        self.assertEqual(self.sim.ledger(), [])
        self.assertEqual(self.sim.control("GET", "/requests"), {"totals": [], "keys": []})
        self.assertEqual(self.sim.retrieve(first).status, 404)
        self.assertEqual(self.sim.create("k", amount=7).status, 402)

    def test_requests_are_counted_by_key_with_their_times(self):
        before = int(time.monotonic() * 1000) - 1
        object_id = self.sim.create("k").json["id"]
        self.sim.create("k")
        self.sim.create("other")
        self.sim.retrieve(object_id)
        seen = self.sim.control("GET", "/requests?account=stripe-main&key=k")
        (entry,) = seen["keys"]
        self.assertEqual((entry["key"], entry["posts"], len(entry["arrivals"])), ("k", 2, 2))
        for arrival in entry["arrivals"]:
            self.assertTrue(before <= arrival["monotonic_ms"] <= time.monotonic() * 1000 + 1)
            self.assertAlmostEqual(arrival["real_ms"] / 1000, time.time(), delta=5)
        totals = {(t["method"], t["kind"]): t["count"] for t in seen["totals"]}
        self.assertEqual(totals, {("POST", "create"): 3, ("GET", "retrieve"): 1})

    def test_ledger_as_lines(self):
        self.sim.create("a")
        self.sim.create("b", account="stripe-backup")
        lines = self.sim.ask("GET", "/_sim/ledger?format=ndjson").body.decode().splitlines()
        self.assertEqual([json.loads(line)["key"] for line in lines], ["a", "b"])
        rows = self.sim.control("GET", "/ledger?account=stripe-backup")
        self.assertEqual([r["key"] for r in rows], ["b"])

    def test_bad_control_requests_are_refused_in_words(self):
        for method, path, body, status, word in [
                ("PUT", "/faults", [{"action": "explode"}], 400, "action"),
                ("POST", "/clock", {"advance": 1}, 400, "advance_s"),
                ("POST", "/clock", {"advance_s": -1}, 400, "advance_s"),
                ("POST", "/resolve", {"account": "a", "object": "pi_1", "result": "pending"}, 400,
                 "result"),
                ("POST", "/resolve", {"account": "a", "object": "pi_1", "result": "failed"}, 404,
                 "object"),
                ("POST", "/webhook", {"account": "a", "type": "x", "object": "pi_1"}, 400,
                 "webhook-url"),
                ("GET", "/reset", None, 405, "method"),
                ("GET", "/nothing", None, 404, "path")]:
            answer = self.sim.control(method, path, body)
            self.assertEqual(answer.status, status, (path, answer.body))
            self.assertIn(word, answer.json["error"])


class Faults(Case):
    def connection_after_one_answer(self, key="warm-up"):
        connection = self.sim.connect()
        self.assertEqual(self.sim.create(key, connection=connection).status, 200)
        return connection

    def test_lost_after_commit_survives_a_kill(self):
        self.sim.faults({"action": "lost_after_commit", "match": {"key_prefix": "k"}})
        with self.assertRaises(http.client.RemoteDisconnected):
            self.sim.create("k1")
        self.sim.kill_and_restart()
        (row,) = self.sim.ledger("k1")
        self.assertEqual(row["state"], "succeeded")
        replay = self.sim.create("k1")
        self.assertEqual((replay.status, replay.replayed), (200, True))
        self.assertEqual(replay.json["id"], row["object"])
        self.assertEqual(self.sim.create("k1").body, replay.body)
        self.assertEqual(len(self.sim.ledger("k1")), 1)

    def test_drop_before_does_nothing(self):
        self.sim.faults({"action": "drop_before", "match": {"key_prefix": "k"}, "times": 2})
        for _ in range(2):
            with self.assertRaises(http.client.RemoteDisconnected):
                self.sim.create("k1")
        self.assertEqual(self.sim.ledger(), [])
        answer = self.sim.create("k1")
        self.assertEqual((answer.status, answer.replayed), (200, False))

    def test_drop_before_is_not_drawn_again_after_a_kill(self):
        rules = pathlib.Path(self.directory, "rules.json")
        rules.write_text(json.dumps([{"action": "drop_before"}]))
        self.sim.options = ("--faults", str(rules))
        self.sim.kill_and_restart()
        with self.assertRaises(http.client.RemoteDisconnected):
            self.sim.create("k1")
        self.sim.kill_and_restart()
        self.assertEqual(self.sim.create("k1").status, 200)

    def test_reset_on_a_kept_alive_connection_commits_once(self):
        connection = self.connection_after_one_answer()
        self.sim.faults({"action": "reset"})
        with self.assertRaises(ConnectionResetError):
            self.sim.create("k1", connection=connection)
        connection.close()
        self.assertEqual(self.states("k1"), ["succeeded"])
        self.assertTrue(self.sim.create("k1").replayed)

    def test_half_a_body(self):
        connection = self.connection_after_one_answer()
        self.sim.faults({"action": "half_body"})
        with self.assertRaises(http.client.IncompleteRead) as caught:
            self.sim.create("k1", connection=connection)
        connection.close()
        self.assertGreater(len(caught.exception.partial), 100)
        self.assertEqual(self.states("k1"), ["succeeded"])

    def test_errors_5xx_are_stored_or_not(self):
        for action, stored, rows, replay in [
                ("error_5xx_before", True, 0, 500), ("error_5xx_after", True, 1, 500),
                ("error_5xx_before", False, 0, 200), ("error_5xx_after", False, 1, 200)]:
            key = f"{action}-{stored}"
            self.sim.faults({"action": action, "stored": stored})
            first = self.sim.create(key)
            self.assertEqual(first.status, 500)
            self.assertEqual(first.body.startswith(b"<html>"), not stored)
            self.assertEqual(len(self.sim.ledger(key)), rows)
            self.sim.kill_and_restart()
            self.assertEqual(self.sim.create(key).status, replay, key)
            self.assertEqual(len(self.sim.ledger(key)), rows if stored else 1)

    def test_gateway_error_with_another_status(self):
        self.sim.faults({"action": "error_5xx_after", "status": 502, "stored": False, "times": 2})
        self.assertEqual([self.sim.create("k").status for _ in range(3)], [502, 502, 200])
        self.assertEqual(self.states("k"), ["succeeded"])

    def test_429_and_409_store_nothing(self):
        for action, status, code in [("rate_limit_429", 429, "rate_limit"),
                                     ("in_progress_409", 409, "idempotency_key_in_use")]:
            self.sim.faults({"action": action})
            first = self.sim.create(action)
            self.assertEqual((first.status, first.json["error"]["code"]), (status, code))
            self.assertEqual(self.sim.ledger(action), [])
            second = self.sim.create(action)
            self.assertEqual((second.status, second.replayed), (200, False))

    def test_a_delayed_request_holds_its_key_and_outlives_its_client(self):
        self.sim.faults({"action": "delay_ms", "ms": 400})
        client = socket.create_connection(("127.0.0.1", self.sim.port))
        body = form(**{"metadata[reference]": "k1"})
        client.sendall((f"POST /stripe-main{CREATE} HTTP/1.1\r\nHost: x\r\n"
                        "Authorization: Bearer sk_sim_stripe-main\r\nIdempotency-Key: k1\r\n"
                        f"Content-Length: {len(body)}\r\n\r\n{body}").encode())
        running = wait_for("arrival", lambda: self.sim.control("GET", "/requests?key=k1")["keys"])
        self.assertEqual(running[0]["posts"], 1)
        client.close()
        self.assertEqual(self.sim.create("k1").status, 409)
        self.assertEqual(self.sim.ledger(), [])
        wait_for("the charge", lambda: self.sim.ledger("k1"))
        answer = self.sim.create("k1")
        self.assertEqual((answer.status, answer.replayed), (200, True))

    def test_a_delayed_answer_is_committed_at_once(self):
        self.sim.faults({"action": "answer_delay_ms", "ms": 300})
        started = time.monotonic()
        thread = threading.Thread(target=self.sim.create, args=("k1",))
        thread.start()
        wait_for("the charge", lambda: self.sim.ledger("k1"))
        self.assertLess(time.monotonic() - started, 0.29)
        self.assertTrue(self.sim.create("k1").replayed)
        thread.join()
        self.assertGreater(time.monotonic() - started, 0.29)

    def test_declines_and_wrong_echoes_by_rule(self):
        self.sim.faults({"action": "decline", "code": "issuer_not_available", "limit": 1},
                        {"action": "wrong_echo", "amount": 5, "currency": "usd",
                         "reference": "somebody", "match": {"amount": 99}})
        self.assertEqual(self.sim.create("a").json["error"]["decline_code"],
                         "issuer_not_available")
        self.assertEqual(self.sim.create("b").status, 200)
        wrong = self.sim.create("c", amount=99)
        self.assertEqual((wrong.json["amount_received"], wrong.json["currency"]), (5, "usd"))
        self.assertEqual(wrong.json["metadata"], {"reference": "somebody"})
        self.assertEqual(self.sim.create("c", amount=99).body, wrong.body)
        self.assertEqual(self.sim.ledger("c")[0]["amount"], 5)

    def test_lookups_fail_n_times_or_for_ever(self):
        object_id = self.sim.create("k").json["id"]
        for action, status in [("get_404", 404), ("get_403", 403), ("get_429", 429),
                               ("get_5xx", 503)]:
            rule = {"action": action, "times": 2}
            if action == "get_5xx":
                rule["status"] = 503
            self.sim.faults(rule)
            self.assertEqual([self.sim.retrieve(object_id).status for _ in range(3)],
                             [status, status, 200])
        self.sim.faults({"action": "get_drop", "limit": 1}, {"action": "get_404"})
        with self.assertRaises(http.client.RemoteDisconnected):
            self.sim.retrieve(object_id)
        self.assertEqual([self.sim.retrieve(object_id).status for _ in range(5)], [404] * 5)
        self.sim.faults({"action": "get_delay_ms", "ms": 200})
        started = time.monotonic()
        self.assertEqual(self.sim.retrieve(object_id).status, 200)
        self.assertGreater(time.monotonic() - started, 0.19)

    def test_stops_with_requests_in_flight(self):
        self.sim.faults({"action": "delay_ms", "ms": 60000})
        thread = threading.Thread(target=lambda: self.assertRaises(
            http.client.RemoteDisconnected, self.sim.create, "k1"))
        thread.start()
        wait_for("arrival", lambda: self.sim.control("GET", "/requests?key=k1")["keys"])
        self.assertEqual(self.sim.stop(), 0)
        thread.join()
        self.sim.start()
        self.assertEqual(self.sim.ledger(), [])

    def test_reset_ends_what_waits(self):
        self.sim.faults({"action": "delay_ms", "ms": 60000})
        thread = threading.Thread(target=lambda: self.assertRaises(
            http.client.RemoteDisconnected, self.sim.create, "k1"))
        thread.start()
        wait_for("arrival", lambda: self.sim.control("GET", "/requests?key=k1")["keys"])
        self.sim.control("POST", "/reset")
        thread.join()
        self.sim.faults()
        self.assertEqual(self.sim.create("k1").status, 200)


class Lost(Case):
    options = ("--faults", "lost", "--seed", "42")

    def first_answer(self, key):
        try:
            return self.sim.create(key).status
        except http.client.RemoteDisconnected:
            return "none"

    def test_one_charge_per_key_and_the_same_faults_in_any_order(self):
        keys = [f"key-{i}" for i in range(300)]
        first = {key: self.first_answer(key) for key in keys}
        statuses = set(first.values())
        self.assertEqual(statuses, {200, "none", 500, 409})
        for key in keys:
            answer = self.sim.create(key)
            self.assertEqual(answer.status, 500 if first[key] == 500 else 200)
        rows = self.sim.ledger()
        self.assertEqual(sorted(r["key"] for r in rows), sorted(keys))
        self.sim.control("POST", "/reset")
        self.assertEqual({key: self.first_answer(key) for key in reversed(keys)}, first)


class Hostile(Case):
    def test_keeps_only_successes_under_the_key(self):
        self.sim.faults({"action": "keep_successes_only", "match": {"account": "stripe-main"}},
                        {"action": "decline", "limit": 1},
                        {"action": "error_5xx_after", "match": {"amount": 5}})
        self.assertEqual(self.sim.create("k").status, 402)
        second = self.sim.create("k")
        self.assertEqual((second.status, second.replayed), (200, False))
        self.assertTrue(self.sim.create("k").replayed)
        self.assertEqual(self.states("k"), ["failed", "succeeded"])
        self.assertEqual([self.sim.create("x", amount=5).status for _ in range(2)], [500, 200])
        self.assertEqual(self.states("x"), ["succeeded", "succeeded"])

    def test_declined_object_stays_payable(self):
        self.sim.stop()
        self.sim.options = ("--profile", "declined_stays_payable")
        self.sim.start()
        declined = self.sim.create("k", payment_method="pm_card_chargeDeclined")
        object_id = declined.json["error"]["payment_intent"]["id"]
        self.sim.kill_and_restart()
        row = self.sim.control("POST", "/resolve", {"account": "stripe-main", "object": object_id,
                                                    "result": "succeeded"})
        self.assertEqual(row["state"], "succeeded")
        self.assertEqual(self.sim.retrieve(object_id).json["status"], "succeeded")
        again = self.sim.create("k", payment_method="pm_card_chargeDeclined")
        self.assertEqual((again.status, again.body), (402, declined.body))
        self.sim.faults({"action": "declined_stays_payable", "ms": 50})
        self.sim.create("late", payment_method="pm_card_chargeDeclined")
        wait_for("the late payment", lambda: self.states("late") == ["succeeded"])

    def test_an_answer_denies_what_was_charged(self):
        self.sim.faults({"action": "answer_declined", "code": "do_not_honor"})
        denied = self.sim.create("k")
        self.assertEqual((denied.status, denied.json["error"]["decline_code"]),
                         (402, "do_not_honor"))
        self.assertEqual(self.states("k"), ["succeeded"])
        again = self.sim.create("k")
        self.assertEqual((again.status, again.json["status"]), (200, "succeeded"))
        self.assertEqual(self.sim.retrieve(again.json["id"]).json["status"], "succeeded")

    def test_lookups_deny_what_was_charged(self):
        object_id = self.sim.create("k").json["id"]
        for action, status in (("get_declined", "requires_payment_method"),
                               ("get_processing", "processing")):
            self.sim.faults({"action": action, "times": 1})
            told = [self.sim.retrieve(object_id).json["status"] for _ in range(2)]
            self.assertEqual(told, [status, "succeeded"])
        self.assertEqual(self.states("k"), ["succeeded"])

    def test_a_faithful_decline_is_final(self):
        self.sim.create("k", payment_method="pm_card_chargeDeclined")
        answer = self.sim.control("POST", "/resolve", {"account": "stripe-main", "key": "k",
                                                       "result": "succeeded"})
        self.assertEqual(answer.status, 409)


class Webhooks(Case):
    def make_options(self):
        self.receiver = Receiver()
        self.addCleanup(self.receiver.close)
        return ("--webhook-url", self.receiver.url)

    def waiting(self):
        return self.sim.control("GET", "/health")["webhooks"]["waiting"]

    def settle(self):
        wait_for("all webhooks", lambda: self.waiting() == 0)

    def test_events_are_signed_and_carry_the_metadata(self):
        object_id = self.sim.create("k1").json["id"]
        self.sim.create("k2", payment_method="pm_card_chargeDeclined")
        self.sim.create("k3", payment_method="pm_card_authenticationRequired")
        self.sim.create("k4", payment_method="pm_sim_pending_canceled_100")
        wait_for("the late end", lambda: self.states("k4") == ["canceled"])
        self.settle()
        for path, signature, body in self.receiver.events:
            self.assertEqual(path, "/webhooks/stripe-main")
            self.assertTrue(is_signed("stripe-main", signature, body))
        kinds = sorted((e["data"]["object"]["metadata"]["reference"], e["type"])
                       for e in self.receiver.parsed())
        self.assertEqual(kinds, [("k1", "payment_intent.succeeded"),
                                 ("k2", "payment_intent.payment_failed"),
                                 ("k3", "payment_intent.requires_action"),
                                 ("k4", "payment_intent.canceled"),
                                 ("k4", "payment_intent.processing")])
        self.assertEqual(self.receiver.parsed("payment_intent.succeeded")[0]["data"]["object"]["id"],
                         object_id)

    def test_events_are_repeated_until_accepted_across_a_kill(self):
        self.receiver.willing = False
        self.sim.create("k1")
        wait_for("two tries", lambda: len(self.receiver.events) >= 2)
        self.sim.kill_and_restart()
        wait_for("a try of the new process", lambda: len(self.receiver.events) >= 3)
        self.receiver.willing = True
        self.settle()
        bodies = {body for _, _, body in self.receiver.events}
        self.assertEqual(len(bodies), 1)
        count = len(self.receiver.events)
        self.sim.kill_and_restart()
        self.sim.create("k2")
        self.settle()
        self.assertEqual(len(self.receiver.events), count + 1)

    def test_a_receiver_that_is_away_delays_no_answer(self):
        self.receiver.close()
        started = time.monotonic()
        for i in range(200):
            self.assertEqual(self.sim.create(f"k{i}").status, 200)
        self.assertLess(time.monotonic() - started, PATIENCE_S / 2)
        self.assertEqual(self.waiting(), 200)

    def test_pending_survives_a_kill(self):
        self.sim.faults({"action": "pending_then", "ms": 500, "result": "succeeded"})
        self.assertEqual(self.sim.create("k").json["status"], "processing")
        self.sim.kill_and_restart()
        wait_for("the result", lambda: self.states("k") == ["succeeded"])
        wait_for("both events", lambda: len({e["type"] for e in self.receiver.parsed()}) == 2)

    def test_resolve_ends_what_is_pending(self):
        object_id = self.sim.create("k", payment_method="pm_sim_pending").json["id"]
        order = {"account": "stripe-main", "object": object_id, "result": "failed",
                 "code": "insufficient_funds"}
        self.assertEqual(self.sim.control("POST", "/resolve", order)["state"], "failed")
        self.assertEqual(self.sim.control("POST", "/resolve", order).status, 409)
        failed = wait_for("event", lambda: self.receiver.parsed("payment_intent.payment_failed"))
        self.assertEqual(failed[0]["data"]["object"]["last_payment_error"]["decline_code"],
                         "insufficient_funds")

    def test_duplicates_forgeries_and_silence(self):
        self.sim.faults({"action": "duplicate_webhooks", "times": 2, "match": {"amount": 1}},
                        {"action": "forge_webhooks", "match": {"amount": 2}},
                        {"action": "no_webhooks", "match": {"amount": 3}})
        for amount in (1, 2, 3):
            self.sim.create(f"k{amount}", amount=amount)
        self.settle()
        seen = {1: [], 2: [], 3: []}
        for _, signature, body in self.receiver.events:
            amount = json.loads(body)["data"]["object"]["amount"]
            seen[amount].append((json.loads(body)["id"], is_signed("stripe-main", signature, body)))
        self.assertEqual((len(seen[1]), len(set(seen[1]))), (3, 1))
        self.assertEqual(sorted(good for _, good in seen[2]), [False, True])
        self.assertEqual(seen[3], [])

    def test_reordered_and_delayed_events_come_later(self):
        self.sim.faults({"action": "reorder_webhooks", "ms": 300, "match": {"amount": 1}},
                        {"action": "webhook_delay_ms", "ms": 150, "match": {"amount": 2}})
        for amount in (1, 2, 3):
            self.sim.create(f"k{amount}", amount=amount)
        self.settle()
        self.assertEqual([e["data"]["object"]["amount"] for e in self.receiver.parsed()], [3, 2, 1])

    def test_events_on_request(self):
        object_id = self.sim.create("k").json["id"]
        self.settle()
        send = lambda **body: self.sim.control(
            "POST", "/webhook", {"account": "stripe-main", "object": object_id, **body})
        made = send(type="payment_intent.payment_failed", code="lost_card", duplicates=1,
                    created_offset_s=-3600)
        self.settle()
        events = self.receiver.parsed("payment_intent.payment_failed")
        self.assertEqual([e["id"] for e in events], [made["event"]] * 2)
        self.assertAlmostEqual(events[0]["created"], time.time() - 3600, delta=10)
        self.assertEqual(events[0]["data"]["object"]["status"], "requires_payment_method")
        self.assertEqual(self.states("k"), ["succeeded"])

        send(type="payment_intent.succeeded", bad_signature=True)
        send(type="payment_intent.succeeded", timestamp_offset_s=-600, amount=5)
        self.settle()
        _, forged, body = self.receiver.events[-2]
        self.assertFalse(is_signed("stripe-main", forged, body))
        _, old, body = self.receiver.events[-1]
        self.assertTrue(is_signed("stripe-main", old, body))
        self.assertAlmostEqual(int(old[2:].split(",")[0]), time.time() - 600, delta=10)
        self.assertEqual(json.loads(body)["data"]["object"]["amount"], 5)
        self.assertEqual(send(type="payment_intent.succeeded", charge=True).status, 409)

    def test_events_on_request_can_charge(self):
        self.sim.create("k", payment_method="pm_card_chargeDeclined")
        order = {"account": "stripe-main", "type": "payment_intent.succeeded", "charge": True}
        self.sim.control("POST", "/webhook", {**order, "key": "k"})
        self.assertEqual(self.states("k"), ["succeeded"])
        self.sim.control("POST", "/webhook", {
            **order, "object": "pi_foreign", "key": "k", "amount": 3, "currency": "eur",
            "metadata": {"reference": "k"}})
        self.assertEqual(self.states("k"), ["succeeded", "succeeded"])
        self.sim.kill_and_restart()
        self.settle()
        self.assertEqual(self.states("k"), ["succeeded", "succeeded"])
        seen = self.receiver.parsed("payment_intent.succeeded")
        self.assertEqual({e["data"]["object"]["amount_received"] for e in seen}, {1099, 3})


class CommandLine(unittest.TestCase):
    def run_program(self, *arguments):
        return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=PATIENCE_S)

    def test_usage(self):
        self.assertEqual(self.run_program("--help").returncode, 0)
        for arguments in [(), ("--port", "0"), ("--port", "x", "--data", "/tmp"), ("--no-such",)]:
            self.assertEqual(self.run_program(*arguments).returncode, 2, arguments)

    def test_what_cannot_start_says_why(self):
        with tempfile.TemporaryDirectory(prefix="oncepay-sim-") as directory:
            rules = pathlib.Path(directory, "rules.json")
            rules.write_text('[{"action": "explode"}]')
            base = ("--port", "0", "--data", directory + "/data")
            for extra, word in [(("--faults", str(rules)), "rule 0: action"),
                                (("--faults", directory + "/none"), "none"),
                                (("--profile", "reset"), "profile reset"),
                                (("--data", directory + "/a/b"), "No such file")]:
                done = self.run_program(*base, *extra)
                self.assertEqual((done.returncode, word in done.stderr), (3, True), done.stderr)
            sim = Simulator(directory + "/data")
            self.addCleanup(sim.stop_if_running)
            done = self.run_program(*base)
            self.assertIn("in use by another simulator", done.stderr)
            other = self.run_program("--port", str(sim.port), "--data", directory + "/other")
            self.assertIn("Address already in use", other.stderr)


if __name__ == "__main__":
    unittest.main()
