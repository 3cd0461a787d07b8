"""Ids of subtasks, of their attempts (Flink: ExecutionAttemptID), and of the tasks that send and receive messages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from airflow_provider_ckpt.model.errors import DamagedFormError, UnknownFormError
from airflow_provider_ckpt.model.json_form import TextForm, shown

_DIGITS = 9


class SubtaskId(str):
    """The name of a subtask, a parallel instance of a vertex: ``<vertex>/<number>``, with numbers from 0."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> SubtaskId:
        """Return the subtask with this name. Raises DamagedFormError if ``text`` is not ``<vertex>/<number>``."""
        vertex, _, number = text.rpartition("/")
        if not vertex or not number.isdecimal() or len(number) > _DIGITS:
            raise DamagedFormError(what=f"{text[:80]!r} is no subtask, <vertex>/<number>")
        return cls(text)

    @classmethod
    def of(cls, vertex: str, index: int) -> SubtaskId:
        return cls(f"{vertex}/{index:d}")

    @property
    def vertex(self) -> str:
        return self.rpartition("/")[0]

    @property
    def number(self) -> int:
        return int(self.rpartition("/")[2])


_FORM = re.compile(r"(\d{4,})(?:-(\d{2,}))?-([0-9A-Za-z]+)", re.ASCII)


@dataclass(frozen=True)
class AttemptId(TextForm):
    """An attempt of one subtask.

    Attempts of a subtask are ordered by epoch and number, not by nonce. Two attempts that differ only in the nonce are
    unordered and not equal.

    As text, and in every name on disk, an attempt is ``<epoch>-<number>-<nonce>``: ``0001-02-509376df``. Number 0 is
    left out, as in ``0001-509376df``.
    """

    epoch: int
    """Epoch of the driver that began the attempt; with workers, the deployment."""
    number: int
    """Number of the subtask's attempt in its epoch, from 0. Each later attempt has the next number."""
    nonce: str
    """Random letters and digits. Two processes that begin the same attempt therefore use different names (R5)."""

    @classmethod
    def first(cls, epoch: int, nonce: str) -> AttemptId:
        return cls(epoch, 0, nonce)

    @classmethod
    def vacant(cls, epoch: int) -> AttemptId:
        """Return the placeholder of an added subtask before its first attempt, which :meth:`next` then returns."""
        return cls(epoch, 0, "none")

    def next(self, nonce: str) -> AttemptId:
        """Return the next attempt in the same epoch."""
        return AttemptId(self.epoch, self.number + 1, nonce)

    @classmethod
    def parse(cls, text: str) -> AttemptId:
        """Return the attempt with this name. Raises UnknownFormError if ``text`` is not the name of an attempt."""
        attempt = cls.find(text)
        if attempt is None:
            raise UnknownFormError(what=f"{shown(text)} is no attempt, <epoch>-<number>-<nonce>")
        return attempt

    @classmethod
    def find(cls, text: str) -> AttemptId | None:
        """Return the attempt with this name, or None if it is not the name of an attempt."""
        parts = _FORM.fullmatch(text)
        attempt = None if parts is None else cls(int(parts[1]), int(parts[2] or 0), parts[3])
        return attempt if str(attempt) == text else None  # no process writes 0001-00-x or 00001-x

    def __str__(self) -> str:
        number = f"{self.number:02d}-" if self.number else ""
        return f"{self.epoch:04d}-{number}{self.nonce}"

    def __lt__(self, other: AttemptId) -> bool:
        return (self.epoch, self.number) < (other.epoch, other.number)


class TaskId(NamedTuple):
    """One attempt of one subtask in one epoch. A task ignores a message for another task (R22).

    Commands and reports begin with these fields: ``SubtaskDone(*task_id)``.
    """

    epoch: int
    subtask: SubtaskId
    attempt: AttemptId
