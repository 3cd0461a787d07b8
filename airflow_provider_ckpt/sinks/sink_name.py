"""Which job's which sink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class SinkName:
    job_id: str
    sink: str

    def to_json(self) -> dict[str, str]:
        return {"job": self.job_id, "sink": self.sink}

    @classmethod
    def from_json(cls, body: Mapping[str, str]) -> SinkName:
        return cls(body["job"], body["sink"])
