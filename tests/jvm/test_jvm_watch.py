"""Processes started for a driver do not outlive it. The processes are real; sleeping ones represent JVMs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_ckpt.jvm import jvm_watch
from airflow_provider_ckpt.storage.processes import process_started
from tests.support.waiting import wait_until

HOLDER = """
import os, sys, time
from airflow_provider_ckpt.jvm import jvm_watch
jvm_watch.GRACE = {grace}
for _ in range(2):
    jvm_watch.watch_jvm({pid})
if {forks} and os.fork() == 0:
    time.sleep(600)
print("watching", os.getpid(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def jvm() -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that ends when its standard input closes, unless it is stopped."""
    with subprocess.Popen(["/bin/sh", "-c", "read -r _; exit 7"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def kill_holder(jvm: int, grace: int, *, forks: bool = False) -> int:
    """Watch the JVM from a process, and kill that process. If ``forks``, its forked child survives."""
    command = [sys.executable, "-c", HOLDER.format(grace=grace, pid=jvm, forks=forks)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"watching %d\n" % holder.pid
        wait_until(lambda: len(watches(jvm)) == 1, "the only watch")
        # kill the whole group, as a process that ends a task does
        (os.kill if forks else os.killpg)(holder.pid, signal.SIGKILL)
    return holder.pid


def watched_here() -> set[int]:
    """Return the processes watched by this process, which may have its own JVM."""
    return {pid for pid, _ in jvm_watch._watching}


def watches(jvm: int) -> list[int]:
    """Return the processes that watch the JVM."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue  # the process has ended
        if b"ckpt-jvm-watch" in words and str(jvm).encode() in words:
            pids.append(int(path.parent.name))
    return pids


def test_a_jvm_that_hangs_is_killed_when_its_driver_is_gone(jvm: subprocess.Popen[bytes]) -> None:
    kill_holder(jvm.pid, grace=1)
    assert jvm.wait(30) == -signal.SIGKILL


def test_a_jvm_is_killed_when_the_last_fork_of_its_driver_is_gone(jvm: subprocess.Popen[bytes]) -> None:
    holder = kill_holder(jvm.pid, grace=0, forks=True)
    assert watches(jvm.pid)
    assert jvm.poll() is None
    os.killpg(holder, signal.SIGKILL)
    assert jvm.wait(30) == -signal.SIGKILL


def test_a_jvm_that_ends_in_time_is_not_killed(jvm: subprocess.Popen[bytes]) -> None:
    kill_holder(jvm.pid, grace=600)
    assert watches(jvm.pid)
    assert jvm.stdin is not None
    jvm.stdin.close()
    assert jvm.wait(60) == 7
    wait_until(lambda: not watches(jvm.pid), "the end of the watch")


def test_another_process_with_the_same_number_is_not_killed(jvm: subprocess.Popen[bytes]) -> None:
    started = process_started(jvm.pid)
    assert started is not None
    watch = ["/bin/sh", "-c", jvm_watch._SCRIPT, "ckpt-jvm-watch", str(jvm.pid), f"{started}1", "0"]
    assert subprocess.run(watch, stdin=subprocess.DEVNULL, timeout=60).returncode == 0
    assert jvm.poll() is None


def test_a_jvm_that_is_gone_is_not_watched() -> None:
    with subprocess.Popen(["true"]) as gone:
        pass
    jvm_watch.watch_jvm(gone.pid)
    assert gone.pid not in watched_here()


def test_a_missing_shell_causes_no_error(jvm: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise FileNotFoundError("/bin/sh")

    monkeypatch.setattr(subprocess, "Popen", fails)
    jvm_watch.watch_jvm(jvm.pid)
    assert jvm.pid not in watched_here()
