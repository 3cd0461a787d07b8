"""A JVM does not outlive the process that started it.

It ends by itself when that is gone, as its standard input ends. But its exit waits for the threads of RocksDB, and one
that compacts and has something to say to Java (its logger) waits for the JVM, which is in its exit: a driver with much
state that was killed left gigabytes of memory behind, for ever (seen with OpenJDK 17 and the RocksDB of Spark 4.2).
"""

from __future__ import annotations

import logging
import subprocess

from airflow_provider_ckpt.storage.processes import process_started

log = logging.getLogger(__name__)

GRACE = 300
"""Seconds that a JVM has to end by itself: it stops its executors, and may have a log of events to bring somewhere."""

_SCRIPT = """
is_there() { [ "$(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 20)" = "$2" ]; }
read -r _
left=$3
while is_there "$1" "$2"; do
  if [ "$left" -le 0 ]; then kill -9 "$1"; exit; fi
  left=$((left - 1))
  sleep 1 || exit
done
"""
"""A shell sleeps in ``read`` until the other end of the pipe is closed, by whatever ends the process that holds it. One
that was forked from that holds it, too, as it does the JVM's standard input: as long as it lives neither is closed."""

_watching: dict[tuple[int, str], subprocess.Popen[bytes]] = {}
"""By the JVM and when it was started."""


def watch_jvm(pid: int) -> None:
    """Have the JVM killed when it is still there :data:`GRACE` seconds after this process has ended, however that came
    about. Called by who has it to himself, once it runs, each time; on systems without /proc it does nothing. By a
    shell, which is in no group that is killed with this process, and costs nothing while it waits. Raises nothing: a
    job runs without as well."""
    try:
        started = process_started(pid)
        if started is None or (pid, started) in _watching:
            return
        _watching[pid, started] = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "ckpt-jvm-watch", str(pid), started, str(GRACE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        log.debug("nobody watches the JVM %d: %s", pid, error)
