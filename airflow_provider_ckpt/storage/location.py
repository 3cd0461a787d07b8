"""A place in a storage, with options that may be secret."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_ckpt.storage.redaction import (
    as_printed,
    credentials_in,
    redact,
    redact_options,
    redact_uri,
    secrets_in,
)

_USERS = ("key", "username", "user")
"""Names of the options that contain a user name for a storage."""


@dataclass(frozen=True, repr=False)
class Location:
    """A URI or local path, and the options of its fsspec file system (endpoint, credentials).

    ``repr`` and ``str`` show no secret of the options or the URI (user name and password, ``?token=``, a signature).
    """

    uri: str
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, place: Location | str | os.PathLike[str]) -> Location:
        """Return a location unchanged. For a URI or path, return a location without options."""
        return place if isinstance(place, Location) else cls(os.fspath(place))

    @property
    def has_own_endpoint(self) -> bool:
        """True if the options name an endpoint, so that requests go to another store than the cloud's own."""
        client = self.options.get("client_kwargs")
        client_endpoint = client.get("endpoint_url") if isinstance(client, Mapping) else None
        return bool(self.options.get("endpoint_url") or client_endpoint)

    def for_display(self) -> str:
        """Return the URI without secrets, for logs, errors and the journal."""
        return redact_uri(self.uri)

    def shown_options(self) -> dict[str, Any]:
        """Return the options without secrets. A secret value is replaced, but its name remains."""
        return redact_options(self.options)

    def secrets(self) -> tuple[str, ...]:
        """Return all secrets, in the forms in which programs print them, the longest first."""
        users = [value for name in _USERS if isinstance(value := self.options.get(name), str)]
        return as_printed([*secrets_in(self.options), *credentials_in(self.uri)], users)

    def redact(self, text: str) -> str:
        """Return a text about this place without its secrets."""
        return redact(text, self.secrets())

    def __str__(self) -> str:
        return self.for_display()

    def __repr__(self) -> str:
        options = f", {self.shown_options()!r}" if self.options else ""
        return f"Location({self.for_display()!r}{options})"
