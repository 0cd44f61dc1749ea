"""ops/chaos.d/states.py: rare states, and whether a run reached them. They are read from what is
stored and logged, not from what was planned: a fault that met nobody reaches nothing.
"""
import glob
import os

UNKNOWN_THEN = """
SELECT count(DISTINCT a.id) FROM oncepay.payment_attempt a
  JOIN oncepay.evidence e ON e.id = a.evidence_id AND e.payment_id = a.payment_id
 WHERE a.status IN (50, 60) AND e.source = %d
   AND EXISTS (SELECT FROM oncepay.state_history h WHERE h.payment_id = a.payment_id
                  AND h.entity = 2 AND h.id = a.id AND h.to_status = 40)"""
HISTORY = "SELECT count(*) FROM oncepay.state_history WHERE "

BY_SQL = {
    "UNKNOWN closed by replay": UNKNOWN_THEN % 4,
    "UNKNOWN closed by retrieve": UNKNOWN_THEN % 5,
    "UNKNOWN closed by webhook": UNKNOWN_THEN % 7,
    "PROCESSING, then the end":
        HISTORY + "entity = 2 AND from_status = 30 AND to_status IN (50, 60)",
    "sweep of a dead worker's fence":
        "SELECT count(*) FROM oncepay.evidence WHERE error_code = 'worker_lost'",
    "proven unsent, sent again under the same key":
        HISTORY + "entity = 2 AND from_status = 20 AND to_status = 10",
    "not sent because send_by had passed":
        "SELECT count(*) FROM oncepay.evidence WHERE source = 1 AND closure = 1",
    "lost race: an observation stored by whoever came second":
        "SELECT count(*) FROM oncepay.evidence e JOIN oncepay.state_history h "
        "ON h.payment_id = e.payment_id AND h.entity = 2 AND h.id = e.attempt_id "
        "AND h.to_status IN (50, 60) WHERE e.source IN (3, 4, 5) AND e.created_at > h.at "
        "AND h.evidence_id <> e.id",
    "late success becomes a stray fact": "SELECT count(*) FROM oncepay.stray_fact WHERE kind = 1",
    "second success for one target": "SELECT count(*) FROM oncepay.stray_fact WHERE kind = 2",
    "a failure after a success: a case, and one look":
        "SELECT count(*) FROM oncepay.manual_case WHERE kind = 4",
    "dead letter of poison": "SELECT count(*) FROM oncepay.dead_letter",
    "lost command emitted again":
        "SELECT count(*) FROM (SELECT 1 FROM oncepay.outbox WHERE kind = 1 AND entity <> 0 "
        "GROUP BY subject, entity_id, version HAVING count(*) > 1) s",
    "expired before it could start":
        "SELECT count(*) FROM oncepay.payment WHERE reason = 'expired_before_start'",
    "amount mismatch, automation stopped":
        "SELECT count(*) FROM oncepay.manual_case WHERE kind = 2",
    "target freed by a failure, paid again":
        "SELECT count(*) FROM oncepay.active_payment WHERE version > 1 AND hold IS NULL",
    "target held after an unproven end":
        "SELECT count(*) FROM oncepay.active_payment WHERE hold IS NOT NULL",
    "lease of a dead recoverer taken over":
        "SELECT count(DISTINCT r.attempt_id) FROM oncepay.attempt_request r "
        "JOIN oncepay.attempt_request n ON n.payment_id = r.payment_id "
        "AND n.attempt_id = r.attempt_id AND n.id > r.id AND n.worker <> r.worker "
        "WHERE r.kind IN (2, 3) AND NOT EXISTS ("
        "SELECT FROM oncepay.evidence e WHERE e.payment_id = r.payment_id AND e.request_id = r.id)",
}
# (program or None for all, a log line that has all of these words)
BY_LOG = {
    "relay publishes again what the stream lost": ("relay", ["the event stream has lost events"]),
    "stream or consumer made anew": ("relay", ["was missing, made anew"]),
    "relay lost its session": ("relay", ["session lost"]),
    "commit of unknown outcome": (None, ["connection lost, outcome unknown"]),
}
BY_METRIC = {  # of intake
    "placeholder of a dead worker, handed back":
        ("oncepay_stage_messages_total", 'verdict="hand_back"'),
    "answered from a stored first answer": ("oncepay_idempotency_hits_total", ""),
}
BY_ANSWER = {
    "target busy": 409,
    "other content under a used key refused": 422,
}
BY_SEEN = {
    "standby promoted": "promote",
    "worker asleep between fence and send until all was over": "worker_asleep_until_all_is_over",
}
# What only some layouts or machines can reach: the need of the fault that leads there.
NEEDS = {"standby promoted": "standby"}


def names():
    return [*BY_SQL, *BY_LOG, *BY_METRIC, *BY_ANSWER, *BY_SEEN]


def count_in_logs(world, program, words):
    count = 0
    for path in glob.glob(os.path.join(world.dir, "log", (program or "*") + "*.log")):
        with open(path, errors="replace") as file:
            count += sum(all(word in line for word in words) for line in file)
    return count


def reached(run):
    """{state: how often}."""
    world = run.world
    counts = {state: world.number(statement) for state, statement in BY_SQL.items()}
    for state, (program, words) in BY_LOG.items():
        counts[state] = count_in_logs(world, program, words)
    for state, (name, label) in BY_METRIC.items():
        counts[state] = run.scraper.total(name, label)
    told = run.producers.statuses()
    for state, status in BY_ANSWER.items():
        counts[state] = told.count(status)
    for state, what in BY_SEEN.items():
        counts[state] = run.seen[what]
    return counts


def totals(run):
    """How much went through."""
    world = run.world
    by_status = dict(world.sql("SELECT status, count(*) FROM oncepay.payment GROUP BY 1"))
    told = run.producers.statuses()
    return {
        "payments": {str(status): int(count) for status, count in by_status.items()},
        "asked": len(run.producers.asks),
        "answers": {str(status): told.count(status) for status in sorted(set(told))},
        "producer_reconnects": run.producers.reconnects,
        "attempts": world.number("SELECT count(*) FROM oncepay.payment_attempt"),
        "requests_sent": world.number("SELECT count(*) FROM oncepay.attempt_request"),
        "cases": {kind: int(count) for kind, count in world.sql(
            "SELECT kind, count(*) FROM oncepay.manual_case GROUP BY 1")},
        "proxy": {key: value for key, value in total_counts(world).items() if value},
    }


def total_counts(world):
    total = {}
    for counts in world.proxy.stats().values():
        for key, value in counts.items():
            total[key] = total.get(key, 0) + value
    return total
