"""ops/chaos.d/servers.py: PostgreSQL (with its standby), nats-server and Redis as chaos wants them:
each on a small disk of its own where we may mount one, started and killed without ceremony.
"""
import os
import pwd
import shutil
import socket
import subprocess
import time
import urllib.request
from signal import SIGCONT, SIGSTOP

import sql
from process import Child

PG_BIN = "/usr/lib/postgresql/15/bin"
PG_CONF = """
listen_addresses = '127.0.0.1'
max_connections = 200
shared_buffers = 64MB
max_wal_size = 1GB
fsync = on
synchronous_commit = on
jit = off
cluster_name = '%s'
log_line_prefix = '%%m [%%p] '
wal_receiver_timeout = 5s
wal_sender_timeout = 5s
track_commit_timestamp = on
wal_retrieve_retry_interval = 200ms
"""
PG_HBA = """
local all all trust
host all all 127.0.0.1/32 trust
local replication all trust
host replication all 127.0.0.1/32 trust
"""
NATS_CONF = """
server_name: oncepay
listen: "127.0.0.1:%(port)d"
http: "127.0.0.1:%(monitor)d"
jetstream { store_dir: "%(store)s", max_file_store: 32GiB, max_memory_store: 1GiB }
%(users)s
"""


def is_root():
    return os.geteuid() == 0


def as_server():
    """The words in front of a command of PostgreSQL, which refuses to run as root."""
    if not is_root():
        return []
    user = pwd.getpwnam("postgres")
    return ["setpriv", "--reuid=%d" % user.pw_uid, "--regid=%d" % user.pw_gid, "--clear-groups",
            "env", "-C", "/"]


def wait_port(port, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        except OSError:
            time.sleep(0.05)
    return False


class Disk:
    """A folder; on a file system of its own (tmpfs) if we may mount one."""
    SIZE = "3g"

    def __init__(self, path):
        self.path = path
        os.makedirs(path, exist_ok=True)
        may_mount = os.environ.get("ONCEPAY_CHAOS_OWN_MOUNTS") == "yes"
        self.is_own = may_mount and self.mount()

    def mount(self):
        words = ["mount", "-t", "tmpfs", "-o", "size=" + self.SIZE, "chaos", self.path]
        return subprocess.run(words, stderr=subprocess.DEVNULL).returncode == 0

    def used_bytes(self):
        stat = os.statvfs(self.path)
        return (stat.f_blocks - stat.f_bfree) * stat.f_frsize

    def resize(self, size):
        return subprocess.run(["mount", "-o", "remount,size=" + size, self.path],
                              stderr=subprocess.DEVNULL).returncode == 0

    def fill(self, left_bytes):
        """Leaves only so much room."""
        return self.is_own and self.resize(str(self.used_bytes() + left_bytes))

    def empty(self):
        return self.is_own and self.resize(self.SIZE)


class Postgres:
    """A cluster. peer_port: where it finds what it is the standby of."""

    def __init__(self, name, home, port, log, environment, peer_port=None):
        self.name, self.port, self.log, self.peer_port = name, port, log, peer_port
        self.disk = Disk(home)
        self.data = os.path.join(home, "data")
        self.socket = os.path.join(home, "socket")
        self.url = ("postgresql://oncepay@/oncepay?host=%s&port=%d&connect_timeout=5"
                    % (self.socket, port))
        self.synchronous = ""
        self.child = Child(name, self.arguments, environment, log)

    def arguments(self):
        return as_server() + [PG_BIN + "/postgres", "-D", self.data, "-p", str(self.port),
                              "-k", self.socket, "-c",
                              "synchronous_standby_names=" + self.synchronous]

    def run(self, *words):
        with open(self.log, "ab") as log:
            subprocess.run(as_server() + list(words), stdout=log, stderr=log, check=True,
                           timeout=120)

    def make_folders(self):
        for folder in (self.data, self.socket):
            os.makedirs(folder, exist_ok=True)
            os.chmod(folder, 0o700)
            if is_root():
                shutil.chown(folder, "postgres", "postgres")
        os.chmod(self.disk.path, 0o711)

    def make(self):
        self.make_folders()
        if self.peer_port is None:
            self.run(PG_BIN + "/initdb", "-D", self.data, "-U", "oncepay", "--encoding=UTF8",
                     "--locale=C.UTF-8", "--no-sync", "--auth=trust")
            self.write("postgresql.conf", PG_CONF % self.name, "a")
            self.write("pg_hba.conf", PG_HBA, "w")
        else:
            self.run(PG_BIN + "/pg_basebackup", "-h", "127.0.0.1", "-p", str(self.peer_port), "-U",
                     "oncepay", "-D", self.data, "-R", "-X", "stream", "-c", "fast",
                     "--no-sync", "-d", "application_name=standby")
            self.write("postgresql.conf", "cluster_name = 'standby'\n", "a")

    def write(self, name, text, mode):
        path = os.path.join(self.data, name)
        with open(path, mode) as file:
            file.write(text)
        if is_root():
            shutil.chown(path, "postgres", "postgres")

    def start(self):
        """As the keeper does it: after a kill, what the dead one left must not look alive."""
        self.forget_locks()
        self.child.start()

    def forget_locks(self):
        for path in (os.path.join(self.data, "postmaster.pid"),
                     os.path.join(self.socket, ".s.PGSQL.%d.lock" % self.port)):
            if os.path.exists(path):
                os.unlink(path)

    def open(self):
        self.make()
        self.start()
        url = self.url.replace("/oncepay?", "/postgres?")
        if not sql.wait_ready(url):
            raise AssertionError("PostgreSQL did not start, see " + self.log)
        if self.peer_port is None:
            sql.run(url, "CREATE DATABASE oncepay")

    def position(self):
        """Up to where it has the log of changes, in bytes."""
        return int(sql.run(self.url, """
            SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn()
                        ELSE pg_current_wal_flush_lsn() END - '0/0'::pg_lsn""", 5)[0][0])

    def children(self):
        pid = self.child.pid
        if pid is None:
            return []
        done = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True)
        return [int(word) for word in done.stdout.split()]

    def kill(self):
        """The postmaster first stands still, so that it starts nobody while we count its
        children."""
        if not self.child.signal(SIGSTOP):
            return False
        children = self.children()
        self.child.kill()
        end = time.monotonic() + 30
        while any(is_running(pid) for pid in children) and time.monotonic() < end:
            time.sleep(0.02)
        return True

    def freeze(self):
        """The whole server stands still, not only the postmaster."""
        if not self.child.freeze():
            return False
        for pid in self.children():
            signal_quietly(pid, SIGSTOP)
        return True

    def thaw(self):
        for pid in self.children():
            signal_quietly(pid, SIGCONT)
        return self.child.thaw()


def is_running(pid):
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def signal_quietly(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class Nats:
    """nats-server with the users of config/nats-users.conf.in; all passwords are the same word."""
    PASSWORD = "chaos"

    def __init__(self, home, port, monitor, log, environment, users_template, merchants):
        self.disk = Disk(os.path.join(home, "disk"))
        self.store = os.path.join(home, "disk", "store")
        self.copy_path = os.path.join(home, "copy")
        self.port, self.monitor, self.log = port, monitor, log
        self.conf = os.path.join(home, "nats.conf")
        with open(self.conf, "w") as file:
            file.write(NATS_CONF % {"port": port, "monitor": monitor, "store": self.store,
                                    "users": fill_users(users_template, merchants, self.PASSWORD)})
        self.child = Child("nats", ["nats-server", "-c", self.conf], environment, log)

    def url(self, port=None, user="oncepay"):
        return "nats://%s:%s@127.0.0.1:%d" % (user, self.PASSWORD, port or self.port)

    def is_healthy(self):
        try:
            url = "http://127.0.0.1:%d/healthz" % self.monitor
            with urllib.request.urlopen(url, timeout=2) as answer:
                return answer.status == 200
        except OSError:
            return False

    def wait_healthy(self, seconds=30):
        end = time.monotonic() + seconds
        while not self.is_healthy():
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        return True


def fill_users(template, merchants, password):
    """Its last user stands for each merchant, as in ops/lib/servers.sh."""
    start = template.index('{ user: "@MERCHANT@"')
    end = template.index("} }", start) + len("} }")
    user = template[start:end]
    text = template[:start].replace("@ONCEPAY_PASSWORD@", password)
    for merchant in merchants:
        text += user.replace("@MERCHANT_PASSWORD@", password).replace("@MERCHANT@", merchant) + "\n"
    return text + template[end:]


class Redis:
    def __init__(self, home, port, log, environment):
        self.port = port
        os.makedirs(home, exist_ok=True)
        conf = os.path.join(home, "redis.conf")
        with open(conf, "w") as file:
            file.write("bind 127.0.0.1\nport %d\ndir %s\ndaemonize no\nsave \"\"\nappendonly no\n"
                       % (port, home))
        self.child = Child("redis", ["redis-server", conf], environment, log)

    def command(self, *words, timeout=3):
        """The reply as redis-cli prints it; None when Redis does not answer."""
        try:
            done = subprocess.run(["redis-cli", "-p", str(self.port), *words], capture_output=True,
                                  timeout=timeout)
        except subprocess.TimeoutExpired:
            return None
        return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else None
