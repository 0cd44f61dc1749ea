"""ops/lib/books.py: our books against the PSP's, charge by charge.

  books.py wait [--patience SECONDS] [--processes FOLDER]
      until no payment is under way and no task or fence is open; gives up (exit 1) when nothing has
      moved for that long, or when a process of the stack (its pid files) has died
  books.py compare --feed SUMMARY --accepted LIST --verify CODE --faults NAME [--json FILE]
                   [--without-account NAME]
      one table on stdout, one JSON object in FILE; exit 0 only if the books agree, nothing is lost
      or charged twice, everything is final, and `oncepay verify` (its exit code) was content;
      what a speed measurement stored at an account that no PSP has may be left out

Reads ONCEPAY_PG_URL through psql and ONCEPAY_SIM_URL. The comparison shares no code with what it
checks: it sees rows on one side and the simulator's ledger on the other.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent

PAYMENT = {10: "CREATED", 20: "AUTHORIZING", 25: "CANCELING", 30: "AUTHORIZED", 35: "VOIDING",
           40: "CAPTURING", 50: "CAPTURED", 60: "REFUNDING", 70: "REFUNDED", 80: "REVERSED",
           90: "FAILED", 95: "CANCELED"}
CERTAINTY = {1: "UNKNOWN", 2: "NO_SIDE_EFFECT", 3: "DEFINITE_FAILURE", 4: "PENDING",
             5: "CONFIRMED_SUCCESS"}
UNDER_WAY = {10, 20, 25, 35, 40, 60}
ATTEMPT_UNKNOWN, ATTEMPT_SUCCEEDED, ATTEMPT_FAILED = 40, 50, 60
NO_SIDE_EFFECT = 2
SHOWN_MAX = 20


def psql(file, without=""):
    done = subprocess.run(
        ["psql", "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-v", f"without={without}",
         "-f", str(HERE / file), os.environ["ONCEPAY_PG_URL"]],
        stdout=subprocess.PIPE, check=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def fetch_ledger():
    with urllib.request.urlopen(os.environ["ONCEPAY_SIM_URL"] + "/_sim/ledger", timeout=60) as answer:
        return json.load(answer)


# ---- wait -----------------------------------------------------------------------------------------

def is_quiet(progress):
    under_way = sum(n for status, n in progress["statuses"].items() if int(status) in UNDER_WAY)
    return under_way == 0 and progress["tasks_open"] == 0 and progress["fences_open"] == 0


def dead_processes(folder):
    """Names of those whose pid file names a process (pid and birth) that is not there."""
    dead = []
    for file in sorted(pathlib.Path(folder).glob("*.pid")) if folder else []:
        pid, birth = file.read_text().split()
        try:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        except OSError:
            fields = []
        if not fields or fields[19] != birth or fields[0] in "ZX":
            dead.append(file.stem)
    return dead


def wait(patience, processes):
    terminal = sys.stderr.isatty()
    last, moved = None, time.monotonic()
    while True:
        dead = dead_processes(processes)
        if dead:
            sys.stderr.write(f"\nbooks: died on the way: {', '.join(dead)}\n")
            return 1
        progress = psql("progress.sql")[0]
        if progress != last:
            last, moved = progress, time.monotonic()
        if terminal:
            states = "  ".join(f"{PAYMENT.get(int(s), s)} {n}"
                               for s, n in sorted(progress["statuses"].items()))
            sys.stderr.write(f"\r\033[K{states}  open tasks {progress['tasks_open']}")
            sys.stderr.flush()
        if is_quiet(progress) or time.monotonic() - moved > patience:
            break
        time.sleep(0.25)
    if terminal:
        sys.stderr.write("\n")
    if is_quiet(last):
        return 0
    sys.stderr.write(f"books: not all is final: {json.dumps(last)}\n")
    return 1


# ---- compare --------------------------------------------------------------------------------------

class Books:
    def __init__(self, rows, ledger):
        self.payments = {r["id"]: r for r in rows if r["row"] == "payment"}
        self.attempts = [r for r in rows if r["row"] == "attempt"]
        self.strays = {(r["account"], r["object"]): r for r in rows if r["row"] == "stray"}
        self.counts = next(r for r in rows if r["row"] == "counts")
        self.ledger = ledger
        self.by_key = collections.defaultdict(list)
        for charge in ledger:
            self.by_key[(charge["account"], charge["key"])].append(charge)
        self.disagreements = []

    def disagree(self, what, **details):
        self.disagreements.append({"what": what, **details})

    def compare_attempt(self, attempt):
        """What our state says must be what the PSP holds under that key."""
        charges = self.by_key.get((attempt["account"], attempt["key"]), [])
        about = {"payment": attempt["payment"], "key": attempt["key"]}
        if len(charges) > 1:
            self.disagree("more than one charge under one key", charges=charges, **about)
        for charge in charges:
            same = (charge["amount"], charge["currency"].upper()) == (attempt["amount"], attempt["currency"])
            if not same:
                self.disagree("amount or currency differs", ours=attempt, theirs=charge, **about)
            if attempt["object"] not in (None, charge["object"]):
                self.disagree("object differs", ours=attempt, theirs=charge, **about)
        states = [c["state"] for c in charges]
        untold = [c for c in charges if (c["account"], c["object"]) not in self.strays]
        taken = any(c["state"] == "succeeded" for c in untold)
        if attempt["status"] == ATTEMPT_SUCCEEDED and states != ["succeeded"]:
            self.disagree("ours is SUCCEEDED", theirs=charges, **about)
        elif attempt["status"] == ATTEMPT_FAILED and taken:
            self.disagree("ours is FAILED and no stray fact tells of the charge", theirs=charges, **about)
        elif attempt["status"] == ATTEMPT_FAILED and "pending" in states:
            self.disagree("ours is FAILED, theirs is open", theirs=charges, **about)
        elif attempt["certainty"] == NO_SIDE_EFFECT and untold:
            self.disagree("ours is NO_SIDE_EFFECT", theirs=charges, **about)

    def compare_payment(self, payment, attempts):
        succeeded = [a for a in attempts if a["status"] == ATTEMPT_SUCCEEDED]
        captured = PAYMENT[payment["status"]] == "CAPTURED"
        if captured and (len(succeeded) != 1 or payment["captured"] != payment["amount"]):
            self.disagree("CAPTURED without exactly one succeeded attempt in full", payment=payment["id"])
        if PAYMENT[payment["status"]] in ("FAILED", "CANCELED") and succeeded:
            self.disagree("over, but an attempt succeeded", payment=payment["id"])
        for attempt in attempts:
            if (attempt["amount"], attempt["currency"]) != (payment["amount"], payment["currency"]):
                self.disagree("the attempt's amount is not the payment's", payment=payment["id"])

    def compare(self):
        of_payment = collections.defaultdict(list)
        keys = set()
        for attempt in self.attempts:
            of_payment[attempt["payment"]].append(attempt)
            keys.add((attempt["account"], attempt["key"]))
            self.compare_attempt(attempt)
        for payment in self.payments.values():
            self.compare_payment(payment, of_payment[payment["id"]])
        for key, charges in self.by_key.items():
            if key not in keys:
                self.disagree("a charge that no attempt of ours explains", theirs=charges)

    def double_charges(self):
        """Succeeded charges beyond the first of each target (or payment, or foreign key)."""
        payment_of = {(a["account"], a["key"]): a["payment"] for a in self.attempts}
        groups = collections.Counter()
        for charge in self.ledger:
            if charge["state"] != "succeeded":
                continue
            key = (charge["account"], charge["key"])
            payment = self.payments.get(payment_of.get(key))
            if payment is None:
                groups[key] += 1
            elif payment["target_id"] is None:
                groups[payment["id"]] += 1
            else:
                groups[(payment["merchant"], payment["target_kind"], payment["target_id"])] += 1
        return sum(n - 1 for n in groups.values())

    def lost(self, accepted):
        """Accepted by a reply, and not there (or another one)."""
        known = {(p["merchant"], p["out_trade_no"]): p["id"] for p in self.payments.values()}
        return [line for line in accepted if known.get(tuple(line[:2])) != line[2]]


def named(counter, names):
    return {names.get(code, str(code)): counter[code] for code in sorted(counter)}


def make_result(books, feed, accepted, arguments):
    lost = books.lost(accepted)
    states = collections.Counter(p["status"] for p in books.payments.values())
    result = {
        "faults": arguments.faults,
        "payments": len(books.payments),
        "by_status": named(states, PAYMENT),
        "by_certainty": named(collections.Counter(a["certainty"] for a in books.attempts), CERTAINTY),
        "attempts": len(books.attempts),
        "second_attempts": sum(a["ordinal"] > 1 for a in books.attempts),
        "requests": books.counts["requests"],
        "psp_ledger_rows": len(books.ledger),
        "psp_charges": sum(c["state"] == "succeeded" for c in books.ledger),
        "double_charges": books.double_charges(),
        "lost": len(lost),
        "under_way": sum(n for status, n in states.items() if status in UNDER_WAY),
        "unknown_open": sum(a["status"] == ATTEMPT_UNKNOWN for a in books.attempts),
        "tasks_open": books.counts["tasks_open"],
        "cases_open": books.counts["cases_open"],
        "stray_facts": len(books.strays),
        "dead_letters": books.counts["dead_letters"],
        "books_agree": not books.disagreements,
        "verify_clean": arguments.verify == 0,
    }
    for key in ("accepted", "refused", "unanswered", "repeated", "final_unseen", "p50_ms", "p99_ms",
                "max_ms", "payments_per_s", "seconds"):
        result[key] = feed.get(key)
    result["disagreements"] = books.disagreements[:SHOWN_MAX]
    result["lost_payments"] = lost[:SHOWN_MAX]
    result["ok"] = (result["books_agree"] and result["verify_clean"] and not lost
                    and result["double_charges"] == 0 and result["under_way"] == 0
                    and result["unknown_open"] == 0 and result["unanswered"] == 0)
    return result


def show(result):
    def line(name, value):
        print(f"  {name:<28}{value}")

    def ms(value):
        return "-" if value is None else f"{value:.1f} ms"

    print(f"\nResult (faults: {result['faults']})")
    for state, count in result["by_status"].items():
        line(state, count)
    line("certainty of attempts", "  ".join(f"{k} {v}" for k, v in result["by_certainty"].items()))
    line("attempts / requests sent", f"{result['attempts']} / {result['requests']}")
    line("PSP: charges that succeeded", result["psp_charges"])
    line("charged twice", result["double_charges"])
    line("accepted and lost", result["lost"])
    line("still unknown / cases open", f"{result['unknown_open']} / {result['cases_open']}")
    line("producer repeated", result["repeated"])
    line("publish to final, p50 / p99", f"{ms(result['p50_ms'])} / {ms(result['p99_ms'])}")
    line("payments per second", "-" if result["payments_per_s"] is None else f"{result['payments_per_s']:.0f}")
    line("invariants (oncepay verify)", "hold" if result["verify_clean"] else "BROKEN")
    line("our books and the PSP's", "agree, charge by charge" if result["books_agree"] else "DISAGREE")
    for problem in result["disagreements"] + result["lost_payments"]:
        print("    ", json.dumps(problem))


def compare(arguments):
    accepted = [line.split("\t") for line in pathlib.Path(arguments.accepted).read_text().splitlines()]
    feed = json.loads(pathlib.Path(arguments.feed).read_text())
    books = Books(psql("books.sql", arguments.without_account), fetch_ledger())
    books.compare()
    result = make_result(books, feed, accepted, arguments)
    show(result)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(result, indent=2) + "\n")
    return 0 if result["ok"] else 1


def main():
    parser = argparse.ArgumentParser(prog="books.py")
    commands = parser.add_subparsers(dest="command", required=True)
    waiting = commands.add_parser("wait")
    waiting.add_argument("--patience", type=int, default=600)
    waiting.add_argument("--processes")
    comparing = commands.add_parser("compare")
    comparing.add_argument("--feed", required=True)
    comparing.add_argument("--accepted", required=True)
    comparing.add_argument("--verify", type=int, required=True)
    comparing.add_argument("--faults", required=True)
    comparing.add_argument("--json")
    comparing.add_argument("--without-account", default="")
    arguments = parser.parse_args()
    if arguments.command == "wait":
        sys.exit(wait(arguments.patience, arguments.processes))
    sys.exit(compare(arguments))


if __name__ == "__main__":
    main()
