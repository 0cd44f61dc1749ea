"""ops/chaos.d/report.py: the results of one or more seeds as one report: what really happened,
which rare states were reached, what does not hold. Exit 0 only if everything holds.

  report.py [--need-states] [--json FILE] --minutes M --rate R RESULT...
"""
import argparse
import collections
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import states  # noqa: E402


def load(options):
    """What each run has left; of one that was killed, only that it was."""
    results = []
    for path in options.results:
        if os.path.exists(path):
            with open(path) as file:
                results.append(json.load(file))
            continue
        seed = os.path.basename(path).split("-")[1].split(".")[0]
        results.append({"seed": int(seed), "minutes": options.minutes, "rate": options.rate,
                        "ok": False, "problems": ["the run ended without a result"]})
    return results


def added(results, key):
    total = collections.Counter()
    for result in results:
        total.update(result.get(key, {}))
    return dict(sorted(total.items()))


def missing_states(reached, results):
    """Listed ones that nobody reached, but for those that this machine does not allow."""
    can = set.union(set(), *({need for need, yes in result.get("layout", {}).items() if yes}
                             for result in results))
    return [name for name in states.names()
            if not reached.get(name) and (name not in states.NEEDS or states.NEEDS[name] in can)]


def without_effect(results):
    """Faults that began, and were not seen to do anything in any of the runs."""
    return sorted(set(added(results, "begun")) - set(added(results, "effective")))


def print_counts(title, counts):
    print("\n" + title)
    for name, count in counts.items():
        print("  %9s  %s" % (count or "-", name))


def command(result):
    return "ops/chaos --seed %(seed)d --minutes %(minutes)g --rate %(rate)g" % result


def show(results, seen, reached):
    print_counts("What happened (seen, not only planned)", seen)
    for card in without_effect(results):
        print("  began, and met nobody: " + card)
    print_counts("Rare states", {name: reached.get(name, 0) for name in states.names()})
    for text in sorted({text for result in results for text in result.get("skipped", [])}):
        print("  skipped: " + text)
    print("\n%-8s %9s %9s %9s %9s  %s" % ("seed", "payments", "attempts", "requests", "cases", ""))
    for result in results:
        print("%-8d %9s %9s %9s %9s  %s" % (
            result["seed"], sum(result.get("payments", {}).values()) or "-",
            result.get("attempts", "-"), result.get("requests_sent", "-"),
            sum(result.get("cases", {}).values()),
            "holds" if result["ok"] else "FAILED, again with: " + command(result)))
        for problem in result["problems"]:
            print("    " + problem.replace("\n", "\n    "))


def main():
    parser = argparse.ArgumentParser(prog="report.py")
    parser.add_argument("--need-states", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("results", nargs="+")
    arguments = parser.parse_args()
    results = load(arguments)
    seen, reached = added(results, "seen"), added(results, "states")
    missing = missing_states(reached, results)
    ok = all(result["ok"] for result in results) and not (arguments.need_states and missing)
    show(results, seen, reached)
    if arguments.need_states and missing:
        print("\nnever reached: " + "; ".join(missing))
    print("\nchaos: %s" % ("everything holds" if ok else "FAILED"))
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"ok": ok, "seen": seen, "without_effect": without_effect(results),
                       "states": reached, "never_reached": missing, "seeds": results}, file,
                      indent=2)
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
