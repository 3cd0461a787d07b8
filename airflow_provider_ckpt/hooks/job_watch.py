"""Following one job's journal: read as a whole once, then only what was added."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.storage.errors import NoRootError
from airflow_provider_ckpt.storage.root import read_root

if TYPE_CHECKING:
    from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
    from airflow_provider_ckpt.journal.state import JobState


class JobWatch:
    """``state()`` costs a request or two once the job runs; None while nothing is journaled for it."""

    def __init__(self, hook: CheckpointHook, job_id: str) -> None:
        self._hook = hook
        self._job_id = job_id
        self._journal: Journal | None = None

    def state(self) -> JobState | None:
        """Raises the storage's errors, InvalidJobIdError, ForeignRootError, NewerFormatError."""
        if self._journal is None:
            try:
                root = read_root(self._hook.storage())
            except NoRootError:
                return None  # the first job makes it one
            self._journal = Journal(root, self._job_id)
        return self._journal.refresh()
