"""A read-only view of a job from outside its driver: its state in the journal, and waits for states and results."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from airflow_provider_ckpt.client.errors import JobWaitTimeoutError, NoSuchJobError
from airflow_provider_ckpt.client.job_facts import has_ended, is_journaled
from airflow_provider_ckpt.client.overview import current_overview
from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.journal import journal as journals
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.checkpoint_view import CheckpointView
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.status.job_overview import JobOverview
from airflow_provider_ckpt.storage.errors import NoRootError
from airflow_provider_ckpt.storage.layout import check_job_id
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import read_root
from airflow_provider_ckpt.storage.storage import Storage

if TYPE_CHECKING:
    from airflow_provider_ckpt.jobmaster.recovery.persisted_results import PersistedResult
    from airflow_provider_ckpt.jobmaster.retention.partition_metrics import PartitionWithMetrics


def expected_partitions(state: JobState, names: Iterable[str]) -> set[SubtaskId]:
    """Return the subtasks that ``names`` (of subtasks or vertices) select. Each must have a result partition.

    Before the job is planned, each name counts as a subtask, because no name can be checked.

    Raises InvalidInputError for a name that the job does not have, or whose subtasks have no result partition.
    """
    if state.plan is None:
        return {SubtaskId(name) for name in names}
    graph = state.graph()
    available = [subtask for vertex in graph.vertices if graph.publishes(vertex.uid) for subtask in vertex.subtasks]
    selected: set[SubtaskId] = set()
    for name in names:
        matches = {subtask for subtask in available if name in (subtask, subtask.vertex)}
        if not matches:
            raise InvalidInputError(
                "job {job_id!r} has no result partition {name!r}: only a subtask that others read has one. It has: "
                "{known}",
                job_id=state.job_id,
                name=name,
                known=", ".join(available) or "none",
            )
        selected |= matches
    return selected


def copied_state(state: JobState) -> JobState:
    """Return a copy of ``state``, because the journal updates its own state object when it reads new entries."""
    return JobState(**{field.name: _copy(getattr(state, field.name)) for field in fields(state)})


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: dict(item) if isinstance(item, dict) else item for name, item in value.items()}
    return value.copy() if isinstance(value, list | set) else value


Root = Location | str | os.PathLike[str] | Storage
"""A root's URI, a location with the options of its file system, or an open storage."""

_WITHOUT_NEW_RESULTS = (JobStatus.FINISHED, JobStatus.DELETING, JobStatus.DELETED)
"""Statuses in which all result partitions are deleted, or will be, except persisted result partitions."""

POLL_SECONDS = 0.5
"""Seconds between two polls of the journal during a wait."""


class JobView:
    """A view of one job under a checkpoint root. Its methods change nothing. :class:`JobClient` adds requests.

    The first call opens the root. All methods block, and only one thread at a time may call them.

    Every method raises the storage's errors (temporary ones are TransientError) and ForeignRootError. For data of a
    later release it raises NewerFormatError or UnknownEventError.
    """

    def __init__(
        self,
        root: Root,
        job_id: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.job_id = check_job_id(job_id)
        self._root = root
        self._opened: Storage | None = None
        self._clock, self._sleep = clock, sleep
        self._journal: journals.Journal | None = None

    def read_state(self) -> JobState:
        """Return an independent copy of the journal's current state; empty (``epoch`` 0) before the first entry.

        The first call reads the whole journal. Later calls read only new entries, with one or two requests.
        """
        if self._journal is None:
            try:
                root = read_root(self._storage())
            except NoRootError:  # the first job creates the root
                return JobState(self.job_id)
            self._journal = journals.Journal(root, self.job_id)
        journal = self._journal
        return copied_state(journal.reread() if has_ended(journal.state) else journal.refresh())

    def state(self) -> JobState:
        """Return the current state of a job. ``damage`` describes a damaged journal.

        Raises NoSuchJobError if the job was never run, and NoRootError.
        """
        state = self.read_state()
        if not is_journaled(state):
            root = read_root(self._storage())
            known = ", ".join(journals.job_ids(root)) or "none"
            raise NoSuchJobError(job_id=self.job_id, root=root.uri, known=known)
        return state

    def overview(self, state: JobState | None = None) -> JobOverview:
        """Return the job's progress, lag, releases and problems. Raises as :meth:`state`.

        The driver of a running job writes the overview every ``overview_interval`` seconds. Its age is at most 15 s, or
        it is checked against the journal. ``measured_at`` is the time of the measurements. While no driver runs, they
        are those of the last driver.

        Args:
            state: The job's state, if it has just been read. The overview then agrees with it.
        """
        return current_overview(read_root(self._storage()), self.job_id, self.state, state)

    def checkpoints(self) -> list[CheckpointView]:
        """Return the last 100 checkpoints in the journal, oldest first. Raises the errors of :meth:`state`."""
        return self.state().checkpoint_views()

    def wait(
        self,
        until: Callable[[JobState], bool] = has_ended,
        timeout: float | None = None,
        *,
        poll: float = POLL_SECONDS,
    ) -> JobState:
        """Poll the job until a condition holds, and return that state. The job need not exist at first.

        Args:
            until: Returns True when the wait is over; by default when the job has ended.
            timeout: Seconds to wait; None for no limit. Without a limit the wait may not end, because the status of a
                job with a killed driver stays RUNNING.
            poll: Seconds between two polls.

        Raises RequestFailedError (TIMED_OUT).
        """
        deadline = None if timeout is None else self._clock() + timeout
        while not until(state := self.read_state()):
            if deadline is not None and self._clock() >= deadline:
                status = state.status or "not started"
                raise JobWaitTimeoutError(job_id=self.job_id, seconds=timeout, status=status)
            self._sleep(poll)
        return state

    def get_partition_with_metrics(
        self,
        expected: Iterable[str] | None = None,
        timeout: float = 0.0,
        *,
        poll: float = POLL_SECONDS,
    ) -> tuple[PartitionWithMetrics, ...]:
        """Return the existing result partitions with their rows and bytes, like Flink's method (FLIP-383).

        Wait until each expected partition exists and its producer is at its end, for at most ``timeout`` seconds. When
        the job is FINISHED only persisted partitions exist. Each poll (every ``poll`` seconds) reads the logs of the
        subtasks and lists their partitions.

        Args:
            expected: Subtasks (``history/0``), or vertices with all of their subtasks; None to return without a wait.

        Raises the errors of :meth:`state`, InvalidInputError.
        """
        from airflow_provider_ckpt.jobmaster.retention.partition_metrics import partitions_with_metrics

        deadline = self._clock() + timeout
        while True:
            state = self.state()
            selected = expected_partitions(state, () if expected is None else expected)
            partitions = partitions_with_metrics(read_root(self._storage()), state)
            are_finished = selected <= {partition.subtask for partition in partitions if partition.is_finished}
            if are_finished or state.status in _WITHOUT_NEW_RESULTS or self._clock() >= deadline:
                return partitions
            self._sleep(poll)

    def persisted_result(self, operator: str) -> PersistedResult:
        """Return the result files of an operator with ``persist=True``. The job must be FINISHED.

        Raises the errors of :meth:`state`, ResultNotPersistedError before the job is FINISHED, NoSuchResultError, and
        PartitionFilesDamagedError for a file that is missing or has another size.
        """
        from airflow_provider_ckpt.jobmaster.recovery.persisted_results import read_persisted_result

        self.state()
        return read_persisted_result(read_root(self._storage()), self.job_id, operator)

    def _location(self) -> Location:
        return Location(self._root.uri) if isinstance(self._root, Storage) else Location.of(self._root)

    def _storage(self) -> Storage:
        if self._opened is None:
            self._opened = as_storage(self._root)
        return self._opened


def as_storage(root: Root) -> Storage:
    return root if isinstance(root, Storage) else open_storage(root)
