"""ops/chaos.d/main.py: one chaos run of one seed: world, schedule, faults, heal, checks, report.
ops/chaos starts it; usage is there.
"""
import argparse
import collections
import glob
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
import traceback

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import checks  # noqa: E402
import faults_message  # noqa: E402,F401
import faults_network  # noqa: E402
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
from scraper import Scraper  # noqa: E402
from watcher import Nats, Watcher  # noqa: E402

FAKETIME = next(iter(glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")), "")
EXCUSE_AFTER_MS = 3000  # what was held comes that much later at most
ANSWER_S = 40
HEAL_S = 60
AGAIN_MAX = 4
AROUND_S = 240  # servers made, answers, rest, checks, end


def allowed(folder, binaries):
    """What this machine allows, as needs of faults; and for the rest, why not."""
    can, why_not = {}, {}
    own = os.environ.get("ONCEPAY_CHAOS_OWN_NETWORK") == "yes"
    can["own_mounts"] = os.environ.get("ONCEPAY_CHAOS_OWN_MOUNTS") == "yes"
    can["shim"] = os.path.exists(os.path.join(binaries, "liboncepay-slow-fsync.so"))
    can["faketime"] = os.path.exists(FAKETIME)
    can["packet_filter"] = own and shutil.which("nft") is not None and subprocess.run(
        ["nft", faults_network.LOSS % 0 + "delete table inet chaos"],
        stderr=subprocess.DEVNULL).returncode == 0
    can["dns"] = own and can["own_mounts"]
    for need, why in (("own_mounts", "full disks: no mount namespace of our own (root)"),
                      ("shim", "slow fsync: the preload library is not built"),
                      ("faketime", "wrong clocks: the package faketime is missing"),
                      ("packet_filter", "packet loss: no packet filter in a network of our own"),
                      ("dns", "wrong names: no network and mount namespace of our own (root)")):
        if not can[need]:
            why_not[need] = why
    return can, why_not


def make_layout(seed, can):
    """How this seed's world looks; of three neighbouring seeds one has a standby."""
    instances = {stage: 1 if stage in ("gateway", "route") else 2 for stage in world_module.STAGES}
    return dict(can, standby=seed % 3 == 2, instances=instances)


class Run:
    """What faults have in their hands."""

    def __init__(self, options, layout):
        self.options = options
        self.layout = layout
        self.world = world_module.World(options.folder, options.seed, options.bin,
                                        options.port_base, layout)
        self.draw = random.Random("run %d" % options.seed)
        self.seen = collections.Counter()
        self.begun = collections.Counter()      # faults by their card
        self.effective = collections.Counter()  # those of them that were seen to do something
        self.problems = []
        self.poison = []
        self.excused = []
        self.excusing = {}
        self.faketime = FAKETIME
        self.nats_connection = None
        self.watcher = None
        self.producers = None
        self.scraper = None

    def saw(self, what, count=1):
        self.seen[what] += count

    def problem(self, text):
        self.problems.append(text)
        self.world.note("PROBLEM " + text)

    # --- periods in which a request may come late ------------------------------------------------

    def excuse_begin(self, fault):
        self.excusing[fault] = time.time() * 1000

    def excuse_end(self, fault):
        if fault in self.excusing:
            self.excused.append((self.excusing.pop(fault), time.time() * 1000 + EXCUSE_AFTER_MS))

    # --- ways that may be broken -----------------------------------------------------------------

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

    def ended_objects(self, count):
        """(account, object, status of the attempt) of some that are over."""
        return self.world.sql(
            "SELECT channel_account, provider_payment_id, status FROM oncepay.payment_attempt "
            "WHERE status IN (50, 60) AND provider_payment_id IS NOT NULL "
            "ORDER BY hashtext(id::text || '%d') LIMIT %d"
            % (self.draw.randrange(1 << 30), count), 5)

    def open_keys(self, count):
        """(key, account) of some attempts of which it is not known yet what became of them."""
        return self.world.sql(
            "SELECT provider_key, channel_account FROM oncepay.payment_attempt "
            "WHERE status IN (20, 30, 40) LIMIT %d" % count, 5)


class ScheduleClock:
    """The schedule's time: it stands still while a fault takes long to begin or end, so that
    what the schedule keeps apart stays apart."""
    STEP_MAX_S = 0.3

    def __init__(self):
        self.seconds, self.looked = 0.0, time.monotonic()

    def now(self):
        at = time.monotonic()
        self.seconds += min(at - self.looked, self.STEP_MAX_S)
        self.looked = at
        return self.seconds


def play(run, entries, seconds):
    """Begins and ends faults when their time has come, and keeps everything else running."""
    world = run.world
    running, again = [], []
    todo = list(entries)
    clock = ScheduleClock()
    while True:
        now = clock.now()
        for at, fault in [item for item in running if is_over(run, *item, now)]:
            running.remove((at, fault))
            finish(run, fault, again)
        if now >= seconds:
            break
        while todo and todo[0].at_s <= now:
            fault = todo.pop(0).fault
            for at, other in [item for item in running if item[1].things & fault.things]:
                running.remove((at, other))  # it has waited for somebody to meet until now
                finish(run, other, again)
            start(run, fault, now, running)
        for fault in [fault for fault in again if schedule.has_room(fault, now, running, todo)]:
            again.remove(fault)
            start(run, fault, now, running)
        for _, fault in running:
            if hasattr(fault, "step"):
                attempt(run, fault, fault.step)
        world.keep()
        time.sleep(0.03)
    for _, fault in running:
        finish(run, fault, again)


def is_over(run, at_s, fault, now_s):
    """Its time has come, and it has met somebody or its patience is at an end."""
    return now_s >= at_s and (now_s >= at_s + fault.patience_s or fault.has_met(run))


def start(run, fault, now_s, running):
    run.world.note("begin " + str(fault))
    run.begun[fault.card] += 1
    attempt(run, fault, fault.begin)
    running.append((now_s + fault.seconds, fault))


def finish(run, fault, again):
    """What has met nobody comes once more where the schedule has room."""
    run.world.note("end " + str(fault))
    attempt(run, fault, fault.end)
    may_come = fault.comes_again and run.begun[fault.card] < AGAIN_MAX
    if may_come and not run.effective[fault.card]:
        again.append(fault)


def attempt(run, fault, what):
    """A fault whose victim is just away has no effect; anything else is an error of ours."""
    before = run.seen.total()
    try:
        what(run)
    except (sql.SqlError, ConnectionError, TimeoutError, subprocess.TimeoutExpired) as error:
        run.world.note("no effect: %s: %s" % (fault, error))
    if run.seen.total() > before:
        run.effective[fault.card] += 1


def heal(run):
    world = run.world
    world.note("heal")
    world.clear("*")
    world.slow_fsync(0)
    for disk in (world.primary.disk, world.nats.disk):
        disk.empty()
    for name, child in world.children.items():
        if child.is_frozen:  # the last worker stands still by itself, and goes on doing so
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
    timing = collections.Counter()
    for name, what in (
            ("verify", lambda: checks.verify(world)),
            ("money", lambda: checks.money(world)),
            ("answers", lambda: checks.answers(world, run.producers)),
            ("events", lambda: checks.events(world, run.watcher)),
            ("requests", lambda: checks.requests(world, run.excused, timing)),
            ("dead letters", lambda: checks.dead_letters(world, run.poison)),
            ("processes", lambda: checks.processes(world))):
        try:
            problems = what()
        except Exception as error:  # the others are still worth knowing
            problems = ["%s\n%s" % (error, traceback.format_exc())]
        for text in checks.some(problems):
            run.problem("%s: %s" % (name, text))
    return dict(timing)


def execute(options):
    can, why_not = allowed(options.folder, options.bin)
    layout = make_layout(options.seed, can)
    seconds = options.minutes * 60
    entries = schedule.make(options.seed, seconds, layout)
    if options.print_schedule:
        for entry in entries:
            print(entry)
        return 0
    run = Run(options, layout)
    world = run.world
    result = {"seed": options.seed, "minutes": options.minutes, "rate": options.rate,
              "layout": layout, "skipped": list(why_not.values()), "ok": False}
    limit_s = 1.5 * seconds + AROUND_S  # the schedule's clock stands still now and then
    limit = threading.Timer(limit_s, give_up, (options, result, run, limit_s))
    limit.daemon = True
    limit.start()
    try:
        world.rules = list(faults_psp.STEADY)
        if layout["dns"]:
            os.makedirs(options.folder, exist_ok=True)
            world.names = Names(os.path.dirname(options.folder))
        world.open()
        run.watcher = Watcher(world)
        run.watcher.start()
        run.scraper = Scraper(world, "intake")
        run.scraper.start()
        run.producers = Producers(world, options.rate)
        run.producers.start()
        last = LastWorker(run, seconds)
        play(run, last.added_to(entries), seconds)
        heal(run)
        left = settle_down(run)
        if left:
            run.problem("not quiet after %d s: %s; see left.txt" % (HEAL_S, left))
            checks.write_left(world, run.nats())
        last.wake()
        result["requests"] = check(run)
        run.scraper.finish()
        run.scraper.look()
        result["states"] = states.reached(run)
        run.watcher.finish()
        result.update(states.totals(run))
    except Exception as error:
        run.problem("%s: %s\n%s" % (type(error).__name__, error, traceback.format_exc()))
    finally:
        bad = world.close()
        if bad:
            run.problem("did not stop in order: %s" % bad)
    limit.cancel()
    write(options, result, run)
    return 0 if result["ok"] else 1


def write(options, result, run):
    result.update(seen=dict(sorted(run.seen.items())), begun=run.begun, effective=run.effective,
                  problems=run.problems, ok=not run.problems)
    with open(options.json + ".new", "w") as file:
        json.dump(result, file, indent=2)
    os.replace(options.json + ".new", options.json)


def give_up(options, result, run, limit_s):
    """Something of ours hangs. Whatever we have started ends with us."""
    run.problem("the run is not over after %d s" % limit_s)
    write(options, dict(result), run)
    os._exit(1)


def main():
    parser = argparse.ArgumentParser(prog="chaos.d/main.py")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--json", required=True)
    parser.add_argument("--rate", type=float, default=40)
    parser.add_argument("--port-base", type=int, default=25000)
    parser.add_argument("--print-schedule", action="store_true")
    sys.exit(execute(parser.parse_args()))


if __name__ == "__main__":
    main()
