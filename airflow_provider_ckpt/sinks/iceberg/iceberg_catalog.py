"""The catalog of an Iceberg table, whose properties may be secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_ckpt.storage.location import Location

_PLAIN = ("type", "warehouse", "py-io-impl", "py-catalog-impl", "name")
"""What is no secret, and stays readable in an error."""


def catalog_of(name: str | None, properties: Mapping[str, str]) -> Any:
    """A ``pyiceberg.catalog.Catalog``; without a name pyiceberg's default one. A SQL catalog knows its tables by it."""
    from pyiceberg.catalog import load_catalog

    return load_catalog(name, **properties)


def catalog_secrets(properties: Mapping[str, str], storage_options: Mapping[str, Any]) -> Location:
    """Hides what they hold in whatever a library says of them. Never opened."""
    hidden = {name: value for name, value in properties.items() if name not in _PLAIN}
    return Location(str(properties.get("uri", "")), {**storage_options, **hidden})
