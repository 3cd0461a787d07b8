"""Names of attempts to run a subtask (Flink: ExecutionAttemptID)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from airflow_provider_ckpt.model.errors import UnknownFormError
from airflow_provider_ckpt.model.json_form import TextForm, shown

_FORM = re.compile(r"(\d{4,})(?:-(\d{2,}))?-([0-9A-Za-z]+)", re.ASCII)


@dataclass(frozen=True)
class AttemptId(TextForm):
    """An attempt of one subtask. Attempts of a subtask are ordered by epoch and number, whatever their nonces: of two
    with the same epoch and number none is before the other, and they are not equal.

    As text, and so in every name on disk, ``<epoch>-<number>-<nonce>``: ``0001-02-509376df``. Number 0 is left out,
    ``0001-509376df``, as it always was: a name that was read is written as it was, so that it still names its folder.
    """

    epoch: int
    """Of the driver that began the attempt."""
    number: int
    """0 for a subtask's first attempt in the epoch, one more for each that follows it there."""
    nonce: str
    """Letters and digits: two processes that both take themselves for this attempt share no names (R5)."""

    @classmethod
    def first(cls, epoch: int, nonce: str) -> AttemptId:
        return cls(epoch, 0, nonce)

    @classmethod
    def vacant(cls, epoch: int) -> AttemptId:
        """In the place of an attempt while a subtask that the graph has got in the epoch has none: nobody is it, and
        its first one follows it."""
        return cls(epoch, 0, "none")

    def next(self, nonce: str) -> AttemptId:
        """The one that follows it in the same epoch."""
        return AttemptId(self.epoch, self.number + 1, nonce)

    @classmethod
    def parse(cls, text: str) -> AttemptId:
        """Raises UnknownFormError."""
        found = cls.find(text)
        if found is None:
            raise UnknownFormError(what=f"{shown(text)} is no attempt, <epoch>-<number>-<nonce>")
        return found

    @classmethod
    def find(cls, text: str) -> AttemptId | None:
        """None for what is not the name of an attempt."""
        parts = _FORM.fullmatch(text)
        found = None if parts is None else cls(int(parts[1]), int(parts[2] or 0), parts[3])
        return found if str(found) == text else None  # 0001-00-x and 00001-x are written by nobody

    def __str__(self) -> str:
        number = f"{self.number:02d}-" if self.number else ""
        return f"{self.epoch:04d}-{number}{self.nonce}"

    def __lt__(self, other: AttemptId) -> bool:
        return (self.epoch, self.number) < (other.epoch, other.number)
