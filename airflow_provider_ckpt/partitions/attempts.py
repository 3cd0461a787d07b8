"""Which attempts are over: who may delete what another attempt has left goes by this (R5).

An attempt is fenced when a later one has opened its subtask's log. A driver has opened every log before it deletes, so
that all attempts of earlier epochs are; of its own epoch only those that an ``open`` follows in their own log. The
attempt of a sibling may have the same epoch and a lower number, and be staging right now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.partitions.log_state import Numbered
from airflow_provider_ckpt.partitions.records import Open


def fenced(records: Iterable[Numbered]) -> frozenset[AttemptId]:
    """The attempts in a log that a later ``open`` follows. No ``open`` is ever deleted: they are all there."""
    opens = [record.attempt for _, record in records if isinstance(record, Open)]
    return frozenset(opens[:-1])


class _Unlistable(Collection[str]):
    """Answers ``in``, and cannot be listed."""

    def __iter__(self) -> Iterator[str]:
        raise TypeError("attempts that are not known, or are yet to come, are in it: ask with 'in'")

    def __len__(self) -> int:
        raise TypeError("attempts that are not known, or are yet to come, are in it: ask with 'in'")


class AllAttemptsBut(_Unlistable):
    """The names of all attempts of any job but those of one that is over: what they stage may be asked for."""

    def __init__(self, over: Iterable[str]) -> None:
        self._over = frozenset(over)

    def __contains__(self, name: object) -> bool:
        return name not in self._over

    def __repr__(self) -> str:
        return f"AllAttemptsBut({sorted(self._over)})"


class LivingAttempts(_Unlistable):
    """The names of attempts of any subtask that may still publish, known or not: those of ``epoch`` and later ones, but
    for the ``fenced``. What cannot be told is in it, and is left alone."""

    def __init__(self, epoch: int, fenced: Iterable[AttemptId]) -> None:
        """``epoch``: of the driver that asks; every log of the job was opened in it, or has come to its end."""
        self._epoch = epoch
        self._fenced = frozenset(fenced)

    def __contains__(self, name: object) -> bool:
        attempt = AttemptId.find(name) if isinstance(name, str) else None
        return attempt is None or (attempt.epoch >= self._epoch and attempt not in self._fenced)

    def __repr__(self) -> str:
        return f"LivingAttempts({self._epoch}, {sorted(map(str, self._fenced))})"
