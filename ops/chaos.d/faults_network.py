"""ops/chaos.d/faults_network.py: what the fault proxy, the packet filter and a lying DNS do."""
import re
import subprocess

from fault import Fault, register
from world import SERVERS, STAGES

SEEN_AGAIN_S = 4.0  # somebody speaks there by then, as a rule
PAIRS = (["%s-%s" % (stage, server) for stage in STAGES for server in SERVERS]
         + ["*-" + server for server in SERVERS]
         + ["stages-sim", "sim-gateway", "producer-nats"] * 3)
LOSS = """
add table inet chaos
add chain inet chaos loss { type filter hook input priority 0; }
add rule inet chaos loss meta l4proto tcp numgen random mod 1000 < %d counter drop
"""


class ProxyFault(Fault):
    """settings of a pair or of all pairs to one server; counts: what shows that it happened."""
    counts = ()
    patience_s = SEEN_AGAIN_S

    def has_met(self, run):
        return self.effect(run) > 0

    def effect(self, run):
        return sum(run.world.proxy.total(count) - before for count, before in self.before.items())

    def drawn(self, draw):
        return {"pair": draw.choice(PAIRS), **self.settings(draw)}

    def settings(self, draw):
        return {}

    def touched(self):
        pair = self.parameters["pair"]
        server = pair.split("-")[1]
        return ["net:" + server] if pair[0] == "*" else ["net:" + pair]

    @property
    def pattern(self):
        """What leads to PostgreSQL leads to its standby too."""
        return re.sub("-pg$", "-[ps][gt]*", self.parameters["pair"])

    def begin(self, run):
        self.before = {count: run.world.proxy.total(count) for count in self.counts}
        if self.parameters["pair"] == "stages-sim":
            run.excuse_begin(self)
        self.act(run)

    def act(self, run):
        run.world.proxy.set(self.pattern, **{
            key: value for key, value in self.parameters.items() if key != "pair"})

    def end(self, run):
        run.world.clear(self.pattern)
        run.excuse_end(self)
        seen = self.effect(run)
        if seen:
            run.saw(self.seen_as(), seen)

    def seen_as(self):
        return self.name


@register
class Latency(ProxyFault):
    name = "latency"
    counts = ("delayed",)
    duration_s = (2.0, 6.0)

    def settings(self, draw):
        latency = draw.choice([5, 30, 150, 600])
        return {"latency_ms": latency, "jitter_ms": draw.choice([0, latency, 3 * latency])}


@register
class Slow(ProxyFault):
    name = "slow"
    counts = ("slowed",)
    duration_s = (2.0, 5.0)

    def settings(self, draw):
        return {"rate_bytes_s": draw.choice([4000, 20000, 100000])}


@register
class Slice(ProxyFault):
    name = "slice"
    counts = ("sliced",)
    duration_s = (2.0, 5.0)

    def settings(self, draw):
        return {"slice_bytes": draw.choice([1, 7, 64])}


@register
class Break(ProxyFault):
    """Connections are reset in mid-message, again and again."""
    name = "break"
    counts = ("broken",)
    duration_s = (1.0, 4.0)

    def settings(self, draw):
        return {"break_after_bytes": draw.choice([600, 4000, 40000])}


@register
class Stall(ProxyFault):
    name = "stall"
    counts = ("stalled",)
    duration_s = (0.5, 7.0)

    def settings(self, draw):
        return {"stall": 1}


@register
class HalfOpen(ProxyFault):
    name = "half_open"
    counts = ("half_open",)
    duration_s = (1.0, 8.0)

    def settings(self, draw):
        return {"half_open": 1}


@register
class Refuse(ProxyFault):
    """Nobody listens; connections that stand go on, so these are cut too."""
    name = "refuse"
    counts = ("refusing",)
    duration_s = (0.5, 4.0)

    def settings(self, draw):
        return {"refuse": 1}

    def act(self, run):
        super().act(run)
        run.world.proxy.command("cut", self.pattern)


@register
class Cut(ProxyFault):
    """FIN or RST to whoever is connected."""
    name = "cut"
    counts = ("cut",)
    duration_s = (0, 0)
    patience_s = 0

    def settings(self, draw):
        return {"how": draw.choice(["cut", "reset"])}

    def act(self, run):
        run.world.proxy.command(self.parameters["how"], self.pattern)


@register
class Replication(ProxyFault):
    """Between primary and standby: what is committed is told to nobody until the link is well."""
    name = "replication"
    needs = ("standby",)
    duration_s = (0.8, 2.0)
    variants = tuple({"how": how} for how in ("slow", "break", "half_open", "refuse"))
    SETTINGS = {"slow": ("delayed", {"latency_ms": 150, "jitter_ms": 150, "rate_bytes_s": 20000}),
                "break": ("broken", {"break_after_bytes": 40000}),
                "half_open": ("half_open", {"half_open": 1}),
                "refuse": ("refusing", {"refuse": 1})}

    def drawn(self, draw):
        return {"pair": "standby-pg"}

    def touched(self):
        return ["standby", "net:pg"]

    def begin(self, run):
        count, self.proxy_settings = self.SETTINGS[self.parameters["how"]]
        self.counts = (count,)
        super().begin(run)

    def act(self, run):
        run.world.proxy.set("standby-pg", **self.proxy_settings)
        if self.parameters["how"] == "refuse":
            run.world.proxy.command("cut", "standby-pg")

    def seen_as(self):
        return "replication." + self.parameters["how"]


# --- packets -------------------------------------------------------------------------------------

@register
class PacketLoss(Fault):
    """In the network namespace of this run: some packets of the loopback device are dropped."""
    name = "packet_loss"
    touches = ("packets",)
    needs = ("packet_filter",)
    duration_s = (2.0, 6.0)

    def drawn(self, draw):
        return {"permille": draw.choice([5, 20, 80])}

    def begin(self, run):
        run.excuse_begin(self)
        subprocess.run(["nft", LOSS % self.parameters["permille"]], check=True)

    def end(self, run):
        shown = subprocess.run(["nft", "list", "chain", "inet", "chaos", "loss"],
                               capture_output=True, text=True).stdout
        subprocess.run(["nft", "delete table inet chaos"], check=True)
        run.excuse_end(self)
        dropped = re.search(r"counter packets (\d+)", shown)
        if dropped and int(dropped.group(1)):
            run.saw("packet_loss", int(dropped.group(1)))


# --- names ---------------------------------------------------------------------------------------

@register
class Names(Fault):
    """The PSP's name: a wrong answer (an address where nobody listens), a late one, or none.
    Who knows it already keeps it for a minute, so one create begins anew and asks."""
    name = "dns"
    touches = ("dns", "net:stages-sim")
    needs = ("dns",)
    duration_s = (1.5, 5.0)

    patience_s = SEEN_AGAIN_S
    variants = tuple({"how": how} for how in ("wrong", "late", "absent", "unknown"))

    def has_met(self, run):
        return self.effect(run) > 0

    def effect(self, run):
        how = self.parameters["how"]
        return run.world.names.counts[how] - self.before.get(how, 0)

    def begin(self, run):
        self.before = dict(run.world.names.counts)
        run.world.names.how = self.parameters["how"]
        run.world.children["create#2"].kill()
        run.world.proxy.command("cut", "stages-sim")

    def end(self, run):
        run.world.names.how = "right"
        seen = self.effect(run)
        if seen:
            run.saw("dns." + self.parameters["how"], seen)
