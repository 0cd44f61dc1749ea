"""What a scenario test has in its hands: a stack of real servers and processes of its own, its
books in PostgreSQL, the simulator's books, and waits for conditions with a bound.

A scenario file is a unittest module; each class has its own stack (setUpClass/tearDownClass), each
test its own targets and numbers. Run one with ctest -R scenario, or python3 tests/scenario/X.py.
"""
import json
import os
import shutil
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request
import uuid

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nats import Nats  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("ONCEPAY_BIN", os.path.join(ROOT, "build/dev/bin"))
# Debian's psql in the PATH is a wrapper that takes ten times as long to start.
PSQL = next(filter(os.path.exists, ["/usr/lib/postgresql/15/bin/psql"]), "psql")

PAYMENT = {10: "CREATED", 20: "AUTHORIZING", 25: "CANCELING", 50: "CAPTURED", 90: "FAILED", 95: "CANCELED"}
ATTEMPT = {10: "CREATED", 20: "SENDING", 30: "PROCESSING", 40: "UNKNOWN", 50: "SUCCEEDED", 60: "FAILED"}
STAGES = ["intake", "route", "create", "recover", "settle", "relay", "gateway"]


def wait_for(what, condition, timeout=30, step=0.05):
    """Returns condition()'s first true value; fails with a sentence after timeout seconds."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError("after %s s still not: %s" % (timeout, what))
        time.sleep(step)


# Times of the protocol, shortened: what is 37 s in production is 4 s here. The order that they must keep is kept.
FAST = """
timers:
  send_by_ms: 1000
  call_limit_ms: 2000
  call_connect_ms: 1000
  fence_grace_ms: 1000
  lease_s: 5
  drain_s: 10
relay:
  command_lag: 1s
postgres:
  statement_timeout: 2s
  lock_timeout: 1s
"""
RECOVERY = """
version: %(version)d
rules:
  - match: {}
    strategies: [retrieve, idempotent_replay, wait_webhook]
    delays: [%(delays)s]
    max_unknown_age: 24h
    query_qps: 200
    query_concurrency: 32
"""


class Stack:
    """One private stack, in a folder of its own, started by the project's own scripts."""

    def __init__(self, name, environment=None, config="", delays="500ms, 1s, 1s, 2s, 2s, 4s, 4s, 8s"):
        self.dir = os.path.join(ROOT, "build", "scenario", name)
        shutil.rmtree(self.dir, ignore_errors=True)
        os.makedirs(self.dir, exist_ok=True)
        self.environment = dict(os.environ, ONCEPAY_STACK_DIR=self.dir, ONCEPAY_BIN=BIN, **(environment or {}))
        for key in ("ONCEPAY_PORT_BASE", "ONCEPAY_CRASH_AT", "ONCEPAY_STOP_AT", "ONCEPAY_CONFIG"):
            if key not in (environment or {}):
                self.environment.pop(key, None)
        self.environment["ONCEPAY_CONFIG"] = self._write_config(config, delays)
        self.stack = os.path.join(ROOT, "ops/stack")
        self.nats_connection = None
        self.health_urls = {}

    def _write_config(self, more, delays):
        """The development configuration with this appended, beside copies of what it names."""
        folder = os.path.join(self.dir, "config")
        os.makedirs(folder, exist_ok=True)
        link = os.path.join(folder, "secrets")
        os.symlink(os.path.join(ROOT, "config/secrets"), link)
        with open(os.path.join(ROOT, "config/oncepay.yaml")) as source:
            text = source.read() + more
        with open(os.path.join(folder, "oncepay.yaml"), "w") as file:
            file.write(text)
        with open(os.path.join(folder, "recovery.yaml"), "w") as file:
            file.write(RECOVERY % {"version": 1, "delays": delays})
        return os.path.join(folder, "oncepay.yaml")

    def run(self, *arguments, check=True, environment=None, timeout=120):
        done = subprocess.run(arguments, env=dict(self.environment, **(environment or {})), cwd=ROOT,
                              capture_output=True, text=True, timeout=timeout)
        if check and done.returncode != 0:
            raise AssertionError("%s: exit %s\n%s%s" % (arguments, done.returncode, done.stdout, done.stderr))
        return done

    def up(self, stages=tuple(STAGES), faults=None):
        self.start("pg", "nats", "redis")
        self.environment.update(self._stack_variables())
        self.cli("migrate")
        self.cli("topology", "apply")
        self.start("sim")
        if faults is not None:
            self.faults(faults)
        if stages:
            self.start(*stages)
        return self

    def _stack_variables(self):
        text = subprocess.run(["bash", "-c", 'set -a; source "$1.env"; env -0', "_", self.dir], capture_output=True,
                              check=True, env={"PATH": os.environ["PATH"]}).stdout.decode()
        pairs = dict(item.split("=", 1) for item in text.split("\0") if "=" in item)
        return {key: value for key, value in pairs.items() if key.startswith("ONCEPAY_") or key == "PATH"}

    def down(self):
        if self.nats_connection:
            self.nats_connection.close()
        self.run(self.stack, "stop-all", check=False)

    def start(self, *names, environment=None, wait=True):
        flags = [] if wait else ["--no-wait"]
        self.run(self.stack, "start", *flags, *names, environment=environment)

    def stop(self, *names):
        self.run(self.stack, "stop", *names)

    def kill(self, *names):
        self.run(self.stack, "kill", *names)

    def restart(self, *names):
        self.run(self.stack, "restart", *names)

    def freeze(self, *names):
        self.run(self.stack, "stop-signal", *names)

    def thaw(self, *names):
        self.run(self.stack, "cont", *names)

    def status(self, name):
        rows = json.loads(self.run(self.stack, "status", "--json").stdout)
        return next((row["state"] for row in rows if row["name"] == name), "absent")

    def health_url(self, name):
        """Where a process serves /livez, /readyz and /metrics. name: "create" or "create#2"."""
        if name not in self.health_urls:
            rows = json.loads(self.run(self.stack, "status", "--json").stdout)
            self.health_urls.update({row["name"]: "http://127.0.0.1:%d" % row["port"] for row in rows})
        return self.health_urls[name]

    def redis(self, *command):
        return self.run("redis-cli", "-u", self.environment["ONCEPAY_REDIS_URL"], *command).stdout.strip()

    def wait_dead(self, name, timeout=30):
        wait_for("%s is dead" % name, lambda: self.status(name) not in ("running", "suspended"), timeout, 0.2)

    def cli(self, *arguments, check=True):
        return self.run(os.path.join(BIN, "oncepay"), *arguments, check=check)

    def verify(self):
        """oncepay verify: every invariant holds."""
        done = self.cli("verify", "--json", check=False)
        if done.returncode != 0:
            raise AssertionError("oncepay verify: %s%s" % (done.stdout, done.stderr))

    # --- the books ------------------------------------------------------------------------------

    def sql(self, statement):
        """Rows as lists of text; NULL is None."""
        done = self.run(PSQL, self.environment["ONCEPAY_PG_URL"], "-X", "-A", "-t", "-q", "-F", "\x1f", "-P", "null=\\N",
                        "-v", "ON_ERROR_STOP=1", "-c", statement)
        lines = [line for line in done.stdout.split("\n") if line != ""]
        return [[None if value == "\\N" else value for value in line.split("\x1f")] for line in lines]

    def value(self, statement):
        rows = self.sql(statement)
        return rows[0][0] if rows else None

    def number(self, statement):
        return int(self.value(statement))

    def http(self, url, body=None, method=None, headers=None):
        """(status, headers, body) of one HTTP exchange; an error status is an answer."""
        data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
        request = urllib.request.Request(url, data=data, method=method, headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, dict(answer.headers), answer.read()
        except urllib.error.HTTPError as error:
            return error.code, dict(error.headers), error.read()

    def sim(self, path, body=None, method=None):
        status, _, answer = self.http(self.environment["ONCEPAY_SIM_URL"] + path, body, method)
        if status >= 300:
            raise AssertionError("simulator %s: %s %s" % (path, status, answer))
        return json.loads(answer) if answer else None

    def faults(self, rules):
        self.sim("/_sim/faults", rules, "PUT")

    def ledger(self):
        return self.sim("/_sim/ledger")

    def charges(self, key=None):
        """Succeeded charges in the simulator's own book."""
        return [row for row in self.ledger() if row["state"] == "succeeded" and key in (None, row["key"])]

    def assert_books_agree(self):
        """Charge by charge: key, amount, currency, state; nobody charged twice; every invariant."""
        ours = {row[0]: row[1:] for row in self.sql(
            "SELECT provider_key, amount, lower(currency), status FROM oncepay.payment_attempt")}
        seen = {}
        for charge in self.charges():
            key = charge["key"]
            if key in seen:
                raise AssertionError("charged twice under %s" % key)
            seen[key] = charge
            if key not in ours:
                raise AssertionError("the PSP charged under a key that we do not have: %s" % key)
            amount, currency, status = ours[key]
            if (str(charge["amount"]), charge["currency"].lower(), "50") != (amount, currency, status):
                raise AssertionError("books differ for %s: PSP %s, ours %s" % (key, charge, ours[key]))
        for key, (_, _, status) in ours.items():
            if status == "50" and key not in seen:
                raise AssertionError("we say SUCCEEDED, the PSP has no charge: %s" % key)
        self.verify()

    # --- producing ------------------------------------------------------------------------------

    @property
    def nats(self):
        if self.nats_connection is None:
            self.nats_connection = Nats(self.environment["ONCEPAY_NATS_URL"])
        return self.nats_connection

    def reconnect(self):
        if self.nats_connection:
            self.nats_connection.close()
        self.nats_connection = None

    def request(self, **fields):
        """The body of a pay request for a fresh target, with these fields changed."""
        number = "t-" + uuid.uuid4().hex[:16]
        body = {"version": 1, "merchant": "m-1001", "out_trade_no": number,
                "target": {"kind": "order", "id": number}, "amount": 1099, "currency": "EUR",
                "method": {"type": "card", "token": "pm_card_visa", "token_realm": "stripe"}}
        body.update(fields)
        return body

    def publish(self, body, key=None, operation="pay", reply=None, headers=None, raw=None):
        head = {"Content-Type": "application/json"}
        if key is not None:
            head["Idempotency-Key"] = key
        if reply is not None:
            head["Pay-Reply-To"] = reply
        head.update(headers or {})
        subject = "pay.intake.%s.%s" % (body["merchant"] if isinstance(body, dict) else "m-1001", operation)
        self.nats.publish(subject, raw if raw is not None else body, head)

    def ask(self, body, key=None, timeout=20, operation="pay", headers=None, raw=None):
        """Publishes and waits for the reply, repeating as a producer must. Returns the reply as it came."""
        inbox = self.nats.inbox()
        sid = self.nats.subscribe(inbox)
        end = time.monotonic() + timeout
        while True:
            self.publish(body, key, operation, inbox, headers, raw)
            try:
                return self.nats.next(sid, min(5, max(0.1, end - time.monotonic())))
            except TimeoutError:
                if time.monotonic() >= end:
                    raise

    def pay(self, body=None, key=None, timeout=20, operation="pay", headers=None, raw=None):
        """The same; returns (status, answer)."""
        answer = self.ask(body if body is not None else self.request(), key, timeout, operation, headers, raw)
        return int(answer.headers["pay-status"]), json.loads(answer.body)

    def payment(self, out_trade_no, merchant="m-1001"):
        rows = self.sql("SELECT id, status, version, reason, captured FROM oncepay.payment "
                        "WHERE merchant = '%s' AND out_trade_no = '%s'" % (merchant, out_trade_no))
        if not rows:
            return None
        row = rows[0]
        return {"id": row[0], "status": PAYMENT.get(int(row[1]), row[1]), "version": int(row[2]), "reason": row[3],
                "captured": int(row[4])}

    def wait_payment(self, out_trade_no, status, timeout=60):
        def reached():
            payment = self.payment(out_trade_no)
            return payment if payment and payment["status"] == status else None
        return wait_for("%s is %s (now %s)" % (out_trade_no, status, self.payment(out_trade_no)), reached, timeout, 0.1)

    def attempts(self, out_trade_no):
        rows = self.sql("SELECT a.id, a.status, a.provider_key, a.version, a.certainty, a.provider_payment_id "
                        "FROM oncepay.payment_attempt a JOIN oncepay.payment p ON p.id = a.payment_id "
                        "WHERE p.out_trade_no = '%s' ORDER BY a.ordinal" % out_trade_no)
        return [{"id": r[0], "status": ATTEMPT[int(r[1])], "key": r[2], "version": int(r[3]), "certainty": int(r[4]),
                 "object": r[5]} for r in rows]

    def wait_attempt(self, out_trade_no, status, timeout=60):
        def reached():
            attempts = self.attempts(out_trade_no)
            return attempts[-1] if attempts and attempts[-1]["status"] == status else None
        return wait_for("the attempt of %s is %s" % (out_trade_no, status), reached, timeout, 0.1)

    def events(self, payment):
        """Types of a payment's events in the outbox, in the order of its versions."""
        return [row[0] for row in self.sql(
            "SELECT substring(subject from 'pay\\.event\\.[^.]*\\.(.*)') FROM oncepay.outbox "
            "WHERE kind = 2 AND payment_id = '%s' AND version > 0 ORDER BY version" % payment)]

    def wait_quiet(self, timeout=120):
        """Nothing open: no payment that is not final, no task that is not resolved."""
        wait_for("all payments are final", lambda: self.number(
            "SELECT count(*) FROM oncepay.payment WHERE status NOT IN (50, 70, 80, 90, 95)") == 0, timeout, 0.2)


class Scenario(unittest.TestCase):
    """One stack per class. Override faults and stages to start otherwise."""
    faults = None
    stages = tuple(STAGES)
    environment = None
    config = FAST
    delays = "500ms, 1s, 1s, 2s, 2s, 4s, 4s, 8s"
    stack = None

    @classmethod
    def setUpClass(cls):
        cls.stack = Stack(cls.__name__, cls.environment, cls.config, cls.delays)
        try:
            cls.stack.up(cls.stages, cls.faults)
        except BaseException:
            cls.stack.down()
            raise

    @classmethod
    def tearDownClass(cls):
        cls.stack.down()


def main():
    unittest.main(verbosity=2)
