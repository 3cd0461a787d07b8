"""The options of a job's first run, as its journal records them."""

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
    """A document of the format ``run-options``, without secrets.

    The format has a version of its own. All versions have the options that this class reads. Times are seconds.
    """

    document: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, document: Any) -> SubmittedOptions:
        """Return the options of a document. Raises UnknownFormError if a value has the wrong type."""
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
        """Return an option in seconds, or ``otherwise`` (its default) if the document lacks it."""
        return float(self.document.get(name, otherwise))
