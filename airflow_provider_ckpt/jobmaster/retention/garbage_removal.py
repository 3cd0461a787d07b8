"""Deletion of garbage that a search has found, after a second search.

The deletion does not claim the job. A claim would end a driver that this host cannot see, and would stay in the journal
for ever (R3). No claim is necessary, because a new driver needs no garbage that :mod:`.garbage_search` returns. The
second search, and a check of the journal before each deletion, avoid a conflict with a driver that has claimed the job.
"""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.jobmaster.retention.collector import SinksOf
from airflow_provider_ckpt.jobmaster.retention.garbage import Garbage, JobGarbage
from airflow_provider_ckpt.jobmaster.retention.garbage_search import find_garbage, why_running
from airflow_provider_ckpt.journal.errors import CorruptJournalError
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.sinks.sink import BoundSink
from airflow_provider_ckpt.storage.storage import Storage

_TAKEN = "it was claimed in epoch {epoch} during the search: its new driver collects by itself"


class GarbageRemoval:
    """The removal of the garbage that the user was shown. Call :meth:`run` one time."""

    def __init__(self, storage: Storage, shown: JobGarbage, sinks_of: SinksOf) -> None:
        self._storage, self._shown, self._sinks_of = storage, shown, sinks_of
        self._journal = Journal(storage, shown.job_id)
        self._deleted: list[Garbage] = []

    def run(self) -> JobGarbage:
        """Delete garbage of the first search that a second search finds, too. Return the deleted pieces as JobGarbage.

        An error during the deletion becomes the ``problem`` of the result.

        Raises the errors of :func:`find_garbage`, before anything is deleted.
        """
        current = find_garbage(self._storage, self._shown.job_id, self._sinks_of)
        if current.skipped is not None:
            return current
        current_keys = {(piece.sink, piece.path) for piece in current.garbage}
        pieces = [piece for piece in self._shown.garbage if (piece.sink, piece.path) in current_keys]
        skipped = problem = None
        try:
            skipped = self._delete(pieces)
        except CkptError as error:
            problem = str(error)
        return replace(current, garbage=tuple(self._deleted), skipped=skipped, problem=problem)

    def _delete(self, pieces: list[Garbage]) -> str | None:
        """Delete ``pieces``. Stop if a driver runs or has claimed the job. Return the reason of a stop, else None."""
        sinks = self._sinks_of(self._journal.refresh()) if pieces else {}
        for piece in pieces:
            if (reason := self._stop_reason(self._journal.refresh())) is not None:
                return reason
            self._delete_piece(piece, None if piece.sink is None else sinks[piece.sink])
        return None

    def _stop_reason(self, state: JobState) -> str | None:
        if state.damage:
            raise CorruptJournalError(job_id=state.job_id, reason="; ".join(state.damage))
        if state.epoch != self._shown.epoch:
            return _TAKEN.format(epoch=state.epoch)
        return why_running(state)

    def _delete_piece(self, piece: Garbage, sink: BoundSink | None) -> None:
        if sink is not None:
            sink.delete_staged([piece.path])
        elif piece.is_folder:
            self._storage.delete_tree(piece.path)
        else:
            self._storage.delete(piece.path)
        self._deleted.append(piece)
