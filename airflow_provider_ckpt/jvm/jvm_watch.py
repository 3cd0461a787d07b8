"""A shell that kills a JVM if the JVM outlives the process that started it.

When that process ends, the JVM's standard input is closed, and the JVM begins to exit. But its exit waits for the
threads of RocksDB, and a compacting thread that logs through Java waits for the JVM. After the kill of a driver with
much state, the JVM then used gigabytes of memory for ever (seen with OpenJDK 17 and the RocksDB of Spark 4.2).
"""

from __future__ import annotations

import logging
import subprocess

from airflow_provider_ckpt.storage.processes import process_started

log = logging.getLogger(__name__)

GRACE = 300
"""Seconds for a JVM to end by itself. It must stop its executors, and may have to copy its event log."""

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
"""A shell script that waits in ``read`` until every process that has the pipe open has ended.

A process that was forked from the starting process has the pipe open, too, and also the JVM's standard input.
"""

_watching: dict[tuple[int, str], subprocess.Popen[bytes]] = {}
"""(pid, start time) of a JVM → its watching shell."""


def watch_jvm(pid: int) -> None:
    """Start a shell that kills the JVM if it still runs :data:`GRACE` seconds after this process has ended.

    The caller must own the JVM, and may call this repeatedly. Without /proc nothing happens. The shell has its own
    session, so it survives the kill of this process's group. Errors are not raised, because a job runs without the
    shell, too.
    """
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
        log.debug("the JVM %d is not watched: %s", pid, error)
