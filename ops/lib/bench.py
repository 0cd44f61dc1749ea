"""ops/lib/bench.py: the measurements of ops/bench, one sub-command each, on a stack that ops/bench has
brought up. Each writes what it found into the work folder; `report` reads all of it.

  bench.py windows     (a) ceiling, (b) naive, (c) pipeline at saturation, in alternating windows
  bench.py latency     (d) at parts of its own maximum, (e) the same with a slow PSP
  bench.py unknown     (f) a fifth of the answers lost
  bench.py processes   (h) one against four processes per stage
  bench.py cold        (i) from nothing to the first payment
  bench.py growth      (g) few against many stored payments; wants a fresh stack
  bench.py report      table, plot, JSON, judgement

A pipeline window is fed by oncepay-feed with a bound on payments without an end, so that every stage
always has work and no queue grows. The ceiling then writes as many payments as the pipeline just did,
so both databases have the same size in every pair. While one is measured, nothing else of the stack
runs: its processes are stopped by signal.
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time
import urllib.request

import bench_measure as measure
import bench_report

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
UNFINISHED = 4000          # payments without an end at saturation
WARM_UP_S = 4               # until the queues between the stages have their lasting length
YARDSTICK_WARM_UP_S = 0.7
DRAIN_S = 120
FEED_MAX_PER_S = 30000     # no more than so many are planned
PIPELINE_JUDGED = ("pg", "nats", "redis", "sim", "intake", "route", "create", "settle", "recover",
                   "relay", "gateway", "feed")


def say(text):
    print(text, file=sys.stderr, flush=True)


class Failure(Exception):
    """A measurement that does not count; the text says why."""


class Bench:
    def __init__(self, arguments):
        self.seconds = arguments.seconds
        self.work = pathlib.Path(os.environ["ONCEPAY_STACK_DIR"], "bench")
        self.work.mkdir(exist_ok=True)
        self.folder = os.environ["ONCEPAY_STACK_DIR"]
        self.base = int(os.environ["ONCEPAY_PORT_BASE"])
        self.programs = pathlib.Path(os.environ["ONCEPAY_BIN"])
        self.url = os.environ["ONCEPAY_PG_URL"]
        self.runs = 0
        self.databases = {}

    # ---- databases ----------------------------------------------------------------------------

    def url_of(self, name):
        return self.url.replace("/oncepay?", f"/{name}?", 1)

    def database(self, name):
        """A question line to the database of that name; it is made and migrated at first use."""
        if name not in self.databases:
            if name != "oncepay":
                self.make_database(name)
            self.databases[name] = measure.Database(self.url_of(name))
        return self.databases[name]

    def make_database(self, name):
        admin = self.database("oncepay")
        if admin.ask(f"SELECT 1 FROM pg_database WHERE datname = '{name}'") == "1":
            return
        admin.ask(f"CREATE DATABASE {name}")
        with open(self.work / f"migrate_{name}.log", "wb") as log:
            subprocess.run([self.programs / "oncepay", "migrate"], check=True, stdout=log, stderr=log,
                           env={**os.environ, "ONCEPAY_PG_URL": self.url_of(name)})

    def close(self):
        for database in self.databases.values():
            database.close()

    # ---- the stack's processes ----------------------------------------------------------------

    def others(self):
        return {label: pid for label, pid in measure.stack_pids(self.folder).items()
                if label != "pg"}

    def signal_others(self, number, last):
        """To the stages first and the servers last, or the other way round."""
        pids = self.others()
        order = sorted(pids, key=lambda label: (label in last, label))
        for label in order:
            os.kill(pids[label], number)

    def freeze(self):
        """Everything but PostgreSQL stands still, with no transaction open."""
        for _ in range(50):
            self.signal_others(signal.SIGSTOP, measure.SERVERS)
            if self.database("oncepay").ask(measure.BUSY) == "0":
                return
            self.thaw()
            time.sleep(0.05)
        raise Failure("the stages never were without a transaction")

    def thaw(self):
        pids = self.others()
        for label in sorted(pids, key=lambda label: (label not in measure.SERVERS, label)):
            os.kill(pids[label], signal.SIGCONT)

    # ---- windows ------------------------------------------------------------------------------

    def path(self, name):
        return self.work / f"{self.runs:02d}_{name}"

    def watch(self, process, series, probe, until, label):
        """Waits for the first payment, warms up, and samples around what until() waits for."""
        deadline = time.monotonic() + 60
        while not (series.exists() and measure.read_series(series)[-1:] and
                   measure.read_series(series)[-1][1] > 0):
            if process.poll() is not None or time.monotonic() > deadline:
                raise Failure(f"{label} wrote no payment")
            time.sleep(0.02)
        time.sleep(YARDSTICK_WARM_UP_S if label == "yardstick" else WARM_UP_S)
        first = probe.sample({label: process.pid}, label == "feed")
        until(first)
        last = probe.sample({label: process.pid}, label == "feed")
        if process.poll() is not None:
            raise Failure(f"{label} ended before its window did")
        return first, last

    def sleep_out(self, seconds):
        def until(first):
            time.sleep(max(0.0, seconds - (time.monotonic_ns() // 1000 - first["at_us"]) / 1e6))
        return until

    def yardstick(self, kind, seconds, payments=None, database=None):
        """A window of ceiling or naive; with payments, the run writes so many in all."""
        self.runs += 1
        name = database or f"oncepay_{kind}"
        probe = measure.Probe(self.folder, self.base, self.database(name))
        probe.database.ask("CHECKPOINT")
        series = self.path(f"{kind}.series")
        process = subprocess.Popen(
            [self.programs / "oncepay-yardstick", kind, "--sql", ROOT / f"ops/yardstick/{kind}.sql",
             "--pg", self.url_of(name), "--prefix", f"{kind}-{self.runs}", "--series", series],
            stdout=subprocess.DEVNULL)
        until = self.sleep_out(seconds)
        if payments is not None:
            def until(first):
                limit = time.monotonic() + 4 * seconds
                while measure.read_series(series)[-1][1] < payments and time.monotonic() < limit:
                    time.sleep(0.02)
        try:
            first, last = self.watch(process, series, probe, until, "yardstick")
        finally:
            process.terminate()
            code = process.wait()
        if code != 0:
            raise Failure(f"the {kind} yardstick failed")
        return measure.make_window(first, last, measure.read_series(series), ("pg", "yardstick"))

    def start_feed(self, options, seconds):
        """It stops requesting a moment after the window."""
        self.runs += 1
        files = {name: self.path(f"feed.{name}") for name in ("series", "json", "accepted")}
        run_s = int(WARM_UP_S + seconds + 2)
        process = subprocess.Popen(
            [self.programs / "oncepay-feed", "--quiet", "--prefix", f"bench{os.getpid()}-{self.runs}",
             "--payments", str(FEED_MAX_PER_S * run_s), "--seconds", str(run_s),
             "--warm-up", str(int(WARM_UP_S + 1)), "--timeout", str(DRAIN_S),
             "--series", files["series"], "--json", files["json"], "--accepted", files["accepted"],
             *options])
        return process, files

    def finish_feed(self, process, files):
        if process.wait(timeout=2 * DRAIN_S) != 0:
            raise Failure(f"the feeder was not content: see {files['json']}")
        summary = json.loads(files["json"].read_text())
        if summary["unanswered"] or summary["final_unseen"] or summary["refused"]:
            raise Failure(f"payments without an end: see {files['json']}")
        return summary

    def fed_window(self, seconds, options):
        """A window of the whole pipeline under the feeder's load, until all of it has an end."""
        probe = measure.Probe(self.folder, self.base, self.database("oncepay"))
        probe.database.ask("CHECKPOINT")
        process, files = self.start_feed(options, seconds)
        try:
            first, last = self.watch(process, files["series"], probe, self.sleep_out(seconds), "feed")
            summary = self.finish_feed(process, files)
        finally:
            process.kill()
            process.wait()
        labels = {label for label in last["cpu"] if label.split("-")[0] in PIPELINE_JUDGED}
        window = measure.make_window(first, last, measure.read_series(files["series"]), labels)
        window["run_payments"] = summary["accepted"]
        for name in ("repeated", "succeeded", "failed", "p50_ms", "p99_ms", "p999_ms", "max_ms"):
            window[name] = summary[name]
        return window

    def saturated(self, seconds):
        return self.fed_window(seconds, ["--unfinished", str(UNFINISHED), "--in-flight",
                                         str(UNFINISHED)])

    def at_rate(self, per_s, seconds):
        return self.fed_window(seconds, ["--rate", str(max(1, round(per_s)))])

    def stack(self, *words, **environment):
        """ops/stack with further variables; its talk is ours."""
        done = subprocess.run([ROOT / "ops/stack", *words], check=False,
                              env={**os.environ, **environment})
        if done.returncode != 0:
            raise Failure(f"ops/stack {' '.join(words)} failed")

    # ---- books --------------------------------------------------------------------------------

    def check_books(self, except_yardstick=False):
        """What the feeders were told, what the database says, and what the PSP charged."""
        say("   books and invariants")
        accepted = self.work / "accepted.tsv"
        with open(accepted, "w", encoding="utf-8") as out:
            for part in sorted(self.work.glob("*_feed.accepted")):
                out.write(part.read_text())
        summaries = [json.loads(path.read_text()) for path in sorted(self.work.glob("*_feed.json"))]
        total = {"unanswered": sum(s["unanswered"] for s in summaries)}
        (self.work / "feed_total.json").write_text(json.dumps(total))
        books = [sys.executable, "-B", HERE / "books.py"]
        without = ["--without-account", YARDSTICK] if except_yardstick else []
        if subprocess.run([*books, "wait", "--patience", "30"], check=False).returncode != 0:
            raise Failure("something was left in flight")
        with open(self.work / "verify.txt", "wb") as out:
            verify = subprocess.run([self.programs / "oncepay", "verify"], check=False, stdout=out,
                                    stderr=out).returncode
        with open(self.work / "books.txt", "wb") as out:
            done = subprocess.run([*books, "compare", "--feed", self.work / "feed_total.json",
                                   "--accepted", accepted, "--verify", str(verify), "--faults", "none",
                                   "--json", self.work / "books.json", *without], check=False, stdout=out)
        if done.returncode != 0:
            raise Failure(f"the books do not agree: see {self.work / 'books.txt'}")

    def write(self, name, found):
        (self.work / f"part_{name}.json").write_text(json.dumps(found, indent=2) + "\n")


# ---- the parts ------------------------------------------------------------------------------------

def show_window(kind, window):
    say(f"   {kind:<9}{window['per_s']:8.0f}/s   {window['cpu_us_all']:6.0f} us CPU"
        f"   {window['wal_bytes']:6.0f} B WAL   {window['flushes']:6.3f} flushes"
        f"   box {window['busy_cores']:.2f} cores, foreign {window['foreign_cores']:+.2f}")


FLUSH_TRIES = 300


def flush_us(folder):
    """Median time of an 8 kB write with fdatasync where PostgreSQL's log lies."""
    path = pathlib.Path(folder, "flush.probe")
    times = []
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.write(file, bytes(8192 * FLUSH_TRIES))
        os.fsync(file)
        for i in range(FLUSH_TRIES):
            begun = time.perf_counter_ns()
            os.pwrite(file, b"x" * 8192, 8192 * i)
            os.fdatasync(file)
            times.append((time.perf_counter_ns() - begun) / 1000)
    finally:
        os.close(file)
        path.unlink()
    return statistics.median(times)


def measure_windows(bench, arguments):
    """(a), (b) and (c). Only what is asked for is measured; pairs need both a and c."""
    parts = set(arguments.parts)
    found = {"ceiling": [], "naive": [], "pipeline": []}
    say(f"== windows of {bench.seconds} s: {''.join(sorted(parts))}")
    bench.write("disk", {"flush_us": round(flush_us(pathlib.Path(bench.folder, "pg")), 1)})
    written = None
    for turn in range(arguments.windows):
        if "c" in parts:
            found["pipeline"].append(bench.saturated(bench.seconds))
            written = found["pipeline"][-1]["run_payments"]
            show_window("pipeline", found["pipeline"][-1])
        bench.freeze()
        try:
            if "a" in parts:
                found["ceiling"].append(bench.yardstick("ceiling", bench.seconds, written))
                show_window("ceiling", found["ceiling"][-1])
            if "b" in parts and turn < 2:
                found["naive"].append(bench.yardstick("naive", bench.seconds))
                show_window("naive", found["naive"][-1])
        finally:
            bench.thaw()
    if "c" in parts:
        found["hot"] = bench.database("oncepay").ask_json(measure.HOT)
        found["rss_mib"] = measure.Probe(bench.folder, bench.base, None).rss_mib()
    bench.write("windows", found)


FEW_ROWS = 10000
FILL_WINDOW_S = 10
SETTLE_S = 90


def fill(bench, rows):
    """Stored payments as the ceiling writes them, at an account that the PSP does not know; its cost
    by window of FILL_WINDOW_S while the tables grow."""
    bench.runs += 1
    series = bench.path("fill.series")
    database = bench.database("oncepay")
    probe = measure.Probe(bench.folder, bench.base, database)
    stored = int(database.ask("SELECT count(*) FROM oncepay.payment"))
    curve = []
    process = subprocess.Popen(
        [bench.programs / "oncepay-yardstick", "ceiling", "--sql", ROOT / "ops/yardstick/ceiling.sql",
         "--payments", str(rows - stored), "--prefix", f"{YARDSTICK}-{bench.runs}",
         "--account", YARDSTICK, "--series", series], stdout=subprocess.DEVNULL)
    before = None
    while process.poll() is None:
        sample = probe.sample({"yardstick": process.pid}, False)
        if before is not None and process.poll() is None:
            points = measure.read_series(series)
            window = measure.make_window(before, sample, points, ("pg", "yardstick"))
            window["stored"] = stored + round(measure.count_at(points, sample["at_us"]))
            curve.append(window)
        before = sample
        deadline = time.monotonic() + FILL_WINDOW_S
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
    if process.returncode != 0:
        raise Failure("the yardstick could not fill the database")
    return curve


def settle_vacuum(bench):
    """Until no autovacuum works any more, so that it is not measured with the pipeline."""
    database = bench.database("oncepay")
    deadline = time.monotonic() + SETTLE_S
    quiet = 0
    while quiet < 3 and time.monotonic() < deadline:
        quiet = quiet + 1 if database.ask(AUTOVACUUM) == "0" else 0
        time.sleep(1)
    database.ask("CHECKPOINT")


YARDSTICK = "yardstick"
AUTOVACUUM = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'autovacuum worker'"


def measure_growth(bench, arguments):
    """(g): the pipeline on few payments, the ceiling from few to many, the pipeline on many."""
    say(f"== {FEW_ROWS} against {arguments.rows} stored payments")
    found = {"few": [], "many": [], "curve": []}
    for name, rows in (("few", FEW_ROWS), ("many", arguments.rows)):
        bench.freeze()
        try:
            found["curve"] += fill(bench, rows)
            settle_vacuum(bench)
        finally:
            bench.thaw()
        for _ in range(2):
            found[name].append(bench.saturated(bench.seconds))
            show_window(name, found[name][-1])
    found["stored"] = int(bench.database("oncepay").ask("SELECT count(*) FROM oncepay.payment"))
    bench.write("growth", found)


RATES = (("idle", None), ("10 %", 0.1), ("50 %", 0.5), ("70 %", 0.7))
IDLE_PER_S = 50


def measure_levels(bench, most_per_s):
    """Publish to final event at parts of the maximum, and with next to nothing to do."""
    levels = []
    for name, part in RATES:
        window = bench.at_rate(IDLE_PER_S if part is None else most_per_s * part, bench.seconds)
        levels.append({"level": name, **window})
        say(f"   {name:<6}{window['per_s']:8.0f}/s   p50 {window['p50_ms']:7.1f} ms   p99 "
            f"{window['p99_ms']:7.1f} ms   p99.9 {window['p999_ms']:7.1f} ms   box "
            f"{window['busy_cores']:.2f} cores, {window['cpu_us_all']:.0f} us a payment")
    return levels


def measure_latency(bench, arguments):
    """(d) and (e)."""
    if "d" in arguments.parts:
        known = bench_report.load(bench.work).get("windows", {}).get("pipeline", [])
        if not known:
            known = [bench.saturated(bench.seconds)]
        most = statistics.median(w["per_s"] for w in known)
        say(f"== latency at parts of {most:.0f}/s")
        bench.write("latency", {"max_per_s": most, "levels": measure_levels(bench, most)})
    if "e" in arguments.parts:
        bench.stack("restart", "sim", ONCEPAY_SIM_LATENCY_MS=str(SLOW_PSP_MS))
        window = bench.saturated(bench.seconds)
        say(f"== latency with a PSP of {SLOW_PSP_MS} ms, at parts of {window['per_s']:.0f}/s")
        found = {"max_per_s": window["per_s"], "saturated": window,
                 "levels": measure_levels(bench, window["per_s"])}
        bench.stack("restart", "sim", ONCEPAY_SIM_LATENCY_MS="0")
        bench.write("latency_slow", found)


SLOW_PSP_MS = 200
# The webhook comes late, so that the lost answers are UNKNOWN first and somebody looks for them.
LOST = [{"action": "lost_after_commit", "match": {"probability": 0.2}},
        {"action": "webhook_delay_ms", "ms": 5000}]


def set_faults(rules):
    request = urllib.request.Request(os.environ["ONCEPAY_SIM_URL"] + "/_sim/faults", method="PUT",
                                     data=json.dumps(rules).encode(),
                                     headers={"content-type": "application/json"})
    urllib.request.urlopen(request, timeout=10).close()


def measure_unknown(bench, arguments):
    """(f): the same load with webhooks on, first with a faithful PSP, then with lost answers."""
    say("== a fifth of the answers lost, webhooks on")
    database = bench.database("oncepay")
    bench.stack("restart", "sim", ONCEPAY_SIM_WEBHOOKS="on")
    found = {}
    try:
        for name, rules in (("calm", []), ("lost", LOST)):
            set_faults(rules)
            since = database.ask("SELECT now()")
            window = bench.saturated(bench.seconds)
            sql = (HERE / "bench_unknown.sql").read_text().replace(":since", f"'{since}'")
            window["unknown"] = database.ask_json(sql)
            found[name] = window
            show_window(name, window)
        say(f"   {json.dumps(found['lost']['unknown'])}")
    finally:
        set_faults([])
        bench.stack("restart", "sim", ONCEPAY_SIM_WEBHOOKS="off")
    bench.write("unknown", found)


# Not the relay: one works, others stand by.
FOUR = [f"{stage}#{n}" for stage in ("intake", "route", "create", "settle", "recover")
        for n in (2, 3, 4)]


def measure_processes(bench, arguments):
    """(h)"""
    say("== one against four processes per stage")
    found = {"one": [], "four": []}
    for _ in range(2):
        found["one"].append(bench.saturated(bench.seconds))
        show_window("one", found["one"][-1])
        bench.stack("start", *FOUR)
        try:
            found["four"].append(bench.saturated(bench.seconds))
            show_window("four", found["four"][-1])
        finally:
            bench.stack("stop", *FOUR)
    bench.write("processes", found)


def measure_cold(bench, arguments):
    """(i): everything stands still; the producer is there first."""
    say("== cold start")
    bench.close()
    bench.databases = {}
    bench.stack("stop-all")
    begun = time.monotonic()
    bench.stack("start", "pg", "nats", "redis", "sim")
    served = time.monotonic()
    bench.stack("start", "--no-wait", "intake", "route", "create", "recover", "settle", "relay",
                "gateway")
    bench.runs += 1
    done = subprocess.run([bench.programs / "oncepay-feed", "--quiet", "--payments", "1",
                           "--json", bench.path("feed.json"), "--accepted", bench.path("feed.accepted")],
                          check=False)
    ended = time.monotonic()
    if done.returncode != 0:
        raise Failure("no payment after a cold start")
    found = {"servers_s": round(served - begun, 3), "stages_to_payment_s": round(ended - served, 3),
             "all_s": round(ended - begun, 3)}
    say(f"   servers {found['servers_s']} s, then {found['stages_to_payment_s']} s to the first payment")
    bench.write("cold", found)


def measure_books(bench, arguments):
    bench.check_books(arguments.except_yardstick)
    bench.write("books", {"agree": True})


def measure_report(bench, arguments):
    sys.exit(bench_report.report(bench.work, arguments))


COMMANDS = {"windows": measure_windows, "latency": measure_latency, "unknown": measure_unknown,
            "processes": measure_processes, "cold": measure_cold, "growth": measure_growth,
            "books": measure_books, "report": measure_report}


def main():
    parser = argparse.ArgumentParser(prog="bench.py")
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--parts", default="abc")
    parser.add_argument("--windows", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rows", type=int, default=1000000)
    parser.add_argument("--except-yardstick", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--gates", action="store_true")
    arguments = parser.parse_args()
    bench = Bench(arguments)
    try:
        COMMANDS[arguments.command](bench, arguments)
    except Failure as failure:
        say(f"bench: this run does not count: {failure}")
        sys.exit(1)
    finally:
        bench.close()


if __name__ == "__main__":
    main()
