"""ops/chaos.d/main.py: one chaos run of one seed: world, schedule, faults, heal, checks, report.
ops/chaos starts it; usage is there.
"""
import argparse
import collections
import json
import os
import random
import shutil
import subprocess
import sys
import time
import traceback

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import checks  # noqa: E402
import faults_message  # noqa: E402,F401
import faults_network  # noqa: E402,F401
import faults_process  # noqa: E402,F401
import faults_psp  # noqa: E402
import faults_server  # noqa: E402,F401
import schedule  # noqa: E402
import sql  # noqa: E402
import states  # noqa: E402
import world as world_module  # noqa: E402
from last_worker import LastWorker  # noqa: E402
from names import Names  # noqa: E402
from producers import Producers  # noqa: E402
from watcher import Nats, Watcher  # noqa: E402

FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
EXCUSE_AFTER_MS = 3000  # what was held comes that much later at most
ANSWER_S = 40
HEAL_S = 60


def allowed(folder, binaries):
    """What this machine allows, as needs of faults; and for the rest, why not."""
    can, why_not = {}, {}
    own = os.environ.get("ONCEPAY_CHAOS_OWN_NETWORK") == "yes"
    can["own_mounts"] = os.environ.get("ONCEPAY_CHAOS_OWN_MOUNTS") == "yes"
    can["shim"] = os.path.exists(os.path.join(binaries, "liboncepay-slow-fsync.so"))
    can["faketime"] = os.path.exists(FAKETIME)
    can["packet_filter"] = own and shutil.which("nft") is not None and subprocess.run(
        ["nft", "add table inet probe; add chain inet probe c { type filter hook input priority 0; }; "
                "add rule inet probe c numgen random mod 2 < 1 counter; delete table inet probe"],
        stderr=subprocess.DEVNULL).returncode == 0
    can["dns"] = own and can["own_mounts"]
    for need, why in (("own_mounts", "full disks: no mount namespace of our own (root)"),
                      ("shim", "slow fsync: the preload library is not built"),
                      ("faketime", "wrong clocks: the package faketime is missing"),
                      ("packet_filter", "packet loss: no packet filter in a network namespace of our own"),
                      ("dns", "wrong names: no network and mount namespace of our own (root)")):
        if not can[need]:
            why_not[need] = why
    return can, why_not


def make_layout(seed, can, options):
    """How this seed's world looks. Drawn, so that a few seeds see all of it."""
    draw = random.Random("layout %d" % seed)
    number = options.place
    layout = dict(can)
    layout["standby"] = number % 3 == 1 if number is not None else draw.random() < 0.4
    layout["instances"] = {stage: 1 if stage in ("gateway", "route") else 2 for stage in world_module.STAGES}
    if number is not None:
        layout["deck_begin"] = round(number * len(schedule.usable(layout)) / max(1, options.places))
    return layout


class Run:
    """What faults have in their hands."""

    def __init__(self, options, layout):
        self.options = options
        self.layout = layout
        self.world = world_module.World(options.folder, options.seed, options.bin, options.port_base, layout)
        self.draw = random.Random("run %d" % options.seed)
        self.seen = collections.Counter()
        self.problems = []
        self.poison = []
        self.excused = []
        self.excusing = {}
        self.faketime = FAKETIME
        self.nats_connection = None
        self.watcher = None
        self.producers = None

    def saw(self, what, count=1):
        self.seen[what] += count

    def problem(self, text):
        self.problems.append(text)
        self.world.note("PROBLEM " + text)

    # --- periods in which a request may come late -------------------------------------------------

    def excuse_begin(self, fault):
        self.excusing[fault] = time.time() * 1000

    def excuse_end(self, fault):
        if fault in self.excusing:
            self.excused.append((self.excusing.pop(fault), time.time() * 1000 + EXCUSE_AFTER_MS))

    # --- ways that may be broken ------------------------------------------------------------------

    def nats(self):
        if self.nats_connection is None:
            self.nats_connection = Nats(self.world.nats.url())
        return self.nats_connection

    def forget_nats(self):
        if self.nats_connection is not None:
            self.nats_connection.close()
        self.nats_connection = None

    def publish(self, subject, body, headers):
        """1 if the server took it, else 0."""
        try:
            self.nats().publish(subject, body, headers)
            return 1
        except (OSError, TimeoutError):
            self.forget_nats()
            return 0

    def jetstream(self, subject):
        try:
            return self.nats().api(subject, timeout=5)
        except (OSError, TimeoutError, ValueError):
            self.forget_nats()
            return None

    def post_webhook(self, account, body, signature):
        headers = {"Content-Type": "application/json"}
        if signature:
            headers["Stripe-Signature"] = signature
        url = "http://127.0.0.1:%d/webhooks/%s" % (self.world.port("gateway-http"), account)
        try:
            return self.world.http(url, body, "POST", headers, 3)[0]
        except OSError:
            return None

    def ledger_rows(self):
        return len(self.world.sim("/_sim/ledger") or [])

    def old_charges(self, count):
        rows = self.world.sim("/_sim/ledger") or []
        return self.draw.sample(rows, min(count, len(rows)))

    def open_keys(self):
        try:
            return [tuple(row) for row in self.world.sql(
                "SELECT provider_key, channel_account FROM oncepay.payment_attempt "
                "WHERE status IN (20, 30, 40) LIMIT 20", 5)]
        except sql.SqlError:
            return []


def play(run, entries, seconds):
    """Begins and ends faults when their time has come, and keeps everything else running."""
    world = run.world
    running = []
    todo = list(entries)
    begun = time.monotonic()
    while True:
        now = time.monotonic() - begun
        for at, fault in [item for item in running if item[0] <= now]:
            running.remove((at, fault))
            world.note("end " + str(fault))
            attempt(run, fault, fault.end)
        if now >= seconds:
            break
        while todo and todo[0].at_s <= now:
            fault = todo.pop(0).fault
            world.note("begin " + str(fault))
            attempt(run, fault, fault.begin)
            running.append((time.monotonic() - begun + fault.seconds, fault))
        for _, fault in running:
            if hasattr(fault, "step"):
                attempt(run, fault, fault.step)
        world.keep()
        time.sleep(0.03)
    for _, fault in running:
        world.note("end " + str(fault))
        attempt(run, fault, fault.end)


def attempt(run, fault, what):
    """A fault whose victim is just away has no effect; anything else is an error of ours."""
    try:
        what(run)
    except (sql.SqlError, ConnectionError, TimeoutError, subprocess.TimeoutExpired) as error:
        run.world.note("no effect: %s: %s" % (fault, error))


def heal(run):
    world = run.world
    world.note("heal")
    world.proxy.clear("*")
    world.slow_fsync(0)
    for disk in (world.primary.disk, world.nats.disk):
        disk.empty()
    for name, child in world.children.items():
        child.holds.discard(None)
        child.thaw()
        if not (name == "pg" and world.primary is not world.pg):
            child.holds.clear()
    world.primary.thaw()
    world.set_rules([])
    end = time.monotonic() + 60
    while not (checks.is_there(world) and world.nats.is_healthy()):
        world.keep()
        if time.monotonic() > end:
            run.problem("the servers did not come back")
            return
        time.sleep(0.1)


def settle_down(run):
    """Producers get their last answers, then everything comes to rest, all within a bound."""
    world = run.world
    end = time.monotonic() + ANSWER_S
    run.producers.enough.set()
    while run.producers.thread.is_alive() and time.monotonic() < end:
        world.keep()
        time.sleep(0.1)
    if run.producers.thread.is_alive():
        run.problem("requests without an answer: %s" % sorted(run.producers.waiting)[:5])
        run.producers.waiting.clear()
    run.producers.finish(5)
    world.set_rules([])
    run.forget_nats()
    return checks.wait_quiet(world, run.nats(), HEAL_S, world.keep)


def check(run):
    world = run.world
    if not checks.is_there(world):
        return {}
    found = {
        "verify": checks.verify(world),
        "money": checks.money(world),
        "answers": checks.answers(world, run.producers),
        "events": checks.events(world, run.watcher),
        "dead letters": checks.dead_letters(world, run.poison),
        "processes": checks.processes(world),
    }
    found["requests"], timing = checks.requests(world, run.excused)
    for name, problems in found.items():
        for text in checks.some(problems):
            run.problem("%s: %s" % (name, text))
    return timing


def execute(options):
    can, why_not = allowed(options.folder, options.bin)
    layout = make_layout(options.seed, can, options)
    seconds = options.minutes * 60
    entries = schedule.make(options.seed, seconds, layout)
    if options.print_schedule:
        for entry in entries:
            print(entry)
        return 0
    run = Run(options, layout)
    world = run.world
    result = {"seed": options.seed, "minutes": options.minutes, "layout": layout,
              "skipped": list(why_not.values()), "ok": False}
    try:
        world.rules = list(faults_psp.STEADY)
        if layout["dns"]:
            os.makedirs(options.folder, exist_ok=True)
            world.names = Names(os.path.dirname(options.folder))
        world.open()
        run.watcher = Watcher(world)
        run.watcher.start()
        run.producers = Producers(world, options.rate)
        run.producers.start()
        last = LastWorker(run, seconds)
        play(run, last.added_to(entries), seconds)
        heal(run)
        left = settle_down(run)
        if left:
            run.problem("not quiet after %d s: %s" % (HEAL_S, left))
        last.wake()
        result["requests"] = check(run)
        result["states"] = states.reached(run)
        run.watcher.finish()
        result.update(states.totals(run))
    except Exception as error:
        run.problem("%s: %s\n%s" % (type(error).__name__, error, traceback.format_exc()))
    finally:
        bad = world.close()
        if bad:
            run.problem("did not stop in order: %s" % bad)
    result.update(seen=dict(sorted(run.seen.items())), problems=run.problems, ok=not run.problems)
    with open(options.json, "w") as file:
        json.dump(result, file, indent=2)
    return 0 if result["ok"] else 1


def main():
    parser = argparse.ArgumentParser(prog="chaos.d/main.py")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--json", required=True)
    parser.add_argument("--rate", type=float, default=40)
    parser.add_argument("--port-base", type=int, default=25000)
    parser.add_argument("--place", type=int, help="of this seed in its set …")
    parser.add_argument("--places", type=int, default=1, help="… of so many")
    parser.add_argument("--print-schedule", action="store_true")
    sys.exit(execute(parser.parse_args()))


if __name__ == "__main__":
    main()
