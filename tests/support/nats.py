"""A NATS client of our own, for tests: the text protocol over one socket, and JetStream's JSON API.

It shares nothing with the adapter that it tests. One thread; every wait has a bound.
"""
import json
import os
import select
import socket
import time
from urllib.parse import urlparse


class Message:
    def __init__(self, subject, reply, headers, body):
        self.subject, self.reply, self.headers, self.body = subject, reply, headers, body

    def json(self):
        return json.loads(self.body)


class Nats:
    def __init__(self, url):
        parsed = urlparse(url)
        self.socket = socket.create_connection((parsed.hostname, parsed.port), timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.queues = {}
        self.next_sid = 1
        self.errors = []
        self._line()  # INFO
        options = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True,
                   "lang": "python", "version": "test", "name": "scenario"}
        if parsed.username:
            options["user"], options["pass"] = parsed.username, parsed.password
        self._send(f"CONNECT {json.dumps(options)}\r\nPING\r\n".encode())
        self._until(lambda: self.pong, "the server's PONG")

    pong = False

    def close(self):
        self.socket.close()

    def _send(self, data):
        self.socket.sendall(data)

    def _fill(self, timeout):
        ready, _, _ = select.select([self.socket], [], [], timeout)
        if not ready:
            return False
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionError("NATS closed the connection: %s" % self.errors)
        self.buffer += data
        return True

    def _line(self):
        while b"\r\n" not in self.buffer:
            if not self._fill(10):
                raise TimeoutError("no line from NATS")
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def _bytes(self, count):
        while len(self.buffer) < count + 2:
            if not self._fill(10):
                raise TimeoutError("no payload from NATS")
        data, self.buffer = self.buffer[:count], self.buffer[count + 2:]
        return data

    def _handle(self, line):
        verb, _, rest = line.partition(b" ")
        verb = verb.upper()
        if verb == b"PING":
            self._send(b"PONG\r\n")
        elif verb == b"PONG":
            self.pong = True
        elif verb in (b"MSG", b"HMSG"):
            parts = rest.decode().split()
            total = int(parts[-1])
            header_size = int(parts[-2]) if verb == b"HMSG" else 0
            fixed = 4 if verb == b"HMSG" else 3
            reply = parts[2] if len(parts) > fixed else None
            data = self._bytes(total)
            headers = {}
            for text in data[:header_size].decode().split("\r\n")[1:]:
                if ":" in text:
                    name, value = text.split(":", 1)
                    headers[name.strip().lower()] = value.strip()
            if header_size:
                status = data[:header_size].split(b"\r\n", 1)[0].split(b" ", 1)
                if len(status) > 1:
                    headers[":status"] = status[1].decode()
            queue = self.queues.get(parts[1])
            if queue is not None:
                queue.append(Message(parts[0], reply, headers, data[header_size:]))
        elif verb == b"-ERR":
            self.errors.append(rest.decode())

    def poll(self, timeout=0.0):
        """Handles what has arrived; waits for at most timeout for something."""
        if b"\r\n" not in self.buffer and not self._fill(timeout):
            return False
        while b"\r\n" in self.buffer:
            self._handle(self._line())
        return True

    def _until(self, condition, what, timeout=10):
        end = time.monotonic() + timeout
        while not condition():
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError("waited %ss for %s" % (timeout, what))
            self.poll(min(left, 0.5))

    def flush(self):
        self.pong = False
        self._send(b"PING\r\n")
        self._until(lambda: self.pong, "PONG")

    def subscribe(self, subject):
        sid = str(self.next_sid)
        self.next_sid += 1
        self.queues[sid] = []
        self._send(f"SUB {subject} {sid}\r\n".encode())
        return sid

    def messages(self, sid):
        return self.queues[sid]

    def next(self, sid, timeout=10):
        self._until(lambda: self.queues[sid], "a message", timeout)
        return self.queues[sid].pop(0)

    def publish(self, subject, body, headers=None, reply=None):
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
        reply_part = f" {reply}" if reply else ""
        if headers:
            head = b"NATS/1.0\r\n" + b"".join(f"{k}: {v}\r\n".encode() for k, v in headers.items()) + b"\r\n"
            self._send(f"HPUB {subject}{reply_part} {len(head)} {len(head) + len(body)}\r\n".encode() + head + body + b"\r\n")
        else:
            self._send(f"PUB {subject}{reply_part} {len(body)}\r\n".encode() + body + b"\r\n")

    def inbox(self):
        return "_INBOX." + os.urandom(11).hex()

    def request(self, subject, body=b"", headers=None, timeout=10):
        inbox = self.inbox()
        sid = self.subscribe(inbox)
        self.publish(subject, body, headers, inbox)
        try:
            return self.next(sid, timeout)
        finally:
            del self.queues[sid]
            self._send(f"UNSUB {sid}\r\n".encode())

    def api(self, subject, body=None, timeout=10):
        """JetStream's JSON API: $JS.API.<subject>."""
        answer = self.request("$JS.API." + subject, b"" if body is None else json.dumps(body).encode(), timeout=timeout)
        return json.loads(answer.body)

    def stream_messages(self, stream, subject=None):
        """All that a stream (or one filter of it) holds now, in its order. For streams that keep what was read."""
        inbox = self.inbox()
        sid = self.subscribe(inbox)
        config = {"deliver_subject": inbox, "deliver_policy": "all", "ack_policy": "none", "replay_policy": "instant"}
        if subject is not None:
            config["filter_subject"] = subject
        made = self.api("CONSUMER.CREATE." + stream, {"stream_name": stream, "config": config})
        if "error" in made:
            raise AssertionError("no consumer on %s: %s" % (stream, made["error"]))
        count = made["num_pending"] + made["delivered"]["consumer_seq"]
        messages = [self.next(sid) for _ in range(count)]
        self.api("CONSUMER.DELETE.%s.%s" % (stream, made["name"]))
        del self.queues[sid]
        return messages
