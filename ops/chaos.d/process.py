"""ops/chaos.d/process.py: child processes that are killed, stopped and started again on purpose.

A child dies with us: in a pid namespace of our own because its init does, elsewhere by
PR_SET_PDEATHSIG. Somebody who wants it down holds it; the keeper starts what died unheld.
"""
import ctypes
import os
import subprocess
import time
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)


def die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, SIGKILL)


class Child:
    """One labelled process and its log. arguments: a list, or what makes one at each start."""

    def __init__(self, name, arguments, environment, log, start_delay_s=0.2):
        self.name, self.arguments, self.environment, self.log = name, arguments, environment, log
        self.start_delay_s = start_delay_s
        self.process = None
        self.holds = set()     # who wants it down
        self.once = {}         # environment of the next start only
        self.died_at = None
        self.is_frozen = False
        self.starts = 0
        self.ends = []         # exit codes of those that ended, negative signals

    @property
    def pid(self):
        return self.process.pid if self.is_alive() else None

    def is_alive(self):
        return self.process is not None and self.process.poll() is None

    def start(self):
        if self.is_alive():
            return
        arguments = self.arguments() if callable(self.arguments) else self.arguments
        environment = dict(self.environment, **self.once)
        self.once = {}
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                arguments, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, preexec_fn=die_with_parent)
        self.starts += 1
        self.is_frozen = False
        self.died_at = None

    def signal(self, number):
        if not self.is_alive():
            return False
        self.process.send_signal(number)
        return True

    def kill(self):
        """SIGKILL; returns whether it was alive until then."""
        if not self.signal(SIGKILL):
            return False
        self.process.wait(30)
        self.note_end()
        return True

    def freeze(self):
        self.is_frozen = self.signal(SIGSTOP)
        return self.is_frozen

    def thaw(self):
        was, self.is_frozen = self.is_frozen, False
        return self.signal(SIGCONT) and was

    def has_stopped(self):
        """By SIGSTOP, its own or ours."""
        if not self.is_alive():
            return False
        try:
            with open("/proc/%d/stat" % self.process.pid) as file:
                return file.read().rpartition(") ")[2][0] == "T"
        except OSError:
            return False

    def stop(self, seconds=30, number=SIGTERM):
        """Asks it to end. Returns its exit code; kills it when that takes too long (None)."""
        self.signal(number)
        return self.wait_end(seconds)

    def wait_end(self, seconds):
        if self.process is None:
            return 0
        self.signal(SIGCONT)
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return None
        self.note_end()
        return code

    def note_end(self):
        if self.process is not None and self.died_at is None:
            self.ends.append(self.process.returncode)
            self.died_at = time.monotonic()

    def keep(self):
        """Starts it again, a moment after it died, unless somebody holds it down."""
        if self.is_alive():
            return
        if self.process is not None:
            self.note_end()
        is_early = self.died_at and time.monotonic() - self.died_at < self.start_delay_s
        if not self.holds and not is_early:
            self.start()


def reap_orphans(children):
    """As init of a pid namespace: takes what nobody else waits for. Never one of the children."""
    if os.getpid() != 1:
        return
    own = {child.process.pid for child in children if child.process is not None}
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if found is None or found.si_pid in own:
            return
        os.waitpid(found.si_pid, os.WNOHANG)
