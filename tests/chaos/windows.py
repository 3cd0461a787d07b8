"""Moments at which something is half done, told from what is on the disk while the driver stands still."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

from airflow_provider_ckpt.partitions.subtask_log import SubtaskLog
from airflow_provider_ckpt.storage.layout import subtask_log_path
from tests.chaos.released import manifests, visible_files
from tests.chaos.world import Driver, World
from tests.support.processes import send

Window = Callable[[World], bool]


def committed_not_published(world: World) -> bool:
    """R1: Spark has ``commits/<b>``, the log has no entry of batch *b*."""
    last = _log(world).state.last_batch
    commits = [int(path.name) for path in _vertex(world).glob("spark/*/commits/*") if path.name.isdigit()]
    return max(commits, default=-1) > (-1 if last is None else last.batch_id)


def prepared_not_committed(world: World) -> bool:
    """R1: staged and prepared, and Spark will run the batch again."""
    files = list(_vertex(world).glob("prepared/*.json"))
    commits = {path.name for path in _vertex(world).glob("spark/*/commits/*")}
    return any(f'"batch_id": {number},' in path.read_text() for path in files for number in _planned(world, commits))


def completed_not_released(world: World) -> bool:
    """R9: the commit point is in the journal, the sinks have not been told."""
    state = world.state()
    return state.last_completed > state.last_released


def moved_not_in_a_manifest(world: World) -> bool:
    """R9: in the middle of a release."""
    sink = world.variant.sinks[0]
    released = {file.path for manifest in manifests(world, sink) for file in manifest.files}
    return bool(visible_files(world, sink) - released)


def ended_not_dropped(world: World) -> bool:
    """R2: the journal knows that history ended, the running query still reads it."""
    state = world.state()
    return bool(state.ended) and not state.dropped


def dropped_not_restarted(world: World) -> bool:
    """R2: the drop is in the journal, no query runs without history yet."""
    return bool(world.state().dropped)


def claimed_not_opened(world: World) -> bool:
    """R8: the job has a new owner, the logs have not."""
    opened = _log(world).state.opened
    return opened is not None and world.state().epoch > opened.epoch


def stop_in(window: Window, world: World, driver: Driver, seconds: float = 180.0) -> bool:
    """Stop the driver's Python inside the window. False if it was never caught there, or the driver ended.

    It is stopped first and looked at then, so that what is seen stays true until the kill.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if driver.ended_within(0.001):
            return False
        if not _seen(window, world):
            continue
        send(driver.pid, signal.SIGSTOP)
        if _seen(window, world):
            return True
        send(driver.pid, signal.SIGCONT)
    return False


def _seen(window: Window, world: World) -> bool:
    try:
        return window(world)
    except FileNotFoundError:
        return False  # looked at while it was written, moved or deleted


def _vertex(world: World) -> Path:
    return world.root / world.job_id / "vertices" / world.variant.last_vertex / "0"


def _log(world: World) -> SubtaskLog:
    log = SubtaskLog(world.storage, subtask_log_path(world.job_id, world.variant.last_vertex, 0))
    log.load()
    return log


def _planned(world: World, commits: set[str]) -> set[str]:
    offsets = {path.name for path in _vertex(world).glob("spark/*/offsets/*") if path.name.isdigit()}
    return offsets - commits
