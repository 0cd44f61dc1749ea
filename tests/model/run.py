"""tests/model/run.py: searches tests/model/payment.pml with spin, exhaustively.

Usage: run.py --spin SPIN --cc CC NAME
NAME is one of CHECKS (spin must find no error, and must have reached the rare states that are named
there, so that nothing holds only because nothing happens) or one of BROKEN (a rule of the protocol
is left out, and spin must find that out). Prints how many states there are.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

MODEL = pathlib.Path(__file__).with_name("payment.pml")
SECONDS_MAX = 180  # where nothing else runs, 30 are enough
MEGABYTES_MAX = 2000

KEEPS = "KEEPS"  # all results under the key, as Stripe does; without it: successes only
ONE = ("ORDINALS=1",)  # channel account
TARGET = ("ORDINALS=1", "PAYMENTS=2")

SENDING = {"SLEEPER_WAKES_LAST", "JUDGED_AGAIN", "ANSWERED_BEFORE_FIRST_ARRIVES",
           "FIRST_ARRIVES_AFTER_REPLAY", "LEASE_TAKEN_OVER", "FENCE_RAN_OUT", "SENT_AGAIN"}
FAULTS = {"COMMIT_IN_DOUBT", "END_ANNOUNCED_AGAIN", "MESSAGE_LOST", "MESSAGE_COPIED"}

# Of two attempts with replays one fault is as much as can be searched: each further one makes it ten
# times as large, and of one attempt three times.
CHECKS = {  # name: what is defined, and which rare states are reached
    "failover": ((KEEPS, "FAULTS=1"), SENDING | FAULTS | {"SECOND_ACCOUNT_PAYS"}),
    "failover_successes_only": (("FAULTS=1",), SENDING | FAULTS | {
        "SECOND_ACCOUNT_PAYS", "NOT_FOUND_ENDS", "HOLD_LIFTED"}),
    "one_account": ((KEEPS, *ONE, "FAULTS=2"), SENDING | FAULTS | {"KEY_FORGOTTEN", "PERSON_OWNS"}),
    "one_account_successes_only": ((*ONE, "FAULTS=2"), SENDING | FAULTS | {"NOT_FOUND_ENDS"}),
    "two_settle": ((KEEPS, *ONE, "SETTLERS=2"), SENDING | FAULTS | {"SETTLED_BY_OTHER"}),
    "two_payments":
        ((KEEPS, *TARGET, "FAULTS=1"), SENDING | FAULTS | {"SECOND_PAYMENT_PAYS"}),
    "two_payments_successes_only":
        ((*TARGET, "FAULTS=1"), SENDING | FAULTS | {"SECOND_PAYMENT_PAYS", "HOLD_LIFTED"}),
    "payable_decline": ((KEEPS, "HOSTILE", "FAULTS=2"), FAULTS | {
        "STRAY_KEPT", "SECOND_ACCOUNT_PAYS", "JUDGED_AGAIN"}),
}
BROKEN = {
    "no_fence": (KEEPS, *ONE),
    "no_version": (KEEPS, *ONE),
    "no_send_by": ("FAULTS=0",),
    "timeout_as_failure": (KEEPS, "FAULTS=0"),
    "failover_from_unknown": (KEEPS, "FAULTS=0"),
    "apply_end_twice": (KEEPS, *ONE),
    "new_key_on_replay": (KEEPS, *ONE),
    "replay_after_retention": (KEEPS, *ONE),
    "no_late_window": ("FAULTS=0",),
    "window_at_judgement": ("FAULTS=0",),
    "claim_unseen": ("FAULTS=0",),
    "pointer_without_version": (KEEPS, *TARGET, "FAULTS=0"),
}


def run(command, folder):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def search(options, defines):
    """The verifier's report, and the steps to the error that it found, if any."""
    flags = ["-D" + define for define in defines]
    with tempfile.TemporaryDirectory(prefix="oncepay-model-") as folder:
        made = run([options.spin, "-a", *flags, str(MODEL)], folder)
        if made.returncode != 0 or not pathlib.Path(folder, "pan.c").exists():
            sys.exit(made.stdout + made.stderr)
        # Neither -O2 nor -DCOLLAPSE: the one would compile longer than it saves, the other saves
        # memory that there is.
        built = run([options.cc, "-w", "-O1", "-DSAFETY", f"-DMEMLIM={MEGABYTES_MAX}",
                     "-o", "pan", "pan.c"], folder)
        if built.returncode != 0:
            sys.exit(built.stderr)
        # -E: everybody waiting is no error here; the process quiet looks at what they have left.
        searched = run(["timeout", str(SECONDS_MAX), "./pan", "-E", "-m100000", "-w24"], folder)
        trail = ""
        if pathlib.Path(folder, MODEL.name + ".trail").exists():
            trail = run([options.spin, "-k", MODEL.name + ".trail", "-t", "-p", *flags, str(MODEL)],
                        folder).stdout
        return searched.stdout, trail


def rare_states(report):
    """The names that payment.pml gives to the numbers that the search has printed."""
    listed = MODEL.read_text().split("#define RARE")[1].split("#ifndef")[0]
    names = dict(re.findall(r"^#define ([A-Z_]+) (\d+)$", listed, re.M))
    reached = set(re.findall(r"^rare: (\d+)$", report, re.M))
    return {name for name, number in names.items() if number in reached}


def has_error(report):
    return re.search(r"errors: 0\b", report) is None and "errors:" in report


def is_whole(report):
    """All of it was searched: not out of time, memory or depth."""
    return "errors:" in report and "not completed" not in report and "too small" not in report


def describe(report):
    states = re.search(r"(\S+) states, stored", report)
    memory = re.search(r"(\S+)\s+total actual memory usage", report)
    seconds = re.search(r"elapsed time (\S+) seconds", report)
    values = [found.group(1) if found else "?" for found in (states, memory, seconds)]
    return "{} states, {} MB, {} s".format(*values)


def check(options):
    defines, wanted = CHECKS[options.name]
    report, trail = search(options, defines)
    print(describe(report))
    missing = (wanted | {"ALL_AT_REST"}) - rare_states(report)
    if has_error(report) or not is_whole(report):
        print(trail[-6000:], report[-3000:], sep="\n")
        return False
    if missing:
        print("never reached:", *sorted(missing))
    return not missing


def refute(options):
    report, _ = search(options, ("BROKEN_" + options.name.upper(), *BROKEN[options.name]))
    error = re.search(r"assertion violated .*", report)
    print("refuted: " + error.group(0) if error else report[-3000:])
    return error is not None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spin", required=True)
    parser.add_argument("--cc", required=True)
    parser.add_argument("name", choices=[*CHECKS, *BROKEN])
    options = parser.parse_args()
    is_good = check(options) if options.name in CHECKS else refute(options)
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
