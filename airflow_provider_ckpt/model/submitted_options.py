"""The options of a job's first run, as its journal keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_ckpt.model.json_form import read_field, reader

_READ = {
    "params": Mapping[str, str],
    "checkpoint_interval": float,
    "min_pause": float,
    "checkpoint_timeout": float,
}


@dataclass(frozen=True)
class SubmittedOptions:
    """``document``: of the format ``run-options``, which has a version of its own, without secrets. What is read of
    it here is the same in all versions; times are seconds."""

    document: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, document: Any) -> SubmittedOptions:
        """Raises UnknownFormError."""
        options = cls(reader(Mapping[str, Any])(document))
        for name, kind in _READ.items():
            if name in options.document:
                read_field(options.document, name, reader(kind))
        return options

    @property
    def params(self) -> Mapping[str, str]:
        params: Mapping[str, str] = self.document.get("params", {})
        return params

    def seconds(self, name: str, otherwise: float) -> float:
        """``otherwise``: of a document that does not say; what is the default then is the option's to say."""
        return float(self.document.get(name, otherwise))
