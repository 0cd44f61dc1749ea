"""The simulator as a process of a test's own, and a receiver for its webhooks. Needs nothing but the
program; all ports are free ones.
"""
import hashlib
import hmac
import http.client
import http.server
import json
import os
import signal
import subprocess
import threading
import time
import urllib.parse

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.join(os.environ.get("ONCEPAY_BIN", os.path.join(ROOT, "build/dev/bin")),
                       "oncepay-psp-sim")
PATIENCE_S = 20
CREATE = "/v1/payment_intents"


def form(**changes):
    fields = {"amount": 1099, "currency": "eur", "payment_method": "pm_card_visa",
              "confirm": "true", "capture_method": "automatic"}
    fields.update(changes)
    return urllib.parse.urlencode(fields)


def wait_for(what, condition):
    """The first true value of condition()."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"waited in vain: {what}")


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def replayed(self):
        return self.headers.get("Idempotent-Replayed") == "true"


class Receiver:
    """Collects webhooks; answers 503 while it is not willing."""

    def __init__(self):
        self.events = []
        self.willing = True
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.events.append((self.path, self.headers["Stripe-Signature"], body))
                self.send_response(200 if receiver.willing else 503)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # a killed sender is no news
        self.url = f"http://127.0.0.1:{self.server.server_port}/webhooks"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def parsed(self, kind=None):
        events = [json.loads(body) for _, _, body in list(self.events)]
        return [e for e in events if kind is None or e["type"] == kind]


def is_signed(account, header, body):
    fields = dict(part.split("=", 1) for part in header.split(","))
    text = fields["t"].encode() + b"." + body
    good = hmac.new(f"whsec_sim_{account}".encode(), text, hashlib.sha256).hexdigest()
    return hmac.compare_digest(good, fields["v1"])


class Simulator:
    def __init__(self, directory, *options):
        self.directory = directory
        self.options = options
        self.process = None
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [PROGRAM, "--port", "0", "--data", self.directory, *self.options],
            stdout=subprocess.PIPE, text=True)
        ready = self.process.stdout.readline()
        if " ready " not in ready:
            raise AssertionError(f"not ready: {ready!r}, exit {self.process.wait()}")
        self.port = int(ready.split("url=http://127.0.0.1:")[1].split()[0])

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        code = self.process.wait(PATIENCE_S)
        self.process.stdout.close()
        return code

    def stop_if_running(self):
        return self.stop() if self.process.poll() is None else 0

    def kill_and_restart(self):
        self.stop(signal.SIGKILL)
        self.start()

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)

    def ask(self, method, path, body=None, headers=None, connection=None):
        own = connection is None
        connection = connection or self.connect()
        try:
            connection.request(method, path, body, headers or {})
            return Answer(connection.getresponse())
        finally:
            if own:
                connection.close()

    def create(self, key, account="stripe-main", connection=None, **changes):
        headers = {"Authorization": f"Bearer sk_sim_{account}",
                   "Content-Type": "application/x-www-form-urlencoded"}
        if key is not None:
            headers["Idempotency-Key"] = key
        changes.setdefault("metadata[reference]", key or "none")
        return self.ask("POST", f"/{account}{CREATE}", form(**changes), headers, connection)

    def retrieve(self, object_id, account="stripe-main"):
        return self.ask("GET", f"/{account}{CREATE}/{object_id}",
                        headers={"Authorization": f"Bearer sk_sim_{account}"})

    def control(self, method, path, body=None):
        answer = self.ask(method, "/_sim" + path, None if body is None else json.dumps(body))
        return answer.json if answer.status == 200 else answer

    def faults(self, *rules):
        answer = self.control("PUT", "/faults", list(rules))
        assert isinstance(answer, list), answer.body

    def ledger(self, key=None):
        rows = self.control("GET", "/ledger")
        return [r for r in rows if key is None or r["key"] == key]
