"""The catalog of an Iceberg table, whose properties may be secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_ckpt.storage.location import Location

_PLAIN = ("type", "warehouse", "py-io-impl", "py-catalog-impl", "name")
"""Properties that are no secrets and stay readable in errors."""


def catalog_of(name: str | None, properties: Mapping[str, str]) -> Any:
    """Return a ``pyiceberg.catalog.Catalog``. Without a name it has pyiceberg's default name.

    A SQL catalog stores its tables under the catalog's name.
    """
    from pyiceberg.catalog import load_catalog

    return load_catalog(name, **properties)


def catalog_secrets(properties: Mapping[str, str], storage_options: Mapping[str, Any]) -> Location:
    """Return a location that hides the catalog's and storage's secrets in a library's errors. It is never opened."""
    hidden = {name: value for name, value in properties.items() if name not in _PLAIN}
    return Location(str(properties.get("uri", "")), {**storage_options, **hidden})
