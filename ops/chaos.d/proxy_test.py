"""ops/chaos.d/proxy_test.py: the fault proxy does what it says, and counts it. Run by ctest with
ONCEPAY_BIN; an echo server of its own, ports of the kernel's choice.
"""
import os
import socket
import sys
import threading
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from proxy import Proxy  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.join(os.environ.get("ONCEPAY_BIN", os.path.join(ROOT, "build/dev/bin")),
                       "oncepay-faultproxy")
PATIENCE_S = 10


class Echo:
    """Gives back what it gets; notes how its connections ended."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.ends = []
        self.chunks = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        try:
            while data := client.recv(65536):
                self.chunks.append(len(data))
                client.sendall(data)
            self.ends.append("fin")
        except OSError:
            self.ends.append("rst")
        client.close()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


class FaultProxy(unittest.TestCase):
    def setUp(self):
        self.echo = Echo()
        self.proxy = Proxy(PROGRAM, 7, free_port(), [("a-b", self.echo.port)], os.devnull)
        self.port = self.proxy.port("a-b")

    def tearDown(self):
        self.proxy.close()
        self.echo.socket.close()

    def connect(self):
        client = socket.create_connection(("127.0.0.1", self.port), PATIENCE_S)
        client.settimeout(PATIENCE_S)
        self.addCleanup(client.close)
        return client

    def exchange(self, client, data=b"hello"):
        client.sendall(data)
        back = b""
        while len(back) < len(data):
            more = client.recv(65536)
            self.assertNotEqual(more, b"", "closed")
            back += more
        self.assertEqual(back, data)

    def count(self, name):
        return self.proxy.total(name)

    def wait_count(self, name, least):
        end = time.monotonic() + PATIENCE_S
        while self.count(name) < least:
            self.assertLess(time.monotonic(), end, "%s is %d" % (name, self.count(name)))
            time.sleep(0.01)

    def test_passes_everything_on_both_ways(self):
        client = self.connect()
        self.exchange(client)
        self.exchange(client, os.urandom(3000000))
        client.shutdown(socket.SHUT_WR)
        self.assertEqual(client.recv(1), b"")
        self.assertEqual(self.count("connections"), 1)
        self.assertEqual(self.count("bytes"), 2 * 3000005)

    def test_latency_delays_and_keeps_the_order(self):
        self.proxy.set("a-b", latency_ms=60, jitter_ms=40)
        begun = time.monotonic()
        self.exchange(self.connect(), b"".join(b"%06d" % number for number in range(2000)))
        self.assertGreaterEqual(time.monotonic() - begun, 0.12)
        self.assertGreater(self.count("delayed"), 0)

    def test_a_rate_slows(self):
        self.proxy.set("a-b", rate_bytes_s=20000)
        begun = time.monotonic()
        self.exchange(self.connect(), b"x" * 10000)
        self.assertGreaterEqual(time.monotonic() - begun, 0.4)
        self.assertGreater(self.count("slowed"), 5)

    def test_slices_are_segments_of_their_own(self):
        self.proxy.set("a-b", slice_bytes=1)
        self.exchange(self.connect(), b"x" * 300)
        self.assertGreaterEqual(self.count("sliced"), 299)  # the echo may come back byte by byte
        self.assertGreater(len(self.echo.chunks), 30)

    def test_cut_ends_with_fin_and_reset_with_rst(self):
        for verb, end in (("cut", "fin"), ("reset", "rst")):
            client = self.connect()
            self.exchange(client)
            self.assertEqual(self.proxy.command(verb, "a-*"), "1")
            if verb == "cut":
                self.assertEqual(client.recv(1), b"")
            else:
                self.assertRaises(ConnectionResetError, client.recv, 1)
            deadline = time.monotonic() + PATIENCE_S
            while not self.echo.ends and time.monotonic() < deadline:
                time.sleep(0.01)
            self.assertEqual(self.echo.ends.pop(), end)
        self.assertEqual(self.count("cut"), 2)

    def test_breaks_in_mid_message_by_the_seed(self):
        self.proxy.set("a-b", break_after_bytes=5000)
        for _ in range(3):
            client = self.connect()
            with self.assertRaises((ConnectionError, AssertionError)):
                self.exchange(client, b"x" * 100000)
        self.assertEqual(self.count("broken"), 3)

    def test_a_stall_holds_and_then_delivers(self):
        client = self.connect()
        self.exchange(client)
        self.proxy.set("a-b", stall=1)
        client.sendall(b"later")
        late = self.connect()  # is accepted, and reaches nobody yet
        late.sendall(b"too")
        client.settimeout(0.3)
        self.assertRaises(socket.timeout, client.recv, 1)
        self.proxy.clear("a-b")
        client.settimeout(PATIENCE_S)
        self.assertEqual(client.recv(5), b"later")
        self.assertEqual(late.recv(3), b"too")
        self.assertGreaterEqual(self.count("stalled"), 1)

    def test_who_gives_up_in_a_stall_takes_its_bytes_along(self):
        client = self.connect()
        self.exchange(client)
        self.proxy.set("a-b", stall=1)
        client.sendall(b"never")
        client.close()
        self.wait_count("stalled", 1)
        self.proxy.clear("a-b")
        self.exchange(self.connect(), b"other")
        self.assertEqual(self.echo.chunks, [5, 5])

    def test_half_open_swallows_and_ends_with_the_fault(self):
        client = self.connect()
        self.exchange(client)
        self.proxy.set("a-b", half_open=1)
        client.sendall(b"nobody hears")
        self.wait_count("swallowed", 12)
        self.assertEqual(self.echo.ends, ["rst"])
        self.proxy.clear("a-b")
        self.assertRaises(ConnectionResetError, client.recv, 1)
        self.exchange(self.connect())

    def test_refuse_closes_the_port_and_opens_it_again(self):
        client = self.connect()
        self.exchange(client)
        self.proxy.set("a-b", refuse=1)
        self.assertRaises(ConnectionRefusedError, self.connect)
        self.exchange(client)  # who is connected stays so
        self.proxy.clear("a-b")
        self.exchange(self.connect())
        self.assertEqual(self.count("refusing"), 1)

    def test_a_server_that_is_away_resets_the_client(self):
        port = free_port()
        self.proxy.command("listen", "a-nobody", port, free_port())
        with self.assertRaises(ConnectionResetError):  # already the connect may hear of it
            client = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
            self.addCleanup(client.close)
            client.recv(1)
        self.wait_count("unreached", 1)

    def test_refuses_what_it_does_not_know(self):
        for words in (("dance",), ("set", "a-b", "colour=1"), ("set", "a-b", "stall=x"),
                      ("cut", "z-*"), ("listen", "x", "0", "1"), ("listen", "x", self.port, "1")):
            self.assertRaises(AssertionError, self.proxy.command, *words)
        self.exchange(self.connect())


if __name__ == "__main__":
    unittest.main(verbosity=2)
