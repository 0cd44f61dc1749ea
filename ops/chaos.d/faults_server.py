"""ops/chaos.d/faults_server.py: PostgreSQL, nats-server and Redis are killed, stand still, get
slow or full disks, forget, lie; a standby takes over for good.
"""
import os
import shutil
import time
from signal import SIGINT

import sql
from fault import Fault, register


class ServerFault(Fault):
    server = None

    def touched(self):
        return [self.server]

    def child(self, run):
        return run.world.children[self.server]


class KillServer(ServerFault):
    duration_s = (0.1, 3.0)

    def begin(self, run):
        self.child(run).holds.add(self)
        if self.child(run).kill():
            run.saw("kill." + self.server)

    def end(self, run):
        self.child(run).holds.discard(self)


class FreezeServer(ServerFault):
    duration_s = (0.5, 6.0)

    def begin(self, run):
        if self.child(run).freeze():
            run.saw("freeze." + self.server)

    def end(self, run):
        self.child(run).thaw()


@register
class KillNats(KillServer):
    name, server = "kill_nats", "nats"


@register
class FreezeNats(FreezeServer):
    name, server = "freeze_nats", "nats"


@register
class KillRedis(KillServer):
    name, server = "kill_redis", "redis"


@register
class FreezeRedis(FreezeServer):
    name, server = "freeze_redis", "redis"


class PostgresFault(Fault):
    touches = ("pg",)


@register
class KillPostgres(PostgresFault):
    """The postmaster by SIGKILL; its backends follow. Crash recovery when it comes back."""
    name = "kill_pg"
    duration_s = (0.1, 3.0)

    def begin(self, run):
        run.world.primary.child.holds.add(self)
        if run.world.primary.kill():
            run.saw("kill.pg")

    def end(self, run):
        run.world.primary.child.holds.discard(self)


@register
class KillBackends(PostgresFault):
    """Some connections end in the middle of whatever they did."""
    name = "kill_backends"
    duration_s = (0, 0)

    def drawn(self, draw):
        return {"percent": draw.choice([20, 50, 100])}

    def begin(self, run):
        killed = run.world.number(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE backend_type = "
            "'client backend' AND pid <> pg_backend_pid() AND hashint8(pid) %% 100 < %d"
            % self.parameters["percent"])
        if killed:
            run.saw("kill.backends", killed)


@register
class FreezePostgres(PostgresFault):
    name = "freeze_pg"
    duration_s = (0.5, 6.0)

    def begin(self, run):
        if run.world.primary.freeze():
            run.saw("freeze.pg")

    def end(self, run):
        run.world.primary.thaw()


@register
class RestartPostgres(PostgresFault):
    name = "restart_pg"
    duration_s = (0, 0)

    def begin(self, run):
        child = run.world.primary.child
        child.holds.add(self)
        if child.stop(30, SIGINT) == 0:
            run.saw("restart.pg")
        child.holds.discard(self)


@register
class DeadPlaceholders(PostgresFault):
    """Intake dies after it has placed its placeholders in Redis and before it could commit:
    repeats of those requests are held back by them until they are gone, and never refused."""
    name = "dead_placeholders"
    touches = ("pg", "intake")
    duration_s = (0.8, 1.2)
    variants = ({}, {})  # twice in the deck: what it leads to is rare

    def begin(self, run):
        run.world.primary.freeze()

    def end(self, run):
        killed = sum(child.kill() for child in run.world.stages("intake"))
        run.world.primary.thaw()
        if killed:
            run.saw("dead_placeholders", killed)


class StandbyFault(Fault):
    """Without its synchronous standby no commit of the primary returns, though each is made."""
    touches = ("standby",)
    needs = ("standby",)
    duration_s = (1.0, 4.0)

    def victim(self, run):
        """None once it is the primary."""
        return None if run.world.primary is run.world.standby else run.world.standby


@register
class KillStandby(StandbyFault):
    name = "kill_standby"

    def begin(self, run):
        standby = self.victim(run)
        if standby is not None:
            standby.child.holds.add(self)
            if standby.kill():
                run.saw("kill.standby")

    def end(self, run):
        run.world.standby.child.holds.discard(self)


@register
class FreezeStandby(StandbyFault):
    name = "freeze_standby"

    def begin(self, run):
        standby = self.victim(run)
        if standby is not None and standby.freeze():
            run.saw("freeze.standby")

    def end(self, run):
        run.world.standby.thaw()


@register
class Promote(PostgresFault):
    """The primary dies for good; its synchronous standby takes over. Its address refuses from
    then on, or is silent, as that of a machine that is off. Before, the standby may have heard
    nothing for a moment: what the primary has committed in it was told to nobody, and is lost."""
    name = "promote"
    comes_again = False
    touches = ("pg", "standby", "net:pg")
    needs = ("standby",)
    duration_s = (0, 0)

    def drawn(self, draw):
        return {"leaves": draw.choice(["refuse", "stall"]), "behind_s": draw.choice([0, 0.7])}

    def begin(self, run):
        world = run.world
        if world.primary is not world.pg or not world.standby.child.is_alive():
            return
        if not sql.wait_ready(world.standby.url, 10):
            return
        if self.parameters["behind_s"]:
            world.proxy.set("standby-pg", stall=1)
            time.sleep(self.parameters["behind_s"])
        try:
            lost = world.pg.position() - world.standby.position()
        except sql.SqlError:  # it is away just now: then it stays so
            lost = 0
        world.pg.child.holds.add("for good")
        world.pg.kill()
        sql.run(world.standby.url, "SELECT pg_promote(true, 30)")
        world.primary = world.standby
        world.grave = self.parameters["leaves"]
        world.clear("*-pg")
        world.proxy.command("cut", "*-pg")
        run.saw("promote")
        if lost > 0:
            run.saw("promote.lost_bytes", lost)


@register
class SlowFsync(Fault):
    name = "slow_fsync"
    touches = ("fsync",)
    needs = ("shim",)
    duration_s = (2.0, 6.0)

    def drawn(self, draw):
        return {"ms": draw.choice([20, 100, 400])}

    def begin(self, run):
        self.before = run.world.slowed_fsyncs()
        run.world.slow_fsync(self.parameters["ms"])

    def end(self, run):
        run.world.slow_fsync(0)
        slowed = run.world.slowed_fsyncs() - self.before
        if slowed > 0:
            run.saw("slow_fsync", slowed)


class DiskFull(Fault):
    needs = ("own_mounts",)
    duration_s = (2.0, 5.0)
    patience_s = 4.0

    def drawn(self, draw):
        return {"left_kb": draw.choice([0, 64, 1024])}

    def server(self, run):
        raise NotImplementedError

    def begin(self, run):
        self.log = open(self.server(run).log, "rb")
        self.log.seek(0, os.SEEK_END)
        self.failed_writes = 0
        self.server(run).disk.fill(self.parameters["left_kb"] * 1024)

    def has_met(self, run):
        self.failed_writes += self.log.read().lower().count(b"no space left")
        return self.failed_writes > 0

    def end(self, run):
        if self.has_met(run):
            run.saw(self.name, self.failed_writes)
        self.log.close()
        self.server(run).disk.empty()


@register
class PostgresDiskFull(DiskFull):
    name = "disk_full_pg"
    touches = ("pg",)

    def server(self, run):
        return run.world.primary


@register
class NatsDiskFull(DiskFull):
    """nats-server gives up JetStream when it cannot write; somebody then restarts it."""
    name = "disk_full_nats"
    touches = ("nats",)

    def server(self, run):
        return run.world.nats

    def end(self, run):
        super().end(run)
        run.world.children["nats"].kill()


# --- Redis ---------------------------------------------------------------------------------------

@register
class FlushRedis(Fault):
    name = "flush_redis"
    touches = ("redis",)
    duration_s = (0, 0)

    def begin(self, run):
        if run.world.redis.command("FLUSHALL") == "OK":
            run.saw("flush.redis")


@register
class RedisLies(Fault):
    """For as long as it lasts: garbage, torn and exchanged answers, wrong types, foreign
    placeholders and leases."""
    name = "redis_lies"
    touches = ("redis",)
    duration_s = (2.0, 5.0)

    def begin(self, run):
        self.lies = 0
        self.lists = []
        self.next_at = 0

    def step(self, run):
        if time.monotonic() < self.next_at:
            return
        self.next_at = time.monotonic() + 0.4
        redis = run.world.redis
        names = [name for name in (redis.command("KEYS", "*") or "").split("\n") if name]
        run.draw.shuffle(names)
        for number, name in enumerate(names[:8]):
            self.lies += self.lie(redis, number % 5, name, names[number - 1]) not in (None, "", "0")

    def lie(self, redis, kind, name, other):
        if kind == 0:
            return redis.command("SET", name, "nonsense")
        if kind == 1:
            return redis.command("SETRANGE", name, "9", "forged!!}")
        if kind == 2:
            return redis.command("COPY", other, name, "REPLACE")
        done = redis.command("DEL", name)
        if kind == 3:
            return done
        self.lists.append(name)
        return redis.command("LPUSH", name, "1")

    def end(self, run):
        if self.lists:
            run.world.redis.command("DEL", *self.lists)
        if self.lies:
            run.saw("redis.lies", self.lies)


# --- JetStream -----------------------------------------------------------------------------------

STREAMS = ["PAY_INTAKE", "PAY_ROUTE", "PAY_CREATE", "PAY_RECOVER", "PAY_SETTLE"]
CONSUMERS = [("PAY_INTAKE", "intake"), ("PAY_ROUTE", "route"), ("PAY_SETTLE", "settle"),
             ("PAY_CREATE", "stripe-main_new"), ("PAY_CREATE", "stripe-backup_new")]


@register
class PurgeStream(Fault):
    """Requests and commands that are gone before anybody saw them: who eats them stands still."""
    name = "purge_stream"
    duration_s = (0.5, 1.5)

    variants = tuple({"stream": stream} for stream in STREAMS)

    def touched(self):
        return ["nats", self.parameters["stream"].split("_")[1].lower()]

    def begin(self, run):
        self.victims = run.world.stages(self.parameters["stream"].split("_")[1].lower())
        for child in self.victims:
            child.freeze()

    def end(self, run):
        purged = run.jetstream("STREAM.PURGE." + self.parameters["stream"])
        for child in self.victims:
            child.thaw()
        if purged and purged.get("purged"):
            run.saw("purge.stream", purged["purged"])


@register
class DeleteConsumer(Fault):
    """Rewound: made anew by the relay, it delivers again whatever was not acked."""
    name = "rewind_consumer"
    touches = ("nats",)
    duration_s = (0, 0)

    variants = tuple({"stream": stream, "durable": durable} for stream, durable in CONSUMERS)

    def begin(self, run):
        done = run.jetstream("CONSUMER.DELETE.%(stream)s.%(durable)s" % self.parameters)
        if (done or {}).get("success"):
            run.saw("rewind.consumer")


class StoreFault(Fault):
    touches = ("nats", "relay")
    duration_s = (0, 0)

    def without_nats(self, run, change):
        """Reads the event stream while the relay stands still, then changes the store of a dead
        server."""
        world = run.world
        for child in world.stages("relay"):
            child.freeze()
        try:
            run.watcher.snapshot()
            world.children["nats"].holds.add(self)
            world.children["nats"].kill()
            change()
        finally:
            world.children["nats"].holds.discard(self)
            world.nats.child.start()
            world.nats.wait_healthy()
            for child in world.stages("relay"):
                child.thaw()


@register
class RestoreStore(StoreFault):
    """JetStream's folder as it was a while ago: what was eaten since comes again, what came
    since is gone."""
    name = "restore_store"
    duration_s = (2.0, 6.0)

    def begin(self, run):
        nats = run.world.nats
        shutil.rmtree(nats.copy_path, ignore_errors=True)
        self.without_nats(run, lambda: shutil.copytree(nats.store, nats.copy_path))

    def end(self, run):
        nats = run.world.nats
        if not os.path.exists(nats.copy_path):
            return  # the server was away when it was to be copied

        def restore():
            shutil.rmtree(nats.store)
            shutil.copytree(nats.copy_path, nats.store)
        self.without_nats(run, restore)
        run.saw("restore.store")


@register
class LoseStore(StoreFault):
    name = "lose_store"

    def begin(self, run):
        self.without_nats(run, lambda: shutil.rmtree(run.world.nats.store))
        run.saw("lose.store")


@register
class DeleteEventStream(StoreFault):
    name = "delete_event_stream"

    def begin(self, run):
        for child in run.world.stages("relay"):
            child.freeze()
        try:
            run.watcher.snapshot()
            if (run.jetstream("STREAM.DELETE.PAY_EVENT") or {}).get("success"):
                run.saw("delete.event_stream")
        finally:
            for child in run.world.stages("relay"):
                child.thaw()
