"""Names of attempts, and the log position from which a new attempt continues."""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog


def new_nonce() -> str:
    """Return a random suffix that makes an attempt's name unique (R5)."""
    return secrets.token_hex(4)


def first_attempts(epoch: int, subtasks: Iterable[SubtaskId]) -> dict[SubtaskId, AttemptId]:
    """Return subtask → its first attempt in ``epoch``.

    Each attempt has its own nonce, because sinks identify the staged output of a subtask by the attempt's name alone.
    """
    names, nonces = list(subtasks), set[str]()
    while len(nonces) < len(names):
        nonces.add(new_nonce())
    return {name: AttemptId.first(epoch, nonce) for name, nonce in zip(names, nonces, strict=True)}


def continues_at(log: SubtaskLog, *, batch: bool, by_split: bool) -> int | None:
    """Return the log position from which the next attempt of a subtask continues; None to continue after all entries.

    In batch mode an attempt without its end of data is void as a whole (R23). The exception is a source with splits,
    where each split counts separately.
    """
    return 0 if batch and not by_split and log.state.end_of_data is None else None
