"""The name of a sink among all jobs: its job and its uid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_ckpt.model.json_form import read_field, reader


@dataclass(frozen=True, order=True)
class SinkName:
    job_id: str
    sink: str

    def to_json(self) -> dict[str, str]:
        return {"job": self.job_id, "sink": self.sink}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> SinkName:
        """Read a name from JSON.

        Raises DamagedFormError.
        """
        text = reader(str)
        return cls(read_field(body, "job", text), read_field(body, "sink", text))

    @classmethod
    def all_from_json(cls, names: Any) -> tuple[SinkName, ...]:
        """Read a list of names from JSON.

        Raises DamagedFormError.
        """
        return tuple(map(cls.from_json, reader(list[Mapping[str, Any]])(names)))
