"""Answers of a driver to requests."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from airflow_provider_ckpt.model.errors import UnknownFormError
from airflow_provider_ckpt.model.json_form import TextForm, shown

IN_PROGRESS = "is in progress"
"""The last words of the answer that refuses a request because a change is in progress."""


AS_IT_IS = "nothing had to be changed"
"""The detail of the outcome if a request changes nothing, for example because a retried task repeats the request."""


class RequestResult(str, Enum):
    """The result in an answer. ACCEPTED and ALREADY_… are first answers: a second answer with the outcome follows."""

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
    """An answer to a request. Its text is ``<result>`` or ``<result>: <detail>``, as ``completed: savepoint 3 …``."""

    result: RequestResult
    detail: str = ""

    @property
    def is_last(self) -> bool:
        return self.result.is_last

    @property
    def is_blocked_by_change(self) -> bool:
        """True if the request was refused because another change is in progress."""
        return self.result is RequestResult.REFUSED and self.detail.endswith(IN_PROGRESS)

    @property
    def is_carried_out(self) -> bool:
        """True if the request was carried out, for example if the savepoint of a stop is released."""
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
        """Return the answer with this text. Raises UnknownFormError if ``text`` does not begin with a result."""
        result, _, detail = text.partition(": ")
        try:
            return cls(RequestResult(result), detail)
        except ValueError:
            results = ", ".join(answer.value for answer in RequestResult)
            raise UnknownFormError(
                what=f"{shown(text)} is no answer to a request, which begin with {results}"
            ) from None

    def __str__(self) -> str:
        return f"{self.result.value}: {self.detail}" if self.detail else self.result.value
