"""What a driver answers to a request to stop or to drain."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from airflow_provider_ckpt.model.errors import UnknownFormError
from airflow_provider_ckpt.model.json_form import TextForm, shown

IN_PROGRESS = "is in progress"
"""How the refusal of a second change ends."""


AS_IT_IS = "nothing had to be changed"
"""Whoever asks again for what was asked for before is told that it is so: a task that is tried again does."""


class RequestResult(str, Enum):
    """The first three say that a request was taken, and how it went is told later; the others are the last word."""

    ACCEPTED = "accepted"
    ALREADY_STOPPING = "already stopping"
    ALREADY_DRAINING = "already draining"
    COMPLETED = "completed"
    FAILED = "failed"
    REFUSED = "refused"

    @property
    def is_last(self) -> bool:
        return self in (self.COMPLETED, self.FAILED, self.REFUSED)


@dataclass(frozen=True)
class RequestOutcome(TextForm):
    """One answer. As text, and so in the journal, ``<result>`` or ``<result>: <detail>``, for people to read:
    ``completed: savepoint 3 is released``."""

    result: RequestResult
    detail: str = ""

    @property
    def is_last(self) -> bool:
        return self.result.is_last

    @property
    def is_behind_another(self) -> bool:
        """One change at a time: it was refused because another one is under way."""
        return self.result is RequestResult.REFUSED and self.detail.endswith(IN_PROGRESS)

    @property
    def took_place(self) -> bool:
        """The savepoint of a stop is released, a drain has finished the job."""
        return self.result is RequestResult.COMPLETED

    @classmethod
    def completed(cls, detail: str) -> RequestOutcome:
        return cls(RequestResult.COMPLETED, detail)

    @classmethod
    def failed(cls, detail: str) -> RequestOutcome:
        return cls(RequestResult.FAILED, detail)

    @classmethod
    def refused(cls, detail: str) -> RequestOutcome:
        return cls(RequestResult.REFUSED, detail)

    @classmethod
    def parse(cls, text: str) -> RequestOutcome:
        """Raises UnknownFormError."""
        result, _, detail = text.partition(": ")
        try:
            return cls(RequestResult(result), detail)
        except ValueError:
            known = ", ".join(one.value for one in RequestResult)
            raise UnknownFormError(what=f"{shown(text)} is no answer to a request, which begin with {known}") from None

    def __str__(self) -> str:
        return f"{self.result.value}: {self.detail}" if self.detail else self.result.value
