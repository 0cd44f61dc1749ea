"""ops/lib/bench_measure.py: what a window of time cost, from outside of what is measured.

CPU comes from /proc (every process of the stack, PostgreSQL with all of its children, ended ones
too), counters from PostgreSQL, nats-server, Redis and the stages' metrics. Nothing is added to what is
measured but one PostgreSQL connection that asks at both ends of a window.
"""

import bisect
import json
import os
import pathlib
import re
import subprocess
import time
import urllib.request

TICK = os.sysconf("SC_CLK_TCK")
SERVERS = ("pg", "nats", "redis", "sim")

COUNTERS = """SELECT json_build_object(
    'wal_bytes', pg_current_wal_insert_lsn() - '0/0'::pg_lsn,
    'flushes', (SELECT wal_sync FROM pg_stat_wal),
    'page_images', (SELECT wal_fpi FROM pg_stat_wal),
    'commits', (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()),
    'buffers', (SELECT blks_hit + blks_read FROM pg_stat_database WHERE datname = current_database()),
    'fences', (SELECT n_tup_ins FROM pg_stat_user_tables
                WHERE relid = 'oncepay.fence_batch'::regclass))"""

HOT = """SELECT json_object_agg(relname, json_build_object('updates', n_tup_upd, 'hot', n_tup_hot_upd))
  FROM pg_stat_user_tables
 WHERE relid IN ('oncepay.payment'::regclass, 'oncepay.payment_attempt'::regclass)"""

BUSY = """SELECT count(*) FROM pg_stat_activity
 WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
   AND state IN ('active', 'idle in transaction', 'idle in transaction (aborted)')"""


class Database:
    """One psql that stays: a question costs no process and no connection."""

    END = "that was all of it"

    def __init__(self, url):
        self.process = subprocess.Popen(
            ["psql", "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", url], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, bufsize=1)

    def ask(self, sql):
        self.process.stdin.write(f"{sql};\n\\echo {self.END}\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            if line.rstrip("\n") == self.END:
                return "\n".join(lines)
            lines.append(line.rstrip("\n"))
        raise RuntimeError(f"psql ended at: {sql}")

    def ask_json(self, sql):
        return json.loads(self.ask(sql))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


# ---- CPU ------------------------------------------------------------------------------------------

def parse_stat(text):
    """(parent, own ticks, ticks of children that were waited for) of a /proc/<pid>/stat."""
    fields = text.rpartition(") ")[2].split()
    own, ended = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
    return int(fields[1]), own, ended


def read_processes():
    found = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                with open(f"/proc/{entry.name}/stat", encoding="ascii", errors="replace") as file:
                    found[int(entry.name)] = parse_stat(file.read())
            except OSError:
                pass
    return found


def read_box():
    """Busy and stolen ticks of the whole machine."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _idle, _wait, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return user + nice + system + irq + softirq, steal


def cpu_by_group(processes, roots):
    """CPU ticks by label. A root's living children count with it, its ended ones through its stat."""
    total = dict.fromkeys(roots, 0)
    kernel = 0
    label_of = {pid: label for label, pid in roots.items()}
    for pid, (parent, own, ended) in processes.items():
        if pid == 2 or parent == 2:
            kernel += own
        elif pid in label_of:
            total[label_of[pid]] += own + ended
        elif parent in label_of:
            total[label_of[parent]] += own + ended
    return total, kernel


def stack_pids(folder):
    """Label to pid of what runs in this stack."""
    pids = {}
    for file in pathlib.Path(folder, "run").glob("*.pid"):
        pid = int(file.read_text().split()[0])
        if os.path.exists(f"/proc/{pid}"):
            pids[file.stem] = pid
    return pids


def resident_mib(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    found = re.search(r"^VmHWM:\s+(\d+) kB", text, re.M)
    return int(found.group(1)) / 1024 if found else 0.0


# ---- counters -------------------------------------------------------------------------------------

def fetch(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def parse_metrics(text):
    """(batches, messages) that a stage has counted."""
    batches = messages = 0
    for line in text.splitlines():
        if line.startswith("oncepay_stage_batch_seconds_count"):
            batches += int(float(line.rpartition(" ")[2]))
        elif line.startswith("oncepay_stage_messages_total"):
            messages += int(float(line.rpartition(" ")[2]))
    return batches, messages


def parse_streams(text):
    """Stream to the number of messages it ever stored."""
    accounts = json.loads(text).get("account_details") or []
    return {stream["name"]: stream["state"]["last_seq"]
            for account in accounts for stream in account.get("stream_detail") or []}


def parse_redis(text):
    values = dict(line.split(":", 1) for line in text.split() if ":" in line)
    return {"redis_reads": int(values["total_reads_processed"]),
            "redis_commands": int(values["total_commands_processed"])}


class Probe:
    """Takes samples of a stack; two samples and a count of payments make a window."""

    def __init__(self, folder, port_base, database):
        self.folder = folder
        self.base = port_base
        self.database = database

    def redis_info(self):
        done = subprocess.run(["redis-cli", "-p", str(self.base + 3), "info", "stats"],
                              stdout=subprocess.PIPE, text=True, check=True)
        return parse_redis(done.stdout)

    def stage_counts(self):
        offsets = {"intake": 10, "route": 20, "settle": 50, "relay": 60}
        counts = {}
        for label in stack_pids(self.folder):
            name, _, number = label.partition("-")
            if name in offsets:
                port = self.base + offsets[name] + int(number or 1) - 1
                batches, messages = parse_metrics(fetch(f"http://127.0.0.1:{port}/metrics"))
                before = counts.get(name, (0, 0))
                counts[name] = (before[0] + batches, before[1] + messages)
        return counts

    def sample(self, extra, is_whole):
        """extra: label to pid of processes outside of the stack. is_whole: all servers run."""
        sample = {"counters": self.database.ask_json(COUNTERS)}
        if is_whole:
            sample["counters"].update(self.redis_info())
            sample["stages"] = self.stage_counts()
            sample["streams"] = parse_streams(fetch(
                f"http://127.0.0.1:{self.base + 1}/jsz?streams=1"))
        roots = {**stack_pids(self.folder), **extra, "bench": os.getpid()}
        sample["roots"] = roots
        sample["at_us"] = time.monotonic_ns() // 1000
        sample["box"], sample["steal"] = read_box()
        sample["cpu"], sample["kernel"] = cpu_by_group(read_processes(), roots)
        return sample

    def rss_mib(self):
        return {label: resident_mib(pid) for label, pid in stack_pids(self.folder).items()
                if label not in SERVERS}


# ---- series and windows ---------------------------------------------------------------------------

def read_series(path):
    """Lines of "monotonic_us count …"; an unfinished last line is left out."""
    points = []
    with open(path, encoding="ascii") as file:
        for line in file:
            if line.endswith("\n"):
                fields = line.split()
                points.append((int(fields[0]), int(fields[1])))
    return points


def count_at(points, at_us):
    """The count at a moment, between two lines in proportion."""
    if not points:
        return 0.0
    index = bisect.bisect_right(points, (at_us, float("inf")))
    if index == 0:
        return 0.0
    if index == len(points):
        return float(points[-1][1])
    (before_us, before), (after_us, after) = points[index - 1], points[index]
    return before + (after - before) * (at_us - before_us) / (after_us - before_us)


def make_window(first, last, points, judged):
    """What passed between two samples, by payment. judged: labels whose CPU is the price."""
    payments = count_at(points, last["at_us"]) - count_at(points, first["at_us"])
    seconds = (last["at_us"] - first["at_us"]) / 1e6
    each = max(payments, 1.0)
    ticks = {label: last["cpu"][label] - first["cpu"].get(label, 0) for label in last["cpu"]}
    box = last["box"] - first["box"]
    foreign = box - sum(ticks.values()) - (last["kernel"] - first["kernel"])
    cpu_us = {label: n * 1e6 / TICK / each for label, n in ticks.items() if label in judged}
    window = {
        "payments": round(payments), "seconds": round(seconds, 3),
        "per_s": round(payments / seconds, 1),
        "cpu_us": {label: round(us, 1) for label, us in sorted(cpu_us.items())},
        "cpu_us_all": round(sum(cpu_us.values()), 1),
        "busy_cores": round(box / TICK / seconds, 2),
        "foreign_cores": round(foreign / TICK / seconds, 3),
        "stolen_cores": round((last["steal"] - first["steal"]) / TICK / seconds, 3),
    }
    for name, value in last["counters"].items():
        window[name] = round((value - first["counters"][name]) / each, 4)
    if "streams" in last:
        window.update(stage_figures(first, last, payments))
    return window


def stage_figures(first, last, payments):
    """Messages a payment by stream, and payments a batch by stage."""
    each = max(payments, 1.0)
    streams = {name: (n - first["streams"].get(name, 0)) / each
               for name, n in last["streams"].items()}
    batches = {}
    for name, (count, messages) in last["stages"].items():
        count_before, messages_before = first["stages"].get(name, (0, 0))
        if count > count_before:
            batches[name] = round((messages - messages_before) / (count - count_before), 1)
    fences = last["counters"]["fences"] - first["counters"]["fences"]
    if fences > 0:
        batches["create"] = round(payments / fences, 1)
    return {"streams": {name: round(n, 4) for name, n in streams.items() if n > 0},
            "jetstream_messages": round(sum(streams.values()), 3), "batch": batches}
