"""Proof that the previous driver is gone (R8), with real processes."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.jobmaster.recovery import takeover
from airflow_provider_ckpt.journal import driver_mark, worker_process
from airflow_provider_ckpt.journal.driver_mark import is_marked
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.worker_process import end_worker, identify, identify_shared, is_alive
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.processes import process_started
from tests.support.processes import Process
from tests.support.waiting import wait_until

ROOT, JOB = "s3://lake/ckpt", "orders"
DRIVER = """
import signal
from airflow_provider_ckpt.journal.driver_mark import mark
from airflow_provider_ckpt.journal.worker_process import identify
mark(identify(), {root!r}, {job!r})
print("up", flush=True)
signal.pause()
"""


def driver(log: Path, root: str = ROOT, job: str = JOB) -> Process:
    """Start a process that has marked itself as a driver of the job."""
    return Process([sys.executable, "-c", DRIVER.format(root=root, job=job)], log)


@pytest.fixture
def child(tmp_path: Path) -> Process:
    return driver(tmp_path / "log")


def identity(pid: int) -> Worker:
    return replace(identify(), pid=pid, started=process_started(pid))


def test_a_driver_that_does_not_exit_is_killed_after_its_grace(child: Process) -> None:
    with child:
        wait_until(lambda: "up" in child.text(), "the child's start")
        worker = identity(child.pid)
        assert is_alive(worker)
        assert end_worker(worker, ROOT, JOB, grace=0.0) == "killed"
        assert is_alive(worker) is False
        assert child.wait() == -signal.SIGKILL


@pytest.mark.parametrize(("root", "job"), [(ROOT, "other"), ("s3://other/ckpt", JOB)])
def test_a_driver_of_another_job_is_not_killed_for_a_forged_claim(tmp_path: Path, root: str, job: str) -> None:
    with driver(tmp_path / "log", root, job) as other:
        wait_until(lambda: "up" in other.text(), "the child's start")
        assert end_worker(identity(other.pid), ROOT, JOB, grace=0.0) == "unreachable"
        assert end_worker(identity(other.pid), root, job, grace=0.0) == "killed"


def test_a_foreign_process_is_not_killed_for_a_forged_claim(tmp_path: Path) -> None:
    """A user who may write to the root can name any process of the driver's user, with its start."""
    with Process(["sleep", "600"], tmp_path / "log") as foreign:
        waited: list[float] = []
        assert end_worker(identity(foreign.pid), ROOT, JOB, grace=60.0, sleep=waited.append) == "unreachable"
        assert (waited, foreign.exit_code) == ([], None)


def test_a_process_with_the_reused_pid_of_a_driver_is_not_killed(
    child: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim also names a start time. Here it is forged: it is the start of the current process with the pid."""
    with child:
        wait_until(lambda: "up" in child.text(), "the child's start")
        forged = replace(identity(child.pid), started="1")
        monkeypatch.setattr(worker_process, "process_started", lambda pid: "1")
        assert is_alive(forged)
        assert end_worker(forged, ROOT, JOB, grace=0.0) == "unreachable"
        assert child.exit_code is None


def test_a_process_is_recognized_under_every_spelling_of_its_root(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with driver(tmp_path / "log", f"{tmp_path}/root") as child:
        wait_until(lambda: "up" in child.text(), "the child's start")
        assert is_marked(identity(child.pid), f"file://{tmp_path}/link/root", JOB)
        assert not is_marked(identity(child.pid), f"file://{tmp_path}/other", JOB)


def test_a_mark_counts_only_for_the_process_that_listens() -> None:
    """A process cannot set the mark for another one, because the kernel knows which process listens."""
    me = identify()
    name = driver_mark._name(replace(me, pid=1, started="1"), ROOT, JOB)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(name)
        listener.listen()
        assert not is_marked(replace(me, pid=1, started="1"), ROOT, JOB)


def test_a_claim_marks_its_process(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    takeover.claim(Journal(storage, "of-others"), "a", identify_shared())
    assert not is_marked(identify(), storage.uri, "of-others")
    for _ in range(2):
        takeover.claim(Journal(storage, "mine"), "b", identify())
    assert is_marked(identify(), storage.uri, "mine")
    assert not is_marked(identify(), storage.uri, "of-others")


def test_a_driver_that_exits_within_its_grace_is_not_killed(child: Process) -> None:
    with child:
        wait_until(lambda: "up" in child.text(), "the child's start")
        worker = identity(child.pid)
        asked: list[float] = []

        def sleep(seconds: float) -> None:
            if not asked:
                child.signal(signal.SIGTERM)
            asked.append(seconds)
            child.ended_within(5)

        assert end_worker(worker, ROOT, JOB, grace=60.0, sleep=sleep) == "left"
        assert child.wait() == -signal.SIGTERM


def test_a_take_over_does_not_wait_for_a_dead_driver(child: Process) -> None:
    with child:
        worker = identity(child.pid)
        child.end()
        waited: list[float] = []
        assert end_worker(worker, ROOT, JOB, grace=60.0, sleep=waited.append) == "gone"
        assert waited == []


def test_a_process_with_the_same_pid_and_another_start_is_not_killed(child: Process) -> None:
    with child:
        worker = replace(identity(child.pid), started="1")
        assert end_worker(worker, ROOT, JOB, grace=0.0) == "gone"
        assert child.exit_code is None


def test_a_process_of_another_container_is_unreachable(child: Process) -> None:
    """On this host the pid belongs to another process, or to none.

    So the process would count as gone, and its folders as free.
    """
    with child:
        worker = replace(identity(child.pid), pid_namespace="pid:[1]")
        assert is_alive(worker) is None
        assert end_worker(worker, ROOT, JOB, grace=0.0) == "unreachable"
        assert is_alive(replace(worker, pid_namespace=None)) is None
        assert child.exit_code is None


@pytest.mark.parametrize("why", [errno.EMFILE, errno.EACCES, errno.ENOMEM, errno.ENOENT])
def test_an_unreadable_process_does_not_count_as_gone(
    child: Process, monkeypatch: pytest.MonkeyPatch, why: int
) -> None:
    """A driver that has run out of file handles would take over from a living one.

    ENOENT: in this way the system hides processes of other users.
    """
    with child:
        worker, read = identity(child.pid), Path.read_text

        def refused(path: Path, *args: Any, **more: Any) -> str:
            if path.name == "stat":
                raise OSError(why, os.strerror(why))
            return read(path, *args, **more)

        with monkeypatch.context() as patch:  # ending the child reads this file, too
            patch.setattr(Path, "read_text", refused)
            alive, ended, me = is_alive(worker), end_worker(worker, ROOT, JOB, grace=0.0), identify()
        assert (alive, ended) == (None, "unreachable")
        assert me.started is None, "without a start the process cannot be judged"
        assert is_alive(worker)
        assert child.exit_code is None


def test_a_process_that_becomes_unreadable_is_not_killed(child: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    with child:
        wait_until(lambda: "up" in child.text(), "the child's start")
        worker = identity(child.pid)
        looks = iter([True, None])
        monkeypatch.setattr(worker_process, "is_alive", lambda worker: next(looks))
        assert end_worker(worker, ROOT, JOB, grace=0.0) == "unreachable"
        assert child.exit_code is None


def test_a_shared_process_is_never_killed(tmp_path: Path) -> None:
    """A triggerer is such a process: it runs many JobMasters. Killing it for one takeover would end all of them."""
    itself = "import json, signal; from airflow_provider_ckpt.journal.worker_process import identify_shared as me"
    says = "from dataclasses import asdict; print(json.dumps(asdict(me())), flush=True); signal.pause()"
    with Process([sys.executable, "-c", f"{itself}; {says}"], tmp_path / "log") as shared:
        wait_until(lambda: "}" in shared.text(), "the child's start")
        worker = Worker(**json.loads(shared.text()))
        assert worker.pid == shared.pid, "users can identify the process"
        assert end_worker(worker, ROOT, JOB, grace=0.0) == "unreachable"
        assert shared.exit_code is None


def test_a_driver_on_another_host_or_before_a_reboot_is_unreachable(child: Process) -> None:
    with child:
        worker = identity(child.pid)
        for elsewhere in (
            replace(worker, host="other"),
            replace(worker, boot_id="another boot"),
            replace(worker, started=None),
            replace(worker, pid=None),
        ):
            assert is_alive(elsewhere) is None
            assert end_worker(elsewhere, ROOT, JOB, grace=0.0) == "unreachable"
        assert child.exit_code is None


def test_this_process_itself_counts_as_gone() -> None:
    assert identify().pid == os.getpid()
    assert end_worker(identify(), ROOT, JOB, grace=0.0) == "gone"


@pytest.mark.parametrize(("error", "result"), [(ProcessLookupError, "left"), (PermissionError, "unreachable")])
def test_a_driver_that_resists_the_kill_is_left_to_the_fence(
    child: Process, error: type[OSError], result: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process has just left, or belongs to another user. The successor continues in either case."""

    def kill(pid: int, number: int) -> None:
        raise error

    with child:
        wait_until(lambda: "up" in child.text(), "the child's start")
        worker = identity(child.pid)
        with monkeypatch.context() as patched:
            patched.setattr(os, "kill", kill)
            assert end_worker(worker, ROOT, JOB, grace=0.0) == result


def test_a_driver_that_survives_the_kill_is_left_to_the_fence(child: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(0, 10_000, 10))
    with child:
        wait_until(lambda: "up" in child.text(), "the child's start")
        worker = identity(child.pid)
        with monkeypatch.context() as patched:
            patched.setattr(os, "kill", lambda pid, number: None)
            result = end_worker(
                worker, ROOT, JOB, grace=0.0, clock=lambda: float(next(times)), sleep=lambda seconds: None
            )
        assert result == "unreachable"
