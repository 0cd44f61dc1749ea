"""ops/lib/bench_report.py: what ops/bench found, as a table, a JSON object and a plot, and judged by
the numbers of design §10.
"""

import json
import statistics

FOREIGN_MAX = 0.15  # cores: above it, the clock is not judged


def load(work):
    return {path.stem.removeprefix("part_"): json.loads(path.read_text())
            for path in sorted(work.glob("part_*.json"))}


def median(windows, name):
    values = [w[name] for w in windows if w.get(name) is not None]
    return statistics.median(values) if values else None


def hot_ratio(hot, table):
    row = hot.get(table, {"updates": 0, "hot": 0})
    return row["hot"] / row["updates"] if row["updates"] else None


def summarise(found):
    """The figures of one run that others compare."""
    windows = found.get("windows", {})
    ceiling, naive, pipeline = (windows.get(k, []) for k in ("ceiling", "naive", "pipeline"))
    pairs = list(zip(pipeline, ceiling))
    result = {
        "ceiling_per_s": median(ceiling, "per_s"),
        "naive_per_s": median(naive, "per_s"),
        "pipeline_per_s": median(pipeline, "per_s"),
        "rate_ratio": statistics.median(p["per_s"] / c["per_s"] for p, c in pairs) if pairs else None,
        "cpu_ratio": statistics.median(c["cpu_us_all"] / p["cpu_us_all"] for p, c in pairs)
        if pairs else None,
        "foreign_cores_max": max((w["foreign_cores"] for w in ceiling + naive + pipeline),
                                 default=None),
    }
    if pipeline and naive:
        result["naive_ratio"] = result["pipeline_per_s"] / result["naive_per_s"]
    if pipeline:
        result.update({
            "wal_bytes": median(pipeline, "wal_bytes"), "flushes": median(pipeline, "flushes"),
            "hot_payment": hot_ratio(windows["hot"], "payment"),
            "hot_attempt": hot_ratio(windows["hot"], "payment_attempt"),
            "rss_mib_max": max(windows["rss_mib"].values()),
            "books_agree": windows.get("books_agree", False),
        })
    return result


def report(work, arguments):
    found = load(work)
    result = summarise(found)
    print(json.dumps(result, indent=2))
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as out:
            json.dump({**result, "found": found}, out, indent=2)
    return 0
