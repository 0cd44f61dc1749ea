"""ops/chaos.d/faults_psp.py: what the simulator does wrong for a while, and webhooks that nobody
sent. Rules: ops/sim/README.md.
"""
import hashlib
import hmac
import json
import time

import schedule
from fault import Fault, register
from world import ACCOUNTS


def rule(action, probability=1.0, method=None, **more):
    match = {"probability": probability, **({"method": method} if method else {})}
    return {"action": action, "match": match, **more}


# What is paid after its decline is known by its webhook alone: before rules may come that keep it.
PAID_LATE_MS = 900
assert PAID_LATE_MS < schedule.SETTLE_S * 1000

# Goes on all the time, under everything else.
STEADY = [rule("lost_after_commit", 0.04), rule("drop_before", 0.02),
          rule("duplicate_webhooks", 0.1), rule("reorder_webhooks", 0.1, ms=300)]
WEATHER = {
    "answers_lost": [rule("lost_after_commit", 0.5), rule("reset", 0.2), rule("half_body", 0.2)],
    "requests_dropped": [rule("drop_before", 0.7, times=2)],
    "errors_after": [rule("error_5xx_after", 0.3, stored=False),
                     rule("error_5xx_after", 0.05, stored=True)],
    "errors_before": [rule("error_5xx_before", 0.3, stored=False),
                      rule("error_5xx_before", 0.05, stored=True)],
    "busy": [rule("rate_limit_429", 0.4), rule("in_progress_409", 0.4)],
    "late_answers": [rule("answer_delay_ms", 0.5, ms=2500)],
    "late_requests": [rule("delay_ms", 0.5, ms=2600)],
    "lookups_fail": [rule("get_404", times=2), rule("lost_after_commit", 0.5)],
    "wrong_echo": [rule("wrong_echo", 0.1, amount=1)],
    # It contradicts itself: what it answers or shows is not what it has done; its webhooks are true.
    "answers_contradict": [rule("answer_declined", 0.3, code="do_not_honor"),
                           rule("webhook_delay_ms", 0.5, ms=1500)],
    "lookups_contradict": [rule("get_declined", 0.5, times=1), rule("lost_after_commit", 0.3),
                           rule("webhook_delay_ms", 0.9, ms=4000)],
    "lookups_stale": [rule("get_processing", 0.8, times=2), rule("lost_after_commit", 0.3),
                      rule("webhook_delay_ms", 0.9, ms=3000)],
    "late_webhooks": [rule("webhook_delay_ms", 0.6, ms=4000), rule("lost_after_commit", 0.4)],
    "forged_webhooks": [rule("forge_webhooks", 0.6, times=2),
                        rule("duplicate_webhooks", 0.4, times=3)],
    # Only of what ends at once: what ends later might be denied by a look-up of other rules.
    "no_webhooks": [rule("no_webhooks", method="pm_card_visa"), rule("lost_after_commit", 0.5)],
    "replays_fail": [rule("lost_after_commit", 0.5, times=4)],
    # The two hostile profiles of design §6.
    "keep_successes_only": [rule("keep_successes_only"), rule("lost_after_commit", 0.4),
                            rule("decline", 0.4, code="do_not_honor")],
    "declined_stays_payable": [rule("declined_stays_payable", ms=PAID_LATE_MS),
                               rule("decline", 0.4, code="generic_decline")],
}


@register
class Weather(Fault):
    """A set of rules instead of the steady ones. Which rule meets a request is drawn by the
    simulator from its seed and the request's key."""
    name = "psp"
    touches = ("rules", "sim")
    duration_s = (2.0, 4.0)
    patience_s = 8.0
    # Some twice: what they lead to is rare.
    variants = tuple({"weather": weather} for weather in
                     [*WEATHER, "declined_stays_payable", "wrong_echo"])

    def begin(self, run):
        run.world.set_rules(WEATHER[self.parameters["weather"]])

    def applied(self, run):
        """How often the rule was that it is named after."""
        rules = run.world.sim("/_sim/faults") or []
        return rules[0]["applied"] if rules else 0

    def has_met(self, run):
        return self.applied(run) > 0

    def end(self, run):
        applied = self.applied(run)
        run.world.set_rules(STEADY)
        if applied:
            run.saw("psp." + self.parameters["weather"], applied)


def sign(body, account, at):
    secret = "whsec_sim_" + account
    digest = hmac.new(secret.encode(), b"%d." % at + body, hashlib.sha256).hexdigest()
    return "t=%d,v1=%s" % (at, digest)


@register
class ForgedWebhooks(Fault):
    """Events that the PSP never sent: badly signed, signed long ago, for another account,
    unsigned, no event at all. All say that real payments succeeded; none of it may count."""
    name = "forged_webhooks"
    duration_s = (0, 0)

    def begin(self, run):
        refused = 0
        for key, account in run.open_keys(10):
            body = json.dumps({
                "id": "evt_forged_" + key[-12:], "object": "event",
                "type": "payment_intent.succeeded",
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
class LyingWebhooks(Fault):
    """Signed by the PSP, and false: of payments that succeeded, failures dated after it. One look
    at the PSP shows that they are."""
    name = "lying_webhooks"
    touches = ("sim",)
    duration_s = (0, 0)
    variants = ({}, {})

    def begin(self, run):
        sent = 0
        for account, identity, status in run.ended_objects(6):
            if status == "50" and run.world.sim("/_sim/webhook", {
                    "account": account, "type": "payment_intent.payment_failed",
                    "object": identity, "code": "lost_card", "created_offset_s": 2}, "POST"):
                sent += 1
        if sent:
            run.saw("webhooks.lying", sent)


@register
class OldWebhooks(Fault):
    """True events again, as the PSP signs them, about payments of long ago; twice, and out of
    order."""
    name = "old_webhooks"
    touches = ("sim",)
    duration_s = (0, 0)

    def begin(self, run):
        sent = 0
        for account, identity, status in run.ended_objects(12):
            kind = "succeeded" if status == "50" else "payment_failed"
            if run.world.sim("/_sim/webhook", {
                    "account": account, "type": "payment_intent." + kind, "object": identity,
                    "duplicates": 1, "created_offset_s": -5}, "POST"):
                sent += 1
        if sent:
            run.saw("webhooks.old", sent)
