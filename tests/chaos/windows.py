"""Moments at which something is half done. The files on disk show them while the driver is stopped."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

from airflow_provider_ckpt.storage.layout import subtask_log_path
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from tests.chaos.released import manifests, visible_files
from tests.chaos.world import Driver, World
from tests.support.processes import send

Window = Callable[[World], bool]


def committed_not_published(world: World) -> bool:
    """Return whether Spark has ``commits/<b>`` but the log has no entry of batch *b* (R1)."""
    last = _log(world).state.last_batch
    commits = [int(path.name) for path in _vertex(world).glob("spark/*/commits/*") if path.name.isdigit()]
    return max(commits, default=-1) > (-1 if last is None else last.batch_id)


def prepared_not_committed(world: World) -> bool:
    """Return whether a batch is staged and prepared, and Spark will run it again (R1)."""
    files = list(_vertex(world).glob("prepared/*.json"))
    commits = {path.name for path in _vertex(world).glob("spark/*/commits/*")}
    return any(f'"batch_id": {number},' in path.read_text() for path in files for number in _planned(world, commits))


def completed_not_released(world: World) -> bool:
    """Return whether the commit point is in the journal, and the sinks have not released (R9)."""
    state = world.state()
    return state.last_completed > state.last_released


def moved_not_in_a_manifest(world: World) -> bool:
    """Return whether a release is half done (R9)."""
    sink = world.variant.sinks[0]
    released = {file.path for manifest in manifests(world, sink) for file in manifest.files}
    return bool(visible_files(world, sink) - released)


def ended_not_dropped(world: World) -> bool:
    """Return whether the journal has the end of history, and the running query still reads it (R2)."""
    state = world.state()
    return bool(state.ended) and not state.dropped


def dropped_not_restarted(world: World) -> bool:
    """Return whether the drop is in the journal, and no query runs without history (R2)."""
    return bool(world.state().dropped)


def claimed_not_opened(world: World) -> bool:
    """Return whether the job has a new owner, but the logs do not (R8)."""
    opened = _log(world).state.opened
    return opened is not None and world.state().epoch > opened.epoch


def stop_in(window: Window, world: World, driver: Driver, seconds: float = 180.0) -> bool:
    """Stop the driver's Python process inside the window. Return False if this failed or the driver ended.

    The driver is stopped before the check, so that the result stays true until the kill.
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
        return False  # a file was checked while it was written, moved or deleted


def _vertex(world: World) -> Path:
    return world.root / world.job_id / "vertices" / world.variant.last_vertex / "0"


def _log(world: World) -> SubtaskLog:
    log = SubtaskLog(world.storage, subtask_log_path(world.job_id, world.variant.last_vertex, 0))
    log.load()
    return log


def _planned(world: World, commits: set[str]) -> set[str]:
    offsets = {path.name for path in _vertex(world).glob("spark/*/offsets/*") if path.name.isdigit()}
    return offsets - commits
