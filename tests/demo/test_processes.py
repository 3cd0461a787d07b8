"""Processes of the demo: it ends all that it starts, and their orphaned children."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from dags_examples.demo_support.processes import Child, kill, lives

# A chain of processes. Each writes its process id and then waits forever.
TREE = """
import pathlib, subprocess, sys, time
depth, folder, orphan = int(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3] == "orphan"
if depth:
    subprocess.Popen([sys.executable, "-c", sys.argv[4], str(depth - 1), *sys.argv[2:]])
mine = folder / str(depth)
mine.with_suffix(".part").write_text(str(__import__("os").getpid()))
mine.with_suffix(".part").rename(mine)
while not (orphan and depth == 1 and (folder / "0").exists()):
    time.sleep(0.01)
"""


def until(condition: Callable[[], bool], awaited: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, awaited
        time.sleep(0.01)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], Child]]:
    started: list[Child] = []

    def run(kind: str) -> Child:
        arguments = ["-c", TREE, "2", str(tmp_path), kind, TREE]
        started.append(Child(arguments, os.environ, tmp_path, tmp_path / "log"))
        until(lambda: all((tmp_path / str(depth)).exists() for depth in range(3)), "the processes have started")
        return started[0]

    yield run
    for child in started:
        child.end()


def pid(tmp_path: Path, depth: int) -> int:
    return int((tmp_path / str(depth)).read_text())


def test_a_submission_is_everything_between_the_child_and_its_driver(
    start: Callable[[str], Child], tmp_path: Path
) -> None:
    child = start("chain")
    submission = child.submission(pid(tmp_path, 0))
    assert [process.pid for process in submission] == [pid(tmp_path, 1), pid(tmp_path, 0)]
    kill(submission)
    assert [process.pid for process in child.members()] == [child.pid]
    assert child.exit_code() is None


def test_ending_a_child_ends_its_orphans(start: Callable[[str], Child], tmp_path: Path) -> None:
    child = start("orphan")
    until(lambda: len(child.members()) == 2, "the process in the middle has ended")
    orphan = psutil.Process(pid(tmp_path, 0))
    assert child.pid not in [parent.pid for parent in orphan.parents()]
    child.end()
    assert child.members() == []
    assert not lives(orphan)
    child.end()


def test_killing_an_ended_process_is_no_error(start: Callable[[str], Child], tmp_path: Path) -> None:
    child = start("chain")
    submission = child.submission(pid(tmp_path, 0))
    kill(submission)
    kill(submission)
    assert child.exit_code() is None
