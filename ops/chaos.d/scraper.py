"""ops/chaos.d/scraper.py: looks at the metrics of a stage every second, so that what a process
counted before it was killed is not lost with it.
"""
import threading
import urllib.request

EVERY_S = 1.0


class Scraper:
    def __init__(self, world, stage):
        self.world, self.stage = world, stage
        self.last = {}             # (label, pid) -> {metric with its labels: value}
        self.enough = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def start(self):
        self.thread.start()

    def finish(self):
        self.enough.set()
        self.thread.join(10)

    def _run(self):
        while not self.enough.wait(EVERY_S):
            self.look()

    def look(self):
        for number, child in enumerate(self.world.stages(self.stage), 1):
            pid = child.pid
            url = "http://127.0.0.1:%d/metrics" % self.world.port(self.stage, number)
            try:
                with urllib.request.urlopen(url, timeout=0.5) as answer:
                    text = answer.read().decode()
            except OSError:
                continue  # killed or standing still: what was seen last counts
            self.last[(child.name, pid)] = dict(
                line.rsplit(" ", 1) for line in text.splitlines() if line and line[0] != "#")

    def total(self, name, label):
        return sum(int(float(value)) for values in self.last.values()
                   for key, value in values.items() if key.startswith(name) and label in key)
