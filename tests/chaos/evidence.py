"""Invariants of a job's journal and logs that hold after any kill."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.source_times import MAX_WATERMARK
from airflow_provider_ckpt.storage.layout import subtask_log_path
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.records import Batch, EndOfPartition
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog


class LateFilesSeen(Protocol):
    """A job under its root. Other suites have worlds of their own."""

    @property
    def root(self) -> Path: ...
    @property
    def job_id(self) -> str: ...
    @property
    def storage(self) -> Storage: ...
    def state(self) -> JobState: ...


class Evidence:
    """Evidence that a test gathers after every kill (:meth:`gather`). It keeps entries that are truncated later."""

    def __init__(self, world: LateFilesSeen) -> None:
        self._world = world
        self._batches: dict[str, dict[int, Batch]] = {}
        self._closed: dict[str, int] = {}
        self._frozen: dict[str, str] = {}

    def gather(self) -> None:
        state = self._world.state()
        if state.plan is None:
            return
        for vertex in state.plan.graph.vertices:
            as_a_whole = state.created is not None and state.created.mode == "batch" and not vertex.splits
            self._gather_log(vertex.uid, as_a_whole=as_a_whole)
        self._gather_frozen()

    def rewound(self) -> None:
        """Forget the batches: the next driver returns to a checkpoint, voids later batches and runs them again (R4)."""
        self._batches.clear()
        self._closed.clear()

    def _gather_log(self, vertex: str, *, as_a_whole: bool) -> None:
        """Gather one log. ``as_a_whole``: batches count only after the end of data (R23)."""
        log = SubtaskLog(self._world.storage, subtask_log_path(self._world.job_id, vertex, 0))
        log.load()
        if as_a_whole and not log.has_ended:
            return
        gathered = self._batches.setdefault(vertex, {})
        last = -1
        for number, record in log.records():
            if isinstance(record, Batch):
                assert gathered.get(record.batch_id, record) == record, f"{vertex}: batch {record.batch_id} changed"
                assert record.batch_id > last, f"{vertex}: batch {record.batch_id} after {last}"
                assert vertex not in self._closed or number < self._closed[vertex], f"{vertex} ran after its end"
                gathered[record.batch_id], last = record, record.batch_id
            elif isinstance(record, EndOfPartition):
                assert self._closed.setdefault(vertex, number) == number, f"{vertex} was closed twice"
                assert number == log.position - 1, f"{vertex}: entries after the end of its partition"

    def _gather_frozen(self) -> None:
        for path in (self._world.root / self._world.job_id / "frozen").glob("*.json"):
            text = path.read_text()
            assert self._frozen.setdefault(path.name, text) == text, f"the frozen list {path.name} changed"

    def check(self) -> None:
        """Check that epochs and checkpoint ids rise, and that releases follow completions.

        Finished sources must not be read again.
        """
        events = journal_events(self._world)
        _check_rising(events, "EpochClaimed", "epoch")
        _check_rising(events, "CheckpointTriggered", "checkpoint")
        _check_rising(events, "CheckpointCompleted", "checkpoint")
        _check_rising(events, "CheckpointReleased", "checkpoint")
        completed, compacted = set[int](), 0
        for event in events:
            if event["type"] == "StateSnapshot":  # replaces the entries before it
                compacted = event["state"]["last_completed"]
            if event["type"] == "CheckpointCompleted":
                completed.add(event["checkpoint"])
            if event["type"] == "CheckpointReleased":
                number = event["checkpoint"]
                assert number in completed or number <= compacted, f"{number} was released before it completed"
        frozen = [event["uid"] for event in events if event["type"] == "SourceFrozen"]
        assert len(frozen) == len(set(frozen)), f"frozen more than once: {frozen}"
        self._check_ended(events)

    def _check_ended(self, events: Iterable[dict[str, Any]]) -> None:
        """Check that no batch reads a source after the batch that ended it. A dropped source is not named (R2, R11)."""
        for event in events:
            if event["type"] not in ("SourceEnded", "SourceDropped"):
                continue
            batches = self._batches.get(event["vertex"], {})
            uid, end = event["uid"], event["batch_id"]
            after = [batch for number, batch in sorted(batches.items()) if number > end]
            if event["type"] == "SourceDropped":
                # R12's batch at the maximal watermark repeats the offsets of the one before it
                named = [batch.batch_id for batch in after if uid in batch.offsets and batch.watermark != MAX_WATERMARK]
                assert not named, f"{uid} was dropped at batch {end}, but batches {named} name it"
            elif end in batches:
                until = batches[end].offsets.get(uid)
                moved = [batch.batch_id for batch in after if batch.offsets.get(uid, until) != until]
                assert not moved, f"{uid} ended with batch {end}, but batches {moved} read of it"


def journal_events(world: LateFilesSeen) -> list[dict[str, Any]]:
    """Return every event in order, read from the files."""
    folder = world.root / world.job_id / "journal"
    entries = sorted(path for path in folder.glob("*.json") if path.stem.isdigit())
    return [event for path in entries for event in json.loads(path.read_text())["body"]["events"]]


def _check_rising(events: Iterable[dict[str, Any]], kind: str, field: str) -> None:
    numbers = [event[field] for event in events if event["type"] == kind]
    assert numbers == sorted(set(numbers)), f"{kind}.{field} does not rise: {numbers}"
