"""ops/chaos.d/checks.py: what must hold when all is quiet again. Each check returns sentences
about what does not; none is good.
"""
import collections
import hashlib
import json
import os
import sys
import time

import world as world_module
import sql

sys.path.insert(0, os.path.join(world_module.ROOT, "ops/lib"))
import books  # noqa: E402

SHOWN_MAX = 10
CREATE, REPLAY = 1, 2
# What the stream says of a payment that has got there.
TOLD = {"10": "payment.accepted", "50": "payment.succeeded", "90": "payment.failed"}
TOLD_OF_STRAY = {"1": "payment.late_success", "2": "payment.double_success"}
STAGE_STREAMS = ["PAY_INTAKE", "PAY_ROUTE", "PAY_CREATE", "PAY_RECOVER", "PAY_SETTLE"]

# Not final, and no person has been called: somebody must still be at work.
OPEN = """
SELECT count(*) FROM oncepay.payment p
 WHERE p.status NOT IN (50, 70, 80, 90, 95)
   AND NOT EXISTS (SELECT FROM oncepay.manual_case c WHERE c.payment_id = p.id AND c.status = 10)"""
TASKS = """
SELECT count(*) FROM oncepay.recovery_task t
 WHERE t.status <> 50
   AND NOT EXISTS (SELECT FROM oncepay.manual_case c
                    WHERE c.payment_id = t.payment_id AND c.status = 10)"""
QUIET = {
    "payments open": OPEN,
    "tasks open": TASKS,
    "fences open": "SELECT count(*) FROM oncepay.fence_batch",
    "webhooks waiting": "SELECT count(*) FROM oncepay.webhook_inbox "
                        "WHERE processed_at IS NULL AND looks = 0",
    "stuck commands": "SELECT count(*) FROM oncepay.stuck_command",
}


def some(problems):
    """The first few, and how many there are."""
    if len(problems) <= SHOWN_MAX:
        return problems
    return problems[:SHOWN_MAX] + ["… %d in all" % len(problems)]


# --- quiet ---------------------------------------------------------------------------------------

def not_quiet(world, nats):
    """What still goes on, as {what: how much}."""
    statement = "SELECT %s" % ", ".join("(%s)" % one for one in QUIET.values())
    counts = dict(zip(QUIET, map(int, world.sql(statement)[0])))
    for stream in STAGE_STREAMS:
        # Not the stream's own count: a killed server may keep what no consumer will ever see again.
        counts[stream] = sum(consumer["num_pending"] + consumer["num_ack_pending"] for consumer
                             in nats.api("CONSUMER.LIST." + stream).get("consumers") or [])
    health = world.sim("/_sim/health")
    counts["webhooks at the PSP"] = -1 if health is None else health["webhooks"]["waiting"]
    return {what: count for what, count in counts.items() if count != 0}


def wait_quiet(world, nats, seconds, keep):
    """Until nothing goes on, twice in a row. Returns what still does when the time is over."""
    end = time.monotonic() + seconds
    quiet_since = None
    while True:
        keep()
        left = not_quiet(world, nats)
        now = time.monotonic()
        quiet_since = None if left else quiet_since or now
        if quiet_since is not None and now - quiet_since > 1.5:
            return {}
        if now > end:
            return left
        time.sleep(0.25)


LEFT = """
SELECT now(), p.id, p.status, p.version, a.id, a.status, a.version, p.start_by,
       (SELECT string_agg(format('%s due %s, claims %s', t.status, t.due_at, t.claims), ', ')
          FROM oncepay.recovery_task t WHERE t.attempt_id = a.id) AS tasks,
       (SELECT string_agg(format('%s %s, since %s, emitted %s times, again %s', c.stage, c.subject,
                                 c.since, c.emissions, c.next_at), ', ')
          FROM oncepay.stuck_command c WHERE c.payment_id = p.id) AS stuck,
       (SELECT string_agg(h.entity || ' ' || h.event || ' ' || h.why, ', ' ORDER BY h.at)
          FROM oncepay.state_history h WHERE h.payment_id = p.id) AS history
  FROM oncepay.payment p LEFT JOIN oncepay.payment_attempt a ON a.payment_id = p.id
 WHERE p.status NOT IN (50, 70, 80, 90, 95) ORDER BY p.id LIMIT 50"""


def write_left(world, nats):
    """For whoever looks into it: what is open, what the consumers know, what the stages count."""
    with open(world.path("left.txt"), "w") as file:
        for row in world.sql(LEFT):
            file.write("\t".join(str(value) for value in row) + "\n")
        for stream in STAGE_STREAMS:
            for what in ("STREAM.INFO.", "CONSUMER.LIST."):
                file.write(json.dumps(nats.api(what + stream)) + "\n")
        for child in world.stages():
            stage, _, number = child.name.partition("#")
            url = "http://127.0.0.1:%d/metrics" % world.port(stage, int(number or 1))
            file.write("\n%s\n" % child.name)
            try:
                file.write(world.http(url, timeout=2)[1].decode())
            except OSError as error:
                file.write("%s\n" % error)


# --- the checks ----------------------------------------------------------------------------------

def verify(world):
    done = world.cli("verify")
    return [] if done.returncode == 0 else ["oncepay verify: " + done.stdout + done.stderr]


def one_row_a_key(ledger):
    """A PSP that keeps only successes executes a declined key again: what counts is the last
    word."""
    by_key = collections.defaultdict(list)
    for row in ledger:
        by_key[(row["account"], row["key"])].append(row)
    kept = []
    for rows in by_key.values():
        taken = [row for row in rows if row["state"] in ("succeeded", "pending")]
        kept += taken if taken else rows[-1:]
    return kept


def money(world):
    """Our books against the simulator's, charge by charge (I9), and nobody charged twice (I10)."""
    os.environ.update(world.own_urls())
    ledger = one_row_a_key(books.fetch_ledger())
    compared = books.Books(books.psql("books.sql"), ledger)
    compared.compare()
    doubted = {row[0] for row in world.sql(
        "SELECT payment_id FROM oncepay.manual_case WHERE kind = 2 AND status = 10")}
    problems = ["books: " + json.dumps(problem) for problem in compared.disagreements
                if not is_told_amount(problem, doubted)
                and not is_told_object(problem, compared.strays)]
    twice = compared.double_charges()
    explained = world.number("SELECT count(*) FROM oncepay.stray_fact WHERE kind IN (1, 2)")
    if twice > explained:
        problems.append("%d targets charged twice, stray facts for %d" % (twice, explained))
    return problems


def is_told_object(problem, strays):
    """A PSP that executed a declined key again: the attempt ended with its first object, and the
    later one took no money, or is a stray fact with a case."""
    if problem["what"] != "object differs" or problem["ours"]["status"] != books.ATTEMPT_FAILED:
        return False
    theirs = problem["theirs"]
    took_money = theirs["state"] in ("succeeded", "pending")
    return not took_money or (theirs["account"], theirs["object"]) in strays


def is_told_amount(problem, doubted):
    """A PSP that charged another amount than we asked for: still UNKNOWN, and a person has the
    case."""
    return (problem["what"] == "amount or currency differs" and problem["payment"] in doubted
            and problem["ours"]["status"] == books.ATTEMPT_UNKNOWN)


def answers(world, producers):
    """I22: what a producer was told is stored, says the same each time, nothing accepted is lost,
    and what was refused, or asked for by nobody, is not there."""
    problems, accepted = [], set()
    payments = {row[0]: row[1:] for row in world.sql(
        "SELECT id, merchant, out_trade_no, amount, currency FROM oncepay.payment")}
    kept = {(row[0], row[1]): (int(row[2]), row[3] and bytes.fromhex(row[3]), row[4])
            for row in world.sql(
                "SELECT merchant, encode(key_hash, 'hex'), answer_status, "
                "encode(answer_body, 'hex'), payment_id "
                "FROM oncepay.idempotency_key WHERE operation = 1")}
    for ask in producers.asks.values():
        said = {(status, body) for status, body, _ in ask.answers}
        final = {answer for answer in said if answer[0] in (202, 400, 409, 422)}
        about = "%s %s: " % ask.name
        if len(final) > 1:
            problems.append(about + "answered in two ways: %s" % sorted(final))
        stored = kept.get((ask.body["merchant"], hashlib.sha256(ask.key.encode()).hexdigest()))
        for status, body in final:
            if not is_kept(stored, status, body):
                problems.append(about + "was told %s, stored is %s" % ((status, body), stored))
            if status == 202:
                accepted.add((ask.body["merchant"], ask.body["out_trade_no"]))
                problems += check_accepted(about, ask, json.loads(body), payments)
    problems += ["%s %s: stored as %s, and its producer was not told so" % (*row[:2], payment)
                 for payment, row in payments.items() if tuple(row[:2]) not in accepted]
    for name, others in producers.conflicts.items():
        problems += ["%s %s: other content under its key got %d" % (*name, status)
                     for status, _, _ in others if status not in (422, 409)]
    return problems


def is_kept(stored, status, body):
    """An acceptance is kept without its body: the payment tells it again."""
    if stored is None or stored[0] != status:
        return False
    if stored[1]:
        return stored[1] == body
    return json.loads(body).get("payment") == stored[2]


def check_accepted(about, ask, document, payments):
    row = payments.get(document["payment"])
    expected = [ask.body["merchant"], ask.body["out_trade_no"], str(ask.body["amount"]),
                ask.body["currency"]]
    if row is None:
        return [about + "accepted as %s, which does not exist" % document["payment"]]
    return [] if row == expected else [about + "accepted as %s, stored as %s" % (expected, row)]


def events(world, watcher):
    """I14: the stream has every event, and first copies came in the order of each payment's
    versions."""
    wanted = {row[0]: (row[1], int(row[2]), row[3]) for row in world.sql(
        "SELECT id, payment_id, version, subject FROM oncepay.outbox WHERE kind = 2")}
    end = time.monotonic() + 30
    while True:
        log = watcher.snapshot()
        missing = set(wanted) - {event.id for event in log}
        if not missing or time.monotonic() > end:
            break
        time.sleep(0.5)
    problems = ["event %s %s is not on the stream" % (identity, wanted[identity])
                for identity in sorted(missing)]
    strangers = {event.id for event in log} - set(wanted)
    problems += ["event %s is on the stream and in no outbox" % identity for identity in strangers]
    return problems + events_of_history(world, log) + order_of_events(watcher, wanted)


def events_of_history(world, log):
    """What has happened to a payment was said, and nothing else was."""
    told = {(event.payment, event.version, event.type) for event in log
            if event.type.startswith("payment.")}
    moves = {(row[0], int(row[1])): row[2:] for row in world.sql(
        "SELECT payment_id, version, from_status, to_status FROM oncepay.state_history "
        "WHERE entity = 1")}
    said = collections.defaultdict(set)
    for payment, _, kind in told:
        said[payment].add(kind)
    problems = ["%s: nobody was told %s, version %d" % (payment, TOLD[to], version)
                for (payment, version), (was, to) in moves.items()
                if to in TOLD and to != was and (payment, version, TOLD[to]) not in told]
    problems += ["%s: nobody was told of its stray fact, kind %s" % (payment, kind)
                 for payment, kind in world.sql("SELECT payment_id, kind FROM oncepay.stray_fact")
                 if TOLD_OF_STRAY.get(kind) not in said[payment] | {None}]
    return problems + ["%s: %s, version %d, never happened" % (payment, kind, version)
                       for payment, version, kind in told
                       if not has_happened(kind, moves.get((payment, version)))]


def has_happened(kind, move):
    """There is that version, and it did what was said."""
    ends = [status for status, name in TOLD.items() if name == kind]
    return move is not None and (not ends or move[1] in ends and move[0] != move[1])


def first_places(events_in_order, wanted):
    places = {}
    for place, event in enumerate(events_in_order):
        if event.id in wanted:
            places.setdefault(event.id, place)
    return places


def order_of_events(watcher, wanted):
    """A pair is in order if somebody saw it so: the bystander, or one reading of the stream."""
    views = [first_places(watcher.live, wanted)]
    views.append(first_places([watcher.stored[at] for at in sorted(watcher.stored)], wanted))
    of_payment = collections.defaultdict(list)
    for identity, (payment, version, _) in wanted.items():
        if payment is not None and version > 0:
            of_payment[payment].append((version, identity))
    problems = []
    for payment, versions in of_payment.items():
        versions.sort()
        for (_, earlier), (version, later) in zip(versions, versions[1:]):
            seen = [view[earlier] < view[later] for view in views
                    if earlier in view and later in view]
            if seen and not any(seen):
                problems.append("%s: version %d came before its predecessor" % (payment, version))
    return problems


# A create or replay, until when it may come and since when its row is there, and whether its evidence
# says that no byte of it left (phases local, connect).
REQUESTS = """
SELECT a.channel_account, a.provider_key, extract(epoch FROM r.send_by) * 1000,
       extract(epoch FROM pg_xact_commit_timestamp(r.xmin)) * 1000,
       EXISTS (SELECT FROM oncepay.evidence e WHERE e.payment_id = r.payment_id
                  AND e.request_id = r.id AND e.phase IN (1, 2))
  FROM oncepay.attempt_request r
  JOIN oncepay.payment_attempt a ON a.id = r.attempt_id AND a.payment_id = r.payment_id
 WHERE r.kind IN (1, 2)"""

CLOCK_STEP_MS = 5  # what two readings of this machine's clock may differ

# What was committed of the payment when the transaction of a create or replay began: CANCELING or an
# end.
REQUESTS_TOO_LATE = """
SELECT r.id, r.payment_id, p.to_status
  FROM oncepay.attempt_request r
 CROSS JOIN LATERAL (
       SELECT h.to_status FROM oncepay.state_history h
        WHERE h.payment_id = r.payment_id AND h.entity = 1 AND h.id = r.payment_id
          AND pg_xact_commit_timestamp(h.xmin) < r.started_at
        ORDER BY h.version DESC LIMIT 1) p
 WHERE r.kind IN (1, 2) AND p.to_status NOT IN (10, 20)"""


def requests(world, excused, counts):
    """I20: each request at the PSP has its row, which was committed before it came; none of those
    that we say were not sent is there, and none came later than its row allows, except while the
    network or the PSP itself held it (excused: periods in milliseconds since 1970). None was
    written for a payment that was over."""
    rows = collections.defaultdict(list)
    unsent = collections.Counter()
    for account, key, send_by_ms, committed_ms, was_not_sent in world.sql(REQUESTS):
        rows[(account, key)].append((float(send_by_ms), float(committed_ms)))
        unsent[(account, key)] += was_not_sent == "t"
    world.take_sim_requests()
    problems = []
    for name, arrivals in world.sim_requests.items():
        if len(arrivals) > len(rows[name]) - unsent[name]:
            problems.append("%s %s: %d requests at the PSP, %d rows, of which %d say unsent" % (
                *name, len(arrivals), len(rows[name]), unsent[name]))
        for arrival in arrivals:
            at = arrival["real_ms"]
            was_held = any(begin <= at <= finish for begin, finish in excused)
            counts["excused" if was_held else "checked"] += 1
            if not any(committed - CLOCK_STEP_MS <= at
                       and (was_held or at <= send_by + world_module.CALL_LIMIT_MS)
                       for send_by, committed in rows[name]):
                problems.append("%s %s: a request at %d ms, rows %s" % (*name, at, rows[name]))
    return problems + ["request %s: written for payment %s, which was %s by then" % tuple(row)
                       for row in world.sql(REQUESTS_TOO_LATE)]


def dead_letters(world, poison):
    """Only what was made to be undecodable becomes a dead letter; infrastructure never counts
    (H6)."""
    meant = ", ".join("'\\x%s'::bytea" % body.hex() for body in [b"", *poison])
    return ["dead letter %s of %s: %s %s" % tuple(row) for row in world.sql(
        "SELECT id, consumer, code, problem FROM oncepay.dead_letter "
        "WHERE body NOT IN (%s)" % meant)]


def processes(world):
    """Nobody ended by itself: only by our signals, or in order."""
    return ["%s ended with %s" % (child.name, code) for child in world.stages()
            for code in child.ends if code not in (0, -9)]


def is_there(world):
    try:
        return world.number("SELECT 1") == 1
    except sql.SqlError:
        return False
