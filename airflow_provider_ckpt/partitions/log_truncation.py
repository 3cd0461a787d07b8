"""The head of a subtask's log, for who may move it and does not write the log: the JobMaster (R3, R7)."""

from __future__ import annotations

from collections.abc import Callable

from airflow_provider_ckpt.partitions.log_state import kept_below
from airflow_provider_ckpt.partitions.subtask_entries import numbered, subtask_entries
from airflow_provider_ckpt.storage.log_files import HEAD_VERSION
from airflow_provider_ckpt.storage.storage import Storage


class LogTruncation:
    """``path`` is the folder of the log under the storage's root; its writer may be anywhere, and appends meanwhile.
    ``check_fenced``: the journal's. Whoever has lost the job truncates nothing: the next driver may go back to an entry
    that this one takes for forgotten."""

    def __init__(self, storage: Storage, path: str, check_fenced: Callable[[], None]) -> None:
        self._storage, self._path, self._check_fenced = storage, path, check_fenced

    def truncate(self, head: int, unreleased_from: int | None) -> frozenset[int]:
        """Delete the entries below ``head``; Open records stay, and until the next truncation what the others add up
        to, and what no sink has released yet (:func:`.kept_below`). Each time the log is read for it from its head on,
        two requests a pack and one for each other entry: that is what says which are to stay. Returns their numbers.

        Raises FencedError, NoSuchHeadError if ``head`` is beyond the log, and the errors of the storage.
        """
        entries = subtask_entries(self._storage, self._path)
        records = numbered(entries.load())
        self._check_fenced()
        kept = kept_below(records, head, unreleased_from)
        is_folded = kept == kept_below(records, head, None)  # releases before keep that in memory, and nothing else
        return entries.truncate(head, besides=kept, version=1 if is_folded else HEAD_VERSION)
