"""Deletes what was found that nothing needs any more, after looking again.

No claim is made for it: a driver that is there, perhaps where it cannot be seen, would end of one, and each would stay
in the journal for ever (R3). It needs none, either: what :mod:`.garbage_search` gives is needed by nobody who may come,
at whatever moment. Looking again, and at the journal before each deletion, is to be in nobody's way: who has claimed
the job collects by itself.
"""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.jobmaster.garbage import Garbage, JobGarbage
from airflow_provider_ckpt.jobmaster.garbage_search import SinksOf, find_garbage, who_runs
from airflow_provider_ckpt.journal.errors import CorruptJournalError
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.sinks.sink import BoundSink
from airflow_provider_ckpt.storage.storage import Storage

_TAKEN = "it was claimed in epoch {epoch} while it was looked at: who has claimed it collects by itself"


class GarbageRemoval:
    """Use once: :meth:`run`. ``found``: what was said to be deleted."""

    def __init__(self, storage: Storage, found: JobGarbage, sinks_of: SinksOf) -> None:
        self._storage, self._found, self._sinks_of = storage, found, sinks_of
        self._journal = Journal(storage, found.job_id)
        self._deleted: list[Garbage] = []

    def run(self) -> JobGarbage:
        """What was deleted: of what was found that which is still there, and still needed by nobody. Raises what
        :func:`find_garbage` raises, with nothing deleted; what a deletion fails with is the ``problem``."""
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
        """Returns why it was not all deleted, if somebody has come."""
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
