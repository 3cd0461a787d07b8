"""Attempts that are over, so that other attempts may delete their files (R5).

An attempt is fenced when a later attempt has opened its subtask's log. A driver opens every log before it deletes
files. So all attempts of earlier epochs are fenced. An attempt of the driver's own epoch is fenced only if a later
``open`` follows in the same log. The attempt of another subtask may have the same epoch and a lower number, and may be
staging now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.subtasklog.log_state import Numbered
from airflow_provider_ckpt.subtasklog.records import Open


def fenced(records: Iterable[Numbered]) -> frozenset[AttemptId]:
    """Return the fenced attempts of a log: all that opened it, except the last. ``open`` records are never deleted."""
    opens = [record.attempt for _, record in records if isinstance(record, Open)]
    return frozenset(opens[:-1])


class _Unlistable(Collection[str]):
    """A set of attempt names that supports only ``in``, because it contains unknown and future attempts."""

    def __iter__(self) -> Iterator[str]:
        raise TypeError("it contains unknown and future attempts: use only 'in'")

    def __len__(self) -> int:
        raise TypeError("it contains unknown and future attempts: use only 'in'")


class AttemptsExcept(_Unlistable):
    """The names of all attempts except ``ended``. Only staged output of attempts in ``ended`` may be deleted."""

    def __init__(self, ended: Iterable[str]) -> None:
        self._over = frozenset(ended)

    def __contains__(self, name: object) -> bool:
        return name not in self._over

    def __repr__(self) -> str:
        return f"AttemptsExcept({sorted(self._over)})"


class LivingAttempts(_Unlistable):
    """The names of all attempts that may still publish: attempts of ``epoch`` and later, except ``fenced`` attempts.

    Unknown names are included, so that their files are not deleted.

    Args:
        epoch: The epoch of the calling driver. The driver has opened every log of the job that has not ended.
        fenced: Fenced attempts of this epoch or later.
    """

    def __init__(self, epoch: int, fenced: Iterable[AttemptId]) -> None:
        self._epoch = epoch
        self._fenced = frozenset(fenced)

    def __contains__(self, name: object) -> bool:
        attempt = AttemptId.find(name) if isinstance(name, str) else None
        return attempt is None or (attempt.epoch >= self._epoch and attempt not in self._fenced)

    def __repr__(self) -> str:
        return f"LivingAttempts({self._epoch}, {sorted(map(str, self._fenced))})"
