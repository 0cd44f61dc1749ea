"""ops/lib/bench.py: the measurements of ops/bench, one sub-command each, on a stack that ops/bench has
brought up. Each writes what it found into the work folder; `report` reads all of it.

  bench.py windows     (a) ceiling, (b) naive, (c) pipeline at saturation, in alternating windows
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

import bench_measure as measure
import bench_report

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
UNFINISHED = 4000          # payments without an end at saturation
WARM_UP_S = 1.5
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

    def watch(self, process, series, label, probe, is_whole, until):
        """Waits for the first payment, warms up, and samples around what until() waits for."""
        deadline = time.monotonic() + 60
        while not (series.exists() and measure.read_series(series)[-1:] and
                   measure.read_series(series)[-1][1] > 0):
            if process.poll() is not None or time.monotonic() > deadline:
                raise Failure(f"{label} wrote no payment")
            time.sleep(0.02)
        time.sleep(WARM_UP_S)
        first = probe.sample({label: process.pid}, is_whole)
        until(first)
        last = probe.sample({label: process.pid}, is_whole)
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
            first, last = self.watch(process, series, "yardstick", probe, False, until)
        finally:
            process.terminate()
            code = process.wait()
        if code != 0:
            raise Failure(f"the {kind} yardstick failed")
        return measure.make_window(first, last, measure.read_series(series), ("pg", "yardstick"))

    def feed(self, options, seconds):
        """Starts the feeder; it stops requesting a moment after the window."""
        self.runs += 1
        files = {name: self.path(f"feed.{name}") for name in ("series", "json", "accepted")}
        run_s = int(WARM_UP_S + seconds + 2)
        process = subprocess.Popen(
            [self.programs / "oncepay-feed", "--quiet", "--prefix", f"bench{os.getpid()}-{self.runs}",
             "--payments", str(FEED_MAX_PER_S * run_s), "--seconds", str(run_s),
             "--timeout", str(DRAIN_S), "--series", files["series"], "--json", files["json"],
             "--accepted", files["accepted"], *options])
        return process, files

    def finish_feed(self, process, files):
        if process.wait(timeout=DRAIN_S + 60) != 0:
            raise Failure(f"the feeder was not content: see {files['json']}")
        summary = json.loads(files["json"].read_text())
        if summary["unanswered"] or summary["final_unseen"] or summary["refused"]:
            raise Failure(f"payments without an end: see {files['json']}")
        return summary

    def pipeline(self, seconds, options=()):
        """A window at saturation, and how many payments the run had in all."""
        probe = measure.Probe(self.folder, self.base, self.database("oncepay"))
        probe.database.ask("CHECKPOINT")
        process, files = self.feed(["--unfinished", str(UNFINISHED), "--in-flight", str(UNFINISHED),
                                    *options], seconds)
        try:
            first, last = self.watch(process, files["series"], "feed", probe, True,
                                     self.sleep_out(seconds))
            summary = self.finish_feed(process, files)
        finally:
            process.kill()
            process.wait()
        labels = {label for label in last["cpu"] if label.split("-")[0] in PIPELINE_JUDGED}
        window = measure.make_window(first, last, measure.read_series(files["series"]), labels)
        window["run_payments"] = summary["accepted"]
        window["repeated"] = summary["repeated"]
        window["p99_ms_saturated"] = summary["p99_ms"]
        return window

    # ---- books --------------------------------------------------------------------------------

    def check_books(self):
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
        if subprocess.run([*books, "wait", "--patience", "30"], check=False).returncode != 0:
            raise Failure("something was left in flight")
        with open(self.work / "verify.txt", "wb") as out:
            verify = subprocess.run([self.programs / "oncepay", "verify"], check=False, stdout=out,
                                    stderr=out).returncode
        with open(self.work / "books.txt", "wb") as out:
            done = subprocess.run([*books, "compare", "--feed", self.work / "feed_total.json",
                                   "--accepted", accepted, "--verify", str(verify), "--faults", "none",
                                   "--json", self.work / "books.json"], check=False, stdout=out)
        if done.returncode != 0:
            raise Failure(f"the books do not agree: see {self.work / 'books.txt'}")

    def write(self, name, found):
        (self.work / f"part_{name}.json").write_text(json.dumps(found, indent=2) + "\n")


# ---- the parts ------------------------------------------------------------------------------------

def show_window(kind, window):
    say(f"   {kind:<9}{window['per_s']:8.0f}/s   {window['cpu_us_all']:6.0f} us CPU"
        f"   {window['wal_bytes']:6.0f} B WAL   {window['flushes']:6.3f} flushes"
        f"   box {window['busy_cores']:.2f} cores, foreign {window['foreign_cores']:+.2f}")


def measure_windows(bench, arguments):
    """(a), (b) and (c). Only what is asked for is measured; pairs need both a and c."""
    parts = set(arguments.parts)
    found = {"ceiling": [], "naive": [], "pipeline": []}
    say(f"== windows of {bench.seconds} s: {''.join(sorted(parts))}")
    written = None
    for turn in range(arguments.windows):
        if "c" in parts:
            found["pipeline"].append(bench.pipeline(bench.seconds))
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
        bench.check_books()
        found["books_agree"] = True
    bench.write("windows", found)


def main():
    parser = argparse.ArgumentParser(prog="bench.py")
    parser.add_argument("command", choices=("windows", "report"))
    parser.add_argument("--parts", default="abc")
    parser.add_argument("--windows", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--json")
    parser.add_argument("--gates", action="store_true")
    arguments = parser.parse_args()
    bench = Bench(arguments)
    try:
        if arguments.command == "report":
            sys.exit(bench_report.report(bench.work, arguments))
        measure_windows(bench, arguments)
    except Failure as failure:
        say(f"bench: this run does not count: {failure}")
        sys.exit(1)
    finally:
        bench.close()


if __name__ == "__main__":
    main()
