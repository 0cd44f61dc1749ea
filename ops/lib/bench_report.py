"""ops/lib/bench_report.py: what ops/bench found, as a table, a JSON object and a plot, judged by the
numbers of design §10. The plot is drawn by bench_plot.py.
"""

import json
import pathlib
import platform
import statistics
import subprocess

import bench_plot

FOREIGN_MAX = 0.15  # cores: above it, the clock is not judged
EXIT_NOT_REACHED, EXIT_NOT_JUDGED = 1, 4


def load(work):
    return {path.stem.removeprefix("part_"): json.loads(path.read_text())
            for path in sorted(work.glob("part_*.json"))}


# ---- figures --------------------------------------------------------------------------------------

def median(windows, name):
    values = [w[name] for w in windows if w.get(name) is not None]
    return statistics.median(values) if values else None


def ratio(above, below):
    return above / below if above is not None and below else None


def median_ratio(pairs, above, below, name):
    """Of each pair, then the middle one: pairs drift together."""
    values = [ratio(pair[above][name], pair[below][name]) for pair in pairs]
    return statistics.median(values) if values else None


def hot_ratio(hot, table):
    row = hot.get(table, {"updates": 0, "hot": 0})
    return ratio(row["hot"], row["updates"])


def all_windows(value):
    """Every window anywhere in what was found."""
    if isinstance(value, dict):
        if "foreign_cores" in value:
            yield value
        else:
            for each in value.values():
                yield from all_windows(each)
    elif isinstance(value, list):
        for each in value:
            yield from all_windows(each)


def level(found, part, name, key):
    for each in found.get(part, {}).get("levels", []):
        if each["level"] == name:
            return each[key]
    return None


def growth_ratio(growth, pick):
    few = [pick(w) for w in growth.get("few", [])]
    many = [pick(w) for w in growth.get("many", [])]
    return statistics.median(many) / statistics.median(few) if few and many else None


def summarise(found):
    """The figures that are judged and compared between runs; None: not measured."""
    windows = found.get("windows", {})
    ceiling, naive, pipeline = (windows.get(k, []) for k in ("ceiling", "naive", "pipeline"))
    pairs = [{"p": p, "c": c} for p, c in zip(pipeline, ceiling)]
    growth = found.get("growth", {})
    rss = windows.get("rss_mib") or {}
    return {
        "ceiling_per_s": median(ceiling, "per_s"),
        "naive_per_s": median(naive, "per_s"),
        "pipeline_per_s": median(pipeline, "per_s"),
        "rate_ratio": median_ratio(pairs, "p", "c", "per_s"),
        "cpu_ratio": median_ratio(pairs, "c", "p", "cpu_us_all"),
        "naive_ratio": ratio(median(pipeline, "per_s"), median(naive, "per_s")),
        "wal_bytes": median(pipeline, "wal_bytes"),
        "ceiling_wal_bytes": median(ceiling, "wal_bytes"),
        "flushes": median(pipeline, "flushes"),
        "hot_payment": hot_ratio(windows.get("hot", {}), "payment"),
        "hot_attempt": hot_ratio(windows.get("hot", {}), "payment_attempt"),
        "rss_mib_max": max(rss.values(), default=None),
        "idle_p50_ms": level(found, "latency", "idle", "p50_ms"),
        "idle_p99_ms": level(found, "latency", "idle", "p99_ms"),
        "half_p99_ms": level(found, "latency", "50 %", "p99_ms"),
        "growth_pg_cpu": growth_ratio(growth, lambda w: w["cpu_us"]["pg"]),
        "growth_buffers": growth_ratio(growth, lambda w: w["buffers"]),
        "foreign_cores_max": max((w["foreign_cores"] for w in all_windows(found)), default=None),
        "books_agree": found.get("books", {}).get("agree"),
    }


# ---- judgement ------------------------------------------------------------------------------------

# name, words, unit, aim, least (None: the aim), whether more is better, whether the clock matters
GOALS = (
    ("rate_ratio", "rate, pipeline / ceiling", "", 0.5, 0.4, True, True),
    ("cpu_ratio", "CPU a payment, ceiling / pipeline", "", 0.45, 0.35, True, True),
    ("naive_ratio", "rate, pipeline / naive", "", 4, 3, True, True),
    ("idle_p50_ms", "p50 idle", "ms", 10, None, False, True),
    ("idle_p99_ms", "p99 idle", "ms", 25, None, False, True),
    ("half_p99_ms", "p99 at half of the maximum", "ms", 150, None, False, True),
    ("growth_pg_cpu", "PostgreSQL CPU a payment, many / few stored", "", 1.15, None, False, True),
    ("growth_buffers", "buffers a payment, many / few stored", "", 1.15, None, False, False),
    ("rss_mib_max", "resident, largest stage process", "MiB", 64, None, False, False),
    ("wal_bytes", "WAL a payment", "B", 8192, None, False, False),
    ("flushes", "flushes a payment", "", 0.1, None, False, False),
    ("hot_payment", "HOT updates of payment", "", 0.95, None, True, False),
    ("hot_attempt", "HOT updates of payment_attempt", "", 0.60, None, True, False),
)


def judge(result, only_gates):
    """A list of (goal, value, verdict); verdicts: reached, short of it, MISSED, not judged."""
    noisy = (result["foreign_cores_max"] or 0) > FOREIGN_MAX
    verdicts = []
    for goal in GOALS:
        name, _words, _unit, aim, least, is_more, is_clock = goal
        value = result.get(name)
        if value is None or (only_gates and is_clock):
            continue
        def reached(limit):
            return value >= limit if is_more else value <= limit
        if is_clock and noisy:
            verdict = "not judged"
        elif reached(aim):
            verdict = "reached"
        elif least is not None and reached(least):
            verdict = "short of it"
        else:
            verdict = "MISSED"
        verdicts.append((goal, value, verdict))
    return verdicts


def exit_code(verdicts):
    words = {verdict for _goal, _value, verdict in verdicts}
    if words & {"MISSED", "short of it"}:
        return EXIT_NOT_REACHED
    return EXIT_NOT_JUDGED if "not judged" in words else 0


# ---- text -----------------------------------------------------------------------------------------

def first_line(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    return (done.stdout or "?").splitlines()[0]


def machine():
    """What it was measured on."""
    text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    models = [line.partition(":")[2].strip() for line in text.splitlines()
              if line.startswith("model name")]
    memory = pathlib.Path("/proc/meminfo").read_text(encoding="utf-8").split()[1]
    return {"cpu": models[0] if models else platform.machine(), "cores": text.count("processor\t"),
            "memory_gib": round(int(memory) / 2**20, 1), "kernel": platform.release(),
            "postgresql": first_line(["/usr/lib/postgresql/15/bin/postgres", "--version"]),
            "nats": first_line(["nats-server", "--version"]),
            "redis": first_line(["redis-server", "--version"]).partition(" sha=")[0]}


def number(value):
    if value is None:
        return "-"
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def window_line(name, w):
    return (f"  {name:<12}{w['per_s']:>8.0f}{w['cpu_us_all']:>9.0f}{w['cpu_us'].get('pg', 0):>8.0f}"
            f"{w['wal_bytes']:>9.0f}{w['flushes']:>9.3f}{w['commits']:>9.3f}{w['buffers']:>9.0f}"
            f"{w['busy_cores']:>8.2f}{w['foreign_cores']:>+9.2f}")


WINDOW_HEAD = (f"  {'':<12}{'per s':>8}{'CPU us':>9}{'pg us':>8}{'WAL B':>9}{'flushes':>9}"
               f"{'commits':>9}{'buffers':>9}{'cores':>8}{'foreign':>9}")


def windows_text(windows):
    yield "Windows (everything but cores is per payment)"
    yield WINDOW_HEAD
    for kind in ("ceiling", "pipeline", "naive"):
        for window in windows.get(kind, []):
            yield window_line(kind, window)
    if windows.get("pipeline"):
        yield ""
        yield from pipeline_text(windows["pipeline"][-1], windows.get("rss_mib", {}))


def pipeline_text(w, rss):
    """Where one payment's work goes; of the last window."""
    yield "CPU us a payment by process"
    yield "  " + "  ".join(f"{k} {v:.0f}" for k, v in
                           sorted(w["cpu_us"].items(), key=lambda item: -item[1]))
    yield "Payments a batch"
    yield "  " + "  ".join(f"{k} {v:g}" for k, v in sorted(w.get("batch", {}).items()))
    yield "JetStream messages a payment"
    yield (f"  {w['jetstream_messages']:.2f}: " +
           "  ".join(f"{k} {v:.3f}" for k, v in sorted(w["streams"].items())))
    yield (f"Redis a payment: {w['redis_reads']:.3f} round trips, {w['redis_commands']:.2f} commands;"
           f" publish to final event at saturation p99 {w['p99_ms']:.0f} ms")
    if rss:
        yield "Resident MiB at most"
        yield "  " + "  ".join(f"{k} {v:.0f}" for k, v in sorted(rss.items()))


def levels_text(title, part):
    yield f"{title}: publish to final event, at parts of {part['max_per_s']:.0f}/s"
    yield (f"  {'':<8}{'per s':>8}{'p50 ms':>9}{'p99 ms':>9}{'p99.9 ms':>10}{'CPU us':>9}{'cores':>8}"
           "  payments a batch")
    for w in part["levels"]:
        batch = "  ".join(f"{k} {v:g}" for k, v in sorted(w["batch"].items()))
        yield (f"  {w['level']:<8}{w['per_s']:>8.0f}{w['p50_ms']:>9.1f}{w['p99_ms']:>9.1f}"
               f"{w['p999_ms']:>10.1f}{w['cpu_us_all']:>9.0f}{w['busy_cores']:>8.2f}  {batch}")


def unknown_text(part):
    yield "A fifth of the answers lost, webhooks on and 5 s late"
    yield WINDOW_HEAD
    for name in ("calm", "lost"):
        yield window_line(name, part[name])
    u, calm = part["lost"]["unknown"], part["calm"]["unknown"]
    yield (f"  {u['unknown']} of {u['payments']} were UNKNOWN, {u['still_unknown']} still are; found out"
           f" at {number(u['recovered_per_s'])}/s, after p50 {number(u['unknown_p50_s'])} s,"
           f" p99 {number(u['unknown_p99_s'])} s")
    yield (f"  the others took p50 {number(u['others_p50_ms'])} ms, p99 {number(u['others_p99_ms'])} ms"
           f" from acceptance (without faults {number(calm['others_p50_ms'])},"
           f" {number(calm['others_p99_ms'])})")


def growth_text(part):
    yield f"Stored payments: few (10000) against many ({part['stored']} at the end)"
    yield WINDOW_HEAD
    for name in ("few", "many"):
        for window in part[name]:
            yield window_line(name, window)
    curve = part["curve"]
    if curve:
        yield "  the ceiling on the way: stored, pg us, buffers, WAL B a payment"
        for w in curve[::max(1, len(curve) // 8)]:
            yield (f"  {w['stored']:>10}{w['cpu_us']['pg']:>8.0f}{w['buffers']:>8.0f}"
                   f"{w['wal_bytes']:>9.0f}")


def bound_text(found, cores):
    """What bounds the pipeline, from what was measured: CPU, and the disk's flushes."""
    pipeline = found.get("windows", {}).get("pipeline", [])
    flush_us = found.get("disk", {}).get("flush_us")
    if not pipeline or flush_us is None:
        return
    cpu, rate = median(pipeline, "cpu_us_all"), median(pipeline, "per_s")
    busy, flushes = median(pipeline, "busy_cores"), median(pipeline, "flushes")
    yield "What bounds it: rate = min(cores x use / CPU a payment, 1 / (flushes a payment x flush))"
    yield (f"  CPU: {cores} cores x {busy / cores:.2f} in use / {cpu:.0f} us = "
           f"{busy * 1e6 / cpu:.0f}/s (measured {rate:.0f}/s)")
    yield (f"  disk: 1 / ({flushes:.3f} x {flush_us:.0f} us) = {1e6 / (flushes * flush_us):.0f}/s if"
           " nothing overlapped")
    yield (f"  so one more core in the same use would bring about {busy / cores * 1e6 / cpu:.0f}/s, a"
           f" disk without flush time at most {100 * rate * flushes * flush_us / 1e6:.1f} %")


def text(found, result, verdicts):
    what = found.get("machine", {})
    yield f"ops/bench on {what.get('cpu')}, {what.get('cores')} cores, {what.get('memory_gib')} GiB"
    yield f"  {what.get('postgresql')}; {what.get('nats')}; {what.get('redis')}; Linux {what.get('kernel')}"
    yield ("  PostgreSQL: shared_buffers 1 GB, max_wal_size 8 GB, checkpoint_timeout 30 min, the rest as"
           " in ops/lib/servers.sh,")
    yield (f"  the same for all; a flush of 8 kB takes {number(found.get('disk', {}).get('flush_us'))} us."
           " Simulator with its keys and ledger; webhooks off but for (f).")
    yield ""
    if "windows" in found:
        yield from windows_text(found["windows"])
        yield ""
        yield (f"Median: ceiling {number(result['ceiling_per_s'])}/s, naive"
               f" {number(result['naive_per_s'])}/s, pipeline {number(result['pipeline_per_s'])}/s")
        yield from bound_text(found, what.get("cores", 1))
        yield ""
    sections = (("latency", lambda p: levels_text("Latency", p)),
                ("latency_slow", lambda p: levels_text("Latency with a PSP of 200 ms", p)),
                ("unknown", unknown_text), ("growth", growth_text),
                ("processes", processes_text), ("cold", cold_text))
    for name, write in sections:
        if name in found:
            yield from write(found[name])
            yield ""
    yield from verdict_text(result, verdicts)


def processes_text(part):
    yield "One against four processes per stage"
    yield WINDOW_HEAD
    for name in ("one", "four"):
        for window in part[name]:
            yield window_line(name, window)


def cold_text(part):
    yield (f"Cold start: servers and PSP {part['servers_s']} s, stages to the first payment's event"
           f" {part['stages_to_payment_s']} s")


def verdict_text(result, verdicts):
    yield f"{'Goals of design §10':<48}{'found':>9}{'aim':>10}"
    for (_name, words, unit, aim, least, is_more, _clock), value, verdict in verdicts:
        limit = f"{'>=' if is_more else '<='} {aim:g}"
        tail = "" if least is None else f" (never under {least:g})"
        yield f"  {words + (', ' + unit if unit else ''):<46}{number(value):>9}{limit:>10}  {verdict}{tail}"
    foreign = result["foreign_cores_max"]
    if foreign is not None and foreign > FOREIGN_MAX:
        yield (f"Other programs took up to {foreign:.2f} cores (at most {FOREIGN_MAX} allowed): what"
               " depends on the clock is not judged. Run it again on a quiet machine.")
    if result["books_agree"]:
        yield "The books agree with the PSP's, charge by charge, and the invariants hold."


def report(work, arguments):
    found = load(work)
    found["machine"] = machine()
    result = summarise(found)
    verdicts = judge(result, arguments.gates)
    lines = "\n".join(text(found, result, verdicts)) + "\n"
    print(lines, end="")
    (work.parent / "report.txt").write_text(lines, encoding="utf-8")
    (work.parent / "plot.svg").write_text(bench_plot.draw(found), encoding="utf-8")
    if arguments.json:
        judged = {goal[0]: verdict for goal, _value, verdict in verdicts}
        pathlib.Path(arguments.json).write_text(
            json.dumps({**result, "verdicts": judged, "found": found}, indent=2) + "\n",
            encoding="utf-8")
    return exit_code(verdicts)
