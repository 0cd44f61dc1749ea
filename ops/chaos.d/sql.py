"""ops/chaos.d/sql.py: the observer's own view of PostgreSQL, past every fault: psql on its
socket."""
import os
import subprocess
import time

# Debian's psql in the PATH is a wrapper that takes ten times as long to start.
PSQL = next(filter(os.path.exists, ["/usr/lib/postgresql/15/bin/psql"]), "psql")


class SqlError(Exception):
    pass


def run(url, statement, timeout=60):
    """Rows as lists of text; NULL is None."""
    try:
        done = subprocess.run(
            [PSQL, url, "-X", "-A", "-t", "-q", "-F", "\x1f", "-R", "\x1e", "-P", "null=\\N",
             "-v", "ON_ERROR_STOP=1", "-c", statement],
            capture_output=True, timeout=timeout)
    except subprocess.TimeoutExpired as error:
        raise SqlError("no answer within %d s: %s" % (timeout, statement)) from error
    if done.returncode != 0:
        raise SqlError("%s: %s" % (done.stderr.decode(errors="replace").strip(), statement))
    text = done.stdout.decode().rstrip("\n")
    if text == "":
        return []
    return [[None if value == "\\N" else value for value in row.split("\x1f")]
            for row in text.split("\x1e")]


def wait_ready(url, seconds=60):
    """Until it takes statements; False when that takes too long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            run(url, "SELECT 1", 5)
            return True
        except SqlError:
            time.sleep(0.1)
    return False
