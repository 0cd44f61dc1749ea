"""ops/chaos.d/world.py: everything that runs in one chaos run, and the ways to reach it: servers,
simulator, stages, the fault proxy between them, and the observer's own connections past all faults.
"""
import json
import os
import random
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from signal import SIGINT, SIGTERM

import sql
from process import Child, reap_orphans
from proxy import Proxy
from servers import Nats, Postgres, Redis, is_root, as_server

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/support"))
import scenario  # noqa: E402  (FAST, RECOVERY: the shortened times that all tests share)

STAGES = ["intake", "route", "create", "recover", "settle", "relay", "gateway"]
SERVERS = ["pg", "nats", "redis"]
MERCHANTS = ["m-1001", "m-1002"]
ACCOUNTS = ["stripe-main", "stripe-backup"]
DELAYS = "500ms, 1s, 1s, 2s, 2s, 4s, 4s, 8s"
# The first send must begin within this; short, so that a stop of the right length passes it.
START_BY_S = 12
CALL_LIMIT_MS = 2000
LEASE_S = 5


class World:
    def __init__(self, folder, seed, binaries, port_base, layout):
        self.dir, self.seed, self.bin, self.port_base = folder, seed, binaries, port_base
        self.layout = layout          # what the seed drew: {"standby": bool, "dns": bool, …}
        self.random = random.Random("world %d" % seed)
        self.environment = {key: value for key, value in os.environ.items()
                            if not key.startswith("ONCEPAY_") or key == "ONCEPAY_TEST_RUN"}
        self.environment["PATH"] = binaries + ":" + self.environment["PATH"]
        self.children = {}            # label -> Child: stages, simulator, servers
        self.proxy = None
        self.shim = os.path.join(binaries, "liboncepay-slow-fsync.so")
        self.shim_control = os.path.join(folder, "slow_fsync")
        self.rules = []               # fault rules of the simulator; kept over its restarts
        self.primary = None           # the cluster that takes writes
        self.grave = None             # what the address of a primary does that died for good
        self.sim_requests = {}        # key -> arrivals, of simulators that were killed
        self.notes = []               # (seconds, text): what happened
        self.begun = time.monotonic()

    # --- where things are ------------------------------------------------------------------------

    def port(self, name, number=1):
        offsets = {"nats": 0, "nats-monitor": 1, "pg": 2, "redis": 3, "sim": 4, "gateway-http": 5,
                   "standby": 6}
        if name in offsets:
            return self.port_base + offsets[name]
        return self.port_base + 10 + 10 * STAGES.index(name) + number - 1

    def log(self, name):
        return os.path.join(self.dir, "log", name + ".log")

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def note(self, text):
        self.notes.append((round(time.monotonic() - self.begun, 2), text))
        with open(self.path("chaos.log"), "a") as file:
            file.write("%8.2f %s\n" % self.notes[-1])

    # --- from nothing ----------------------------------------------------------------------------

    def open(self):
        shutil.rmtree(self.dir, ignore_errors=True)
        os.makedirs(self.path("log"))
        self.write_config()
        self.open_proxy()
        self.make_servers()
        self.start_servers()
        self.cli("migrate", check=True)
        self.cli("topology", "apply", check=True)
        self.make_programs()
        self.children["sim"].start()
        self.wait_sim()
        for child in self.children.values():
            child.keep()

    def write_config(self):
        folder = self.path("config")
        os.makedirs(folder)
        os.symlink(os.path.join(ROOT, "config/secrets"), os.path.join(folder, "secrets"))
        with open(os.path.join(ROOT, "config/oncepay.yaml")) as file:
            text = file.read()
        streams = "streams:\n  replicas: 1\n"
        timers = "timers:\n"
        fast = scenario.FAST
        assert text.count(streams) == 1 and fast.count(timers) == 1
        text = text.replace(streams, streams + "  ack_wait_s: 6\n")
        text += fast.replace(timers, timers + "  start_by_s: %d\n" % START_BY_S)
        with open(os.path.join(folder, "oncepay.yaml"), "w") as file:
            file.write(text)
        with open(os.path.join(folder, "recovery.yaml"), "w") as file:
            file.write(scenario.RECOVERY % {"version": 1, "delays": DELAYS})
        self.environment["ONCEPAY_CONFIG"] = os.path.join(folder, "oncepay.yaml")

    def server_home(self, name):
        """Below our folder if PostgreSQL's user can reach that and the socket's path is short
        enough."""
        home = self.path(name)
        reach = subprocess.run(as_server() + ["test", "-x", self.dir]).returncode == 0
        if reach and len(home) <= 75:
            return home
        home = "/tmp/oncepay-chaos-%d-%d/%s" % (os.getuid(), self.port_base, name)
        shutil.rmtree(home, ignore_errors=True)
        os.makedirs(home)
        os.symlink(home, self.path(name))
        return home

    def make_servers(self):
        slow = dict(self.environment)
        if os.path.exists(self.shim):
            slow.update(LD_PRELOAD=self.shim, ONCEPAY_SLOW_FSYNC=self.shim_control)
            self.slow_fsync(0)
        self.slow_environment = slow
        self.pg = Postgres("pg", self.server_home("pg"), self.port("pg"), self.log("pg"), slow)
        self.primary = self.pg
        self.standby = None
        if self.layout.get("standby"):
            self.standby = Postgres("standby", self.server_home("standby"), self.port("standby"),
                                    self.log("standby"), slow, self.proxy.port("standby-pg"))
        with open(os.path.join(ROOT, "config/nats-users.conf.in")) as file:
            users = file.read()
        os.makedirs(self.path("nats"))
        self.nats = Nats(self.path("nats"), self.port("nats"), self.port("nats-monitor"),
                         self.log("nats"), self.environment, users, MERCHANTS)
        self.redis = Redis(self.path("redis"), self.port("redis"), self.log("redis"),
                           self.environment)
        self.children.update(pg=self.pg.child, nats=self.nats.child, redis=self.redis.child)

    def slow_fsync(self, delay_ms):
        """What the shim reads: its delay; and writes: how many calls it delayed."""
        if not os.path.exists(self.shim_control):
            with open(self.shim_control, "wb") as file:
                file.write(b"\0" * 16)
            os.chmod(self.shim_control, 0o666)
        with open(self.shim_control, "r+b") as file:
            file.write(int(delay_ms).to_bytes(8, "little"))

    def slowed_fsyncs(self):
        with open(self.shim_control, "rb") as file:
            return int.from_bytes(file.read(16)[8:], "little")

    def start_servers(self):
        self.pg.open()
        if self.standby:
            self.standby.open()
            self.children["standby"] = self.standby.child
            self.pg.synchronous = "standby"
            sql.run(self.pg.url, "ALTER SYSTEM SET synchronous_standby_names = 'standby'")
            self.pg.child.stop(30, SIGINT)
            self.pg.start()
            sql.wait_ready(self.pg.url)
        self.nats.child.start()
        self.redis.child.start()
        if not self.nats.wait_healthy():
            raise AssertionError("nats-server did not start, see " + self.log("nats"))

    # --- the proxy -------------------------------------------------------------------------------

    def open_proxy(self):
        pairs = []
        for stage in STAGES + ["producer"]:
            pairs += [(stage + "-" + server, self.port(server)) for server in SERVERS]
            if self.layout.get("standby"):
                pairs.append((stage + "-standby", self.port("standby")))
        if self.layout.get("standby"):
            pairs.append(("standby-pg", self.port("pg")))
        # One for all who call the PSP: its address is part of what an attempt stores.
        pairs.append(("stages-sim", self.port("sim")))
        pairs.append(("sim-gateway", self.port("gateway-http")))
        self.proxy = Proxy(os.path.join(self.bin, "oncepay-faultproxy"), self.seed,
                           self.port_base + 100, pairs, self.log("proxy"))

    def clear(self, pattern):
        """Ends what the proxy does there, except where somebody is dead."""
        self.proxy.clear(pattern)
        if self.grave:
            self.proxy.set("*-pg", **{self.grave: 1})

    def urls(self, who):
        """What a process is told: every server through a pair of its own."""
        at = self.proxy.port
        hosts = "127.0.0.1:%d" % at(who + "-pg")
        query = ""
        if self.layout.get("standby"):
            hosts += ",127.0.0.1:%d" % at(who + "-standby")
            query = "?target_session_attrs=read-write"
        urls = {"ONCEPAY_PG_URL": "postgresql://oncepay@%s/oncepay%s" % (hosts, query),
                "ONCEPAY_NATS_URL": self.nats.url(at(who + "-nats")),
                "ONCEPAY_REDIS_URL": "redis://127.0.0.1:%d" % at(who + "-redis")}
        name = "psp.chaos.test" if self.layout.get("dns") else "127.0.0.1"
        urls["ONCEPAY_SIM_URL"] = "http://%s:%d" % (name, at("stages-sim"))
        return urls

    def own_urls(self):
        """The observer's: past the proxy."""
        return {"ONCEPAY_PG_URL": self.primary.url, "ONCEPAY_NATS_URL": self.nats.url(),
                "ONCEPAY_REDIS_URL": "redis://127.0.0.1:%d" % self.redis.port,
                "ONCEPAY_SIM_URL": "http://127.0.0.1:%d" % self.port("sim"),
                "ONCEPAY_GATEWAY_URL": "http://127.0.0.1:%d" % self.port("gateway-http")}

    # --- programs --------------------------------------------------------------------------------

    def make_programs(self):
        self.write_rules()
        self.children["sim"] = Child("sim", [
            os.path.join(self.bin, "oncepay-psp-sim"), "--port", str(self.port("sim")),
            "--data", self.path("sim"), "--webhook-url",
            "http://127.0.0.1:%d/webhooks" % self.proxy.port("sim-gateway"),
            "--faults", self.path("rules.json"), "--seed", str(self.seed)],
            self.slow_environment, self.log("sim"))
        for stage in STAGES:
            for number in range(1, self.layout["instances"][stage] + 1):
                self.add_stage(stage, number)

    def add_stage(self, stage, number):
        label = stage if number == 1 else "%s#%d" % (stage, number)
        environment = dict(self.environment, ONCEPAY_METRICS_PORT=str(self.port(stage, number)),
                           ONCEPAY_GATEWAY_PORT=str(self.port("gateway-http")), **self.urls(stage))
        self.children[label] = Child(label, [os.path.join(self.bin, "oncepay-" + stage)],
                                     environment, self.log(label))
        return self.children[label]

    def stages(self, stage=None):
        return [child for label, child in self.children.items()
                if label.split("#")[0] in ([stage] if stage else STAGES)]

    def keep(self):
        """Restarts what died and nobody holds; to be called often."""
        for name, child in list(self.children.items()):
            server = {"pg": self.pg, "standby": self.standby}.get(name)
            if server is not None and not child.is_alive() and not child.holds:
                server.forget_locks()
            child.keep()
        reap_orphans(self.children.values())

    def close(self):
        for child in self.stages():
            child.thaw()
            child.signal(SIGTERM)
        bad = {}
        for child in self.stages():
            code = child.wait_end(20)
            if code != 0:
                bad[child.name] = code
        for name in ("sim", "nats", "redis"):
            if name in self.children:
                self.children[name].stop(10)
        for server in (self.standby, self.pg):
            if server is not None:
                server.child.stop(20, SIGINT)
        if self.proxy:
            self.proxy.close()
        return bad

    # --- the observer's ways ---------------------------------------------------------------------

    def cli(self, *words, check=False):
        done = subprocess.run([os.path.join(self.bin, "oncepay"), *words], cwd=self.dir,
                              env=dict(self.environment, **self.own_urls()), capture_output=True,
                              text=True, timeout=120)
        if check and done.returncode != 0:
            raise AssertionError("oncepay %s: %s%s" % (" ".join(words), done.stdout, done.stderr))
        return done

    def sql(self, statement, timeout=60):
        return sql.run(self.primary.url, statement, timeout)

    def number(self, statement):
        return int(self.sql(statement)[0][0])

    def http(self, url, body=None, method=None, headers=None, timeout=10):
        data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
        request = urllib.request.Request(url, data=data, method=method, headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def sim(self, path, body=None, method=None, timeout=2):
        """The simulator's answer; None when it is away."""
        try:
            url = "http://127.0.0.1:%d%s" % (self.port("sim"), path)
            status, answer = self.http(url, body, method, timeout=timeout)
        except OSError:
            return None
        return json.loads(answer) if status < 300 and answer else None

    def wait_sim(self):
        end = time.monotonic() + 20
        while self.sim("/_sim/health") is None:
            if time.monotonic() > end:
                raise AssertionError("the simulator did not start, see " + self.log("sim"))
            time.sleep(0.05)

    def write_rules(self):
        with open(self.path("rules.json.new"), "w") as file:
            json.dump(self.rules, file)
        os.replace(self.path("rules.json.new"), self.path("rules.json"))

    def set_rules(self, rules):
        """From now on, and after a restart of the simulator too."""
        self.rules = rules
        self.write_rules()
        return self.sim("/_sim/faults", rules, "PUT") is not None

    def take_sim_requests(self):
        """Before a simulator is killed: it forgets what it counted."""
        seen = self.sim("/_sim/requests", timeout=30)
        for entry in (seen or {}).get("keys", []):
            name = (entry["account"], entry["key"])
            self.sim_requests.setdefault(name, []).extend(entry["arrivals"])
