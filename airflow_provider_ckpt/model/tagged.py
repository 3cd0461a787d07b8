"""Values of several types as JSON objects that name their type: ``{"type": "Open", "attempt": …}``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

from airflow_provider_ckpt.model.errors import DamagedFormError, UnknownFormError
from airflow_provider_ckpt.model.json_form import Json, fields_to_json, reader, shown

T = TypeVar("T")


class Tagged(Generic[T]):
    """The types that a JSON object with a ``type`` can have. ``kinds`` are dataclasses with unique names."""

    def __init__(self, kinds: Iterable[type[T]]) -> None:
        self._kinds = {kind.__name__: kind for kind in kinds}

    def knows(self, kind: object) -> bool:
        return isinstance(kind, str) and kind in self._kinds

    def to_json(self, value: T) -> dict[str, Any]:
        return {"type": type(value).__name__, **fields_to_json(value)}

    def from_json(self, data: Json) -> T:
        """Return the value of the type that ``data`` names. Raises UnknownFormError for any other object."""
        if not isinstance(data, Mapping):
            raise DamagedFormError(what=f"{shown(data)}, a {type(data).__name__}")
        kind = data.get("type")
        if not isinstance(kind, str):
            raise DamagedFormError(what=f"of type {shown(kind)}")
        if not self.knows(kind):
            raise UnknownFormError(what=f"of type {shown(kind)}")
        fields = dict(data)
        del fields["type"]
        value: T = reader(self._kinds[str(kind)])(fields)
        return value
