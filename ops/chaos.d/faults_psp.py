"""ops/chaos.d/faults_psp.py: what the simulator does wrong for a while, and webhooks that nobody sent.
Rules: ops/sim/README.md.
"""
import hashlib
import hmac
import json
import time

from fault import Fault, register
from world import ACCOUNTS

# Goes on all the time, under everything else.
STEADY = [
    {"action": "lost_after_commit", "match": {"probability": 0.04}},
    {"action": "drop_before", "match": {"probability": 0.02}},
    {"action": "duplicate_webhooks", "match": {"probability": 0.1}},
    {"action": "reorder_webhooks", "ms": 300, "match": {"probability": 0.1}},
]
WEATHER = {
    "answers_lost": [{"action": "lost_after_commit", "match": {"probability": 0.5}},
                     {"action": "reset", "match": {"probability": 0.2}},
                     {"action": "half_body", "match": {"probability": 0.2}}],
    "requests_dropped": [{"action": "drop_before", "times": 2, "match": {"probability": 0.7}}],
    "errors_after": [{"action": "error_5xx_after", "stored": False, "match": {"probability": 0.3}},
                     {"action": "error_5xx_after", "stored": True, "match": {"probability": 0.3}}],
    "errors_before": [{"action": "error_5xx_before", "stored": False, "match": {"probability": 0.3}},
                      {"action": "error_5xx_before", "stored": True, "match": {"probability": 0.3}}],
    "busy": [{"action": "rate_limit_429", "match": {"probability": 0.4}},
             {"action": "in_progress_409", "match": {"probability": 0.4}}],
    "late_answers": [{"action": "answer_delay_ms", "ms": 2500, "match": {"probability": 0.5}}],
    "late_requests": [{"action": "delay_ms", "ms": 2600, "match": {"probability": 0.5}}],
    "lookups_fail": [{"action": "get_404", "times": 2}, {"action": "lost_after_commit",
                                                         "match": {"probability": 0.5}}],
    "wrong_echo": [{"action": "wrong_echo", "amount": 1, "match": {"probability": 0.15}}],
    "late_webhooks": [{"action": "webhook_delay_ms", "ms": 4000, "match": {"probability": 0.6}},
                      {"action": "lost_after_commit", "match": {"probability": 0.4}}],
    "forged_webhooks": [{"action": "forge_webhooks", "times": 2, "match": {"probability": 0.6}},
                        {"action": "duplicate_webhooks", "times": 3, "match": {"probability": 0.4}}],
    "no_webhooks": [{"action": "no_webhooks"}, {"action": "lost_after_commit",
                                                "match": {"probability": 0.5}}],
    "replays_fail": [{"action": "lost_after_commit", "times": 4, "match": {"probability": 0.5}}],
    # The two hostile profiles of design §6.
    "keep_successes_only": [{"action": "keep_successes_only"},
                            {"action": "decline", "code": "do_not_honor", "match": {"probability": 0.4}},
                            {"action": "lost_after_commit", "match": {"probability": 0.4}}],
    "declined_stays_payable": [{"action": "declined_stays_payable", "ms": 1500},
                               {"action": "decline", "code": "generic_decline",
                                "match": {"probability": 0.4}}],
}


@register
class Weather(Fault):
    """A set of rules instead of the steady ones. Which rule meets a request is drawn by the simulator
    from its seed and the request's key."""
    name = "psp"
    touches = ("rules",)
    duration_s = (2.0, 5.0)

    def drawn(self, draw):
        return {"weather": draw.choice(sorted(WEATHER))}

    def begin(self, run):
        self.is_set = run.world.set_rules(WEATHER[self.parameters["weather"]])
        self.rows = run.ledger_rows()

    def end(self, run):
        run.world.set_rules(STEADY)
        if self.is_set and run.ledger_rows() > self.rows:
            run.saw("psp." + self.parameters["weather"])


def sign(body, account, at):
    secret = "whsec_sim_" + account
    digest = hmac.new(secret.encode(), b"%d." % at + body, hashlib.sha256).hexdigest()
    return "t=%d,v1=%s" % (at, digest)


@register
class ForgedWebhooks(Fault):
    """Events that the PSP never sent: badly signed, signed long ago, for another account, unsigned, no
    event at all. All say that real payments succeeded; none of it may count."""
    name = "forged_webhooks"
    duration_s = (0, 0)

    def begin(self, run):
        keys = run.open_keys()
        refused = 0
        for key, account in keys[:10]:
            body = json.dumps({
                "id": "evt_forged_" + key[-12:], "object": "event", "type": "payment_intent.succeeded",
                "created": int(time.time()), "data": {"object": {
                    "id": "pi_forged_" + key[-12:], "object": "payment_intent", "amount": 1,
                    "amount_received": 1, "currency": "eur", "status": "succeeded",
                    "metadata": {"reference": key}}}}).encode()
            now = int(time.time())
            other = ACCOUNTS[account == ACCOUNTS[0]]
            for signature in ("t=%d,v1=%s" % (now, "0" * 64), sign(body, account, now - 4000),
                              sign(body, other, now), "", "t=,v1="):
                status = run.post_webhook(account, body, signature)
                refused += status in (400, 401, 403)
                if status is not None and status < 300:
                    run.problem("a forged webhook was accepted: %s" % signature)
        if refused:
            run.saw("webhooks.refused", refused)


@register
class OldWebhooks(Fault):
    """True events again, as the PSP signs them, about payments of long ago; twice, and out of order."""
    name = "old_webhooks"
    touches = ("sim",)
    duration_s = (0, 0)

    def begin(self, run):
        sent = 0
        for row in run.old_charges(12):
            kind = {"succeeded": "succeeded", "failed": "payment_failed"}.get(row["state"])
            if kind and run.world.sim("/_sim/webhook", {
                    "account": row["account"], "type": "payment_intent." + kind,
                    "object": row["object"], "duplicates": 1, "created_offset_s": -5}, "POST"):
                sent += 1
        if sent:
            run.saw("webhooks.old", sent)
