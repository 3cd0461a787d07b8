"""Deletion of garbage that a search has found, after a second search.

It makes no claim. A claim would end a driver that this host cannot see, and each claim would stay in the journal for
ever (R3). A claim is not necessary either, because a driver that comes at any moment needs nothing of what
:mod:`.garbage_search` returns. The second search, and the check of the journal before each deletion, keep out of the
way of a driver that has claimed the job and collects by itself.
"""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.jobmaster.retention.collector import SinksOf
from airflow_provider_ckpt.jobmaster.retention.garbage import Garbage, JobGarbage
from airflow_provider_ckpt.jobmaster.retention.garbage_search import find_garbage, who_runs
from airflow_provider_ckpt.journal.errors import CorruptJournalError
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.sinks.sink import BoundSink
from airflow_provider_ckpt.storage.storage import Storage

_TAKEN = "it was claimed in epoch {epoch} during the search: its new driver collects by itself"


class GarbageRemoval:
    """One removal. Call :meth:`run` once.

    Args:
        found: Garbage that the user was shown.
        sinks_of: Function that returns the reachable sinks of the job.
    """

    def __init__(self, storage: Storage, found: JobGarbage, sinks_of: SinksOf) -> None:
        self._storage, self._found, self._sinks_of = storage, found, sinks_of
        self._journal = Journal(storage, found.job_id)
        self._deleted: list[Garbage] = []

    def run(self) -> JobGarbage:
        """Delete garbage of the first search that a second search finds, too. Return the deleted pieces.

        An error during the deletion becomes the ``problem`` of the result.

        Raises the errors of :func:`find_garbage`, before anything is deleted.
        """
        again = find_garbage(self._storage, self._found.job_id, self._sinks_of)
        if again.skipped is not None:
            return again
        there = {(one.sink, one.path) for one in again.garbage}
        wanted = [one for one in self._found.garbage if (one.sink, one.path) in there]
        skipped = problem = None
        try:
            skipped = self._delete(wanted)
        except CkptError as error:
            problem = str(error)
        return replace(again, garbage=tuple(self._deleted), skipped=skipped, problem=problem)

    def _delete(self, wanted: list[Garbage]) -> str | None:
        """Delete ``wanted``. Stop if a driver runs or has claimed the job, and return that as the reason."""
        sinks = self._sinks_of(self._journal.refresh()) if wanted else {}
        for one in wanted:
            if (moved := self._moved(self._journal.refresh())) is not None:
                return moved
            self._delete_one(one, None if one.sink is None else sinks[one.sink])
        return None

    def _moved(self, state: JobState) -> str | None:
        if state.damage:
            raise CorruptJournalError(job_id=state.job_id, reason="; ".join(state.damage))
        if state.epoch != self._found.epoch:
            return _TAKEN.format(epoch=state.epoch)
        return who_runs(state)

    def _delete_one(self, one: Garbage, sink: BoundSink | None) -> None:
        if sink is not None:
            sink.delete_staged([one.path])
        elif one.is_folder:
            self._storage.delete_tree(one.path)
        else:
            self._storage.delete(one.path)
        self._deleted.append(one)
