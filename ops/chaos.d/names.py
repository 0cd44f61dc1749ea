"""ops/chaos.d/names.py: a DNS responder that knows one name, and lies about it on request. It is
what /etc/resolv.conf names in the mount namespace of this run.
"""
import collections
import socket
import struct
import subprocess
import threading
import time

RIGHT, WRONG = "127.0.0.1", "127.0.0.9"  # nobody listens on the second
LATE_S = 1.5
TTL_S = 1
RESOLV_CONF = "nameserver 127.0.0.1\noptions timeout:1 attempts:2\n"


class Names:
    def __init__(self, folder):
        self.how = "right"
        self.counts = collections.Counter()
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 53))
        conf = folder + "/resolv.conf"
        with open(conf, "w") as file:
            file.write(RESOLV_CONF)
        subprocess.run(["mount", "--bind", conf, "/etc/resolv.conf"], check=True)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            query, sender = self.socket.recvfrom(512)
            how = self.how
            self.counts[how] += 1
            if how == "late":
                threading.Timer(LATE_S, self._answer, (query, sender, "right")).start()
            elif how != "absent":
                self._answer(query, sender, how)

    def _answer(self, query, sender, how):
        try:
            self.socket.sendto(answer(query, how), sender)
        except OSError:
            pass  # whoever asked has gone


def answer(query, how):
    """The question back, with an A record; AAAA has none. how unknown: NXDOMAIN."""
    end = query.index(b"\0", 12) + 5
    question = query[12:end]
    kind = struct.unpack(">H", question[-4:-2])[0]
    has_address = kind == 1 and how != "unknown"
    flags = 0x8180 | (3 if how == "unknown" else 0)
    head = query[:2] + struct.pack(">HHHHH", flags, 1, int(has_address), 0, 0)
    record = b""
    if has_address:
        address = socket.inet_aton(WRONG if how == "wrong" else RIGHT)
        record = struct.pack(">HHHIH", 0xc00c, 1, 1, TTL_S, 4) + address
    return head + question + record
