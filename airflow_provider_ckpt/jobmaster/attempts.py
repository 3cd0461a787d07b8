"""The attempts of subtasks: how they are named, and where they go on."""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.partitions.subtask_log import SubtaskLog


def new_nonce() -> str:
    """Of an attempt (R5)."""
    return secrets.token_hex(4)


def first_attempts(epoch: int, subtasks: Iterable[SubtaskId]) -> dict[SubtaskId, AttemptId]:
    """Those of an epoch: each has a name of its own, by which what one subtask has staged is told from what another
    one has."""
    names, nonces = list(subtasks), set[str]()
    while len(nonces) < len(names):
        nonces.add(new_nonce())
    return {name: AttemptId.first(epoch, nonce) for name, nonce in zip(names, nonces, strict=True)}


def continues_at(log: SubtaskLog, *, batch: bool, by_split: bool) -> int | None:
    """Where the next attempt of a subtask goes on; None: behind all that is published. In BATCH one without its end of
    data is void as a whole (R23), but for splits: each counts by itself."""
    return 0 if batch and not by_split and log.state.end_of_data is None else None
