"""A job as its journal shows it, from outside: what it says now, and what comes of it while one waits."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from airflow_provider_ckpt.client.errors import JobWaitTimeoutError, NoSuchJobError
from airflow_provider_ckpt.client.expected_partitions import expected_partitions
from airflow_provider_ckpt.client.job_facts import has_ended, is_journaled
from airflow_provider_ckpt.client.state_value import as_it_is
from airflow_provider_ckpt.journal import journal as journals
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.checkpoint_view import CheckpointView
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.storage.errors import NoRootError
from airflow_provider_ckpt.storage.layout import check_job_id
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import read_root
from airflow_provider_ckpt.storage.storage import Storage

if TYPE_CHECKING:
    from airflow_provider_ckpt.jobmaster.partition_metrics import PartitionWithMetrics
    from airflow_provider_ckpt.jobmaster.persisted_results import PersistedResult

Root = Location | str | os.PathLike[str] | Storage
"""A root's URI, with the options of its file system if it needs some, or its storage if that is open already."""

_WITHOUT_NEW_RESULTS = (JobStatus.FINISHED, JobStatus.DELETING, JobStatus.DELETED)
"""They are given back, but for those that are kept, and nobody makes others."""

POLL_SECONDS = 0.5
"""From one look at the journal to the next while something is waited for."""


class JobView:
    """What is asked of one job under a checkpoint root and changes nothing; :class:`JobClient` asks for more.

    Nothing is opened before something is asked. Blocking: an event loop calls it in a thread, one thread at a time.
    Every method raises the storage's errors (those that may go away are TransientError), ForeignRootError and, for what
    a later release has written, NewerFormatError or UnknownEventError.
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

    def look(self) -> JobState:
        """What the journal says now, as a value of its own; an empty state (``epoch`` 0) while nothing is journaled.

        The first look reads the journal as a whole, later ones read what was added: a request or two.
        """
        if self._journal is None:
            try:
                root = read_root(self._storage())
            except NoRootError:  # the first job makes it one
                return JobState(self.job_id)
            self._journal = journals.Journal(root, self.job_id)
        journal = self._journal
        return as_it_is(journal.reread() if has_ended(journal.state) else journal.refresh())

    def state(self) -> JobState:
        """As :meth:`look`, of a job that was run. Raises NoSuchJobError, which names the jobs that are there, and
        NoRootError. ``damage`` says what is wrong with a journal."""
        state = self.look()
        if not is_journaled(state):
            root = read_root(self._storage())
            known = ", ".join(journals.job_ids(root)) or "none"
            raise NoSuchJobError(job_id=self.job_id, root=root.uri, known=known)
        return state

    def checkpoints(self) -> list[CheckpointView]:
        """What became of those that the journal remembers (the last 100), oldest first. Raises as :meth:`state`."""
        return self.state().checkpoint_views()

    def wait(
        self,
        until: Callable[[JobState], bool] = has_ended,
        timeout: float | None = None,
        *,
        poll: float = POLL_SECONDS,
    ) -> JobState:
        """Look until ``until`` holds, and return that state. A job that was not run yet is waited for.

        ``timeout``: seconds, None to wait as long as it takes: a driver that was killed leaves RUNNING behind, and the
        job may be run again. Raises JobWaitTimeoutError.
        """
        deadline = None if timeout is None else self._clock() + timeout
        while not until(state := self.look()):
            if deadline is not None and self._clock() >= deadline:
                shown = state.status or "not started"
                raise JobWaitTimeoutError(job_id=self.job_id, seconds=timeout, status=shown)
            self._sleep(poll)
        return state

    def get_partition_with_metrics(
        self,
        expected: Iterable[str] | None = None,
        timeout: float = 0.0,
        *,
        poll: float = POLL_SECONDS,
    ) -> tuple[PartitionWithMetrics, ...]:
        """The result partitions that are there, with their rows and bytes: as soon as each that is expected is there,
        and its producer at its end, or else what there is after ``timeout`` seconds. Once the job is FINISHED only
        those that it keeps: the others are given back. Flink's ``getPartitionWithMetrics`` (FLIP-383).

        ``expected``: subtasks (``history/0``), or vertices with all of theirs; None: whatever there is. Reads the logs
        of the subtasks, and lists their partitions, with each look. Raises as :meth:`state`, NoSuchPartitionError.
        """
        from airflow_provider_ckpt.jobmaster.partition_metrics import partitions_with_metrics

        deadline = self._clock() + timeout
        while True:
            state = self.state()
            wanted = expected_partitions(state, () if expected is None else expected)
            found = partitions_with_metrics(read_root(self._storage()), state)
            are_there = wanted <= {one.subtask for one in found if one.is_finished}
            if are_there or state.status in _WITHOUT_NEW_RESULTS or self._clock() >= deadline:
                return found
            self._sleep(poll)

    def persisted_result(self, operator: str) -> PersistedResult:
        """The files of what an operator with ``persist=True`` gave, once the job is FINISHED; see
        :func:`~airflow_provider_ckpt.read_persisted`. Raises as :meth:`state`, ResultNotPersistedError before that,
        NoSuchResultError, and ResultDamagedError for a file that is gone or has another size."""
        from airflow_provider_ckpt.jobmaster.persisted_results import read_persisted_result

        self.state()
        return read_persisted_result(read_root(self._storage()), self.job_id, operator)

    def _location(self) -> Location:
        return Location(self._root.uri) if isinstance(self._root, Storage) else Location.of(self._root)

    def _storage(self) -> Storage:
        if self._opened is None:
            self._opened = opened(self._root)
        return self._opened


def opened(root: Root) -> Storage:
    return root if isinstance(root, Storage) else open_storage(root)
