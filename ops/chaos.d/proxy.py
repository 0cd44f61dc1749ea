"""ops/chaos.d/proxy.py: the fault proxy as a process of ours; see ops/faultproxy/control.h."""
import json
import subprocess

from process import die_with_parent


class Proxy:
    """pairs: (name, port of the server). Each is listened for on a port of its own, from
    port_base."""

    def __init__(self, program, seed, port_base, pairs, log):
        self.ports = {}
        with open(log, "ab") as errors:
            self.process = subprocess.Popen([program, "--seed", str(seed)], stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=errors, text=True,
                                            start_new_session=True, preexec_fn=die_with_parent)
        for offset, (name, target) in enumerate(pairs):
            self.ports[name] = port_base + offset
            self.command("listen", name, port_base + offset, target)

    def port(self, name):
        return self.ports[name]

    def command(self, *words):
        """The rest of the answer's line; an error is one of ours."""
        self.process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.process.stdin.flush()
        verdict, _, rest = self.process.stdout.readline().strip().partition(" ")
        if verdict != "ok":
            raise AssertionError("faultproxy: %s: %s %s" % (words, verdict, rest))
        return rest

    def set(self, name, **settings):
        self.command("set", name, *("%s=%d" % item for item in settings.items()))

    def clear(self, name):
        self.command("clear", name)

    def stats(self):
        return json.loads(self.command("stats"))

    def total(self, count, name=None):
        """How often it happened, at one pair or all."""
        return sum(counts[count] for pair, counts in self.stats().items() if name in (None, pair))

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()
