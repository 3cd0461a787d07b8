"""A sink that writes rows to an Iceberg table, with one commit for each checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from airflow_provider_ckpt.sinks.errors import InvalidSinkError
from airflow_provider_ckpt.sinks.iceberg.iceberg_table import IcebergLakeTable
from airflow_provider_ckpt.sinks.lake.bound_lake_sink import BoundLakeSink
from airflow_provider_ckpt.sinks.lake.columns import check_table_input
from airflow_provider_ckpt.sinks.lake.lake_settings import LakeMode, LakeSettings, refuse_missing
from airflow_provider_ckpt.sinks.sink import Sink, SinkContext, SinkInput
from airflow_provider_ckpt.storage.location import Location


@dataclass(frozen=True)
class IcebergSink(Sink):
    """A sink that writes to an Iceberg table.

    Spark writes Parquet files into the table's folder, and each release is one commit that names them. Spark needs no
    Iceberg jar. The package ``pyiceberg`` is needed wherever the job runs or is released. See docs/sinks-lakes.md.

    Args:
        table: ``namespace.table``. An absent table is created with the columns of the input and without partitions. The
            namespace must exist.
        catalog: pyiceberg's properties of the catalog (``type``, ``uri`` …). They may be secrets.
        catalog_name: name of a catalog in pyiceberg's own configuration file, which every machine needs. Give
            ``catalog``, ``catalog_name`` or both, because a SQL catalog stores tables under the catalog's name.
        mode: see :class:`~airflow_provider_ckpt.DeltaSink`.
        key: columns of the key, for ``upsert``.
        options: options of Spark's Parquet writer.
        storage_options: fsspec options of the table's folder; None means those of the job's root.
    """

    table: str
    catalog: Mapping[str, str] | None = field(default=None, repr=False)
    catalog_name: str | None = None
    mode: LakeMode = "append"
    key: Sequence[str] = ()
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)

    changeable: ClassVar[frozenset[str]] = frozenset({"mode"})
    """Settings that may change when a job resumes. A mode has an effect only until the first release."""

    @property
    def settings(self) -> LakeSettings:
        return LakeSettings(self.mode, tuple(self.key), None, self.options)

    def validate(self) -> None:
        if not isinstance(self.table, str) or len([part for part in self.table.split(".") if part.strip()]) < 2:
            raise self._invalid("table", self.table, "is no name of a table; give namespace.table")
        if not self.catalog and not self.catalog_name:
            raise self._invalid("catalog", None, "is missing; give its properties, or catalog_name")
        if self.catalog is not None and not isinstance(self.catalog, Mapping):
            raise self._invalid("catalog", type(self.catalog).__name__, "is no mapping; give the catalog's properties")
        if self.storage_options is not None and not isinstance(self.storage_options, Mapping):
            raise self._invalid("storage_options", "…", "is no dict of options by name")
        LakeSettings(self.mode, self.key, None, self.options).validate("IcebergSink")
        for name in self.key:
            if "." in name:
                raise self._invalid("key", name, "has a dot, and rows are not found by such a column; rename it")

    def _invalid(self, setting: str, value: object, reason: str) -> InvalidSinkError:
        return InvalidSinkError(sink="IcebergSink", setting=setting, value=value, reason=reason)

    def definition(self) -> dict[str, Any]:
        """Return the definition, without the catalog's properties, which may be secrets.

        Handles record the table's id, which shows whether changed catalog properties lead to another table.
        """
        definition = {**super().definition(), "table": self.table, "mode": self.mode}
        if self.catalog_name:
            definition["catalog_name"] = self.catalog_name
        return {**definition, "key": list(self.key)} if self.key else definition

    def folder_conflicts(self, other: Sink) -> list[str]:
        return []  # two tables have separate folders

    def check_input(self, given: SinkInput) -> None:
        check_table_input(given, "IcebergSink", self.mode, self.key, ())

    def bind(self, context: SinkContext) -> BoundLakeSink:
        self.validate()
        return BoundLakeSink(self.bound_table(context), self.settings, context)

    def bound_table(self, context: SinkContext) -> IcebergLakeTable:
        refuse_missing("IcebergSink", "pyiceberg", "iceberg")
        options = context.storage_options if self.storage_options is None else self.storage_options
        name, properties = self.catalog_name, dict(self.catalog or {})
        secrets = catalog_secrets(properties, options)
        return IcebergLakeTable(
            self.table,
            lambda: catalog_of(name, properties),
            secrets,
            options,
            context,
            upserts=self.mode == "upsert",
        )


_PLAIN = ("type", "warehouse", "py-io-impl", "py-catalog-impl", "name")
"""Properties of a catalog that are no secrets and stay readable in errors."""


def catalog_of(name: str | None, properties: Mapping[str, str]) -> Any:
    """Return a ``pyiceberg.catalog.Catalog``. If ``name`` is None, pyiceberg uses its default name."""
    from pyiceberg.catalog import load_catalog

    return load_catalog(name, **properties)


def catalog_secrets(properties: Mapping[str, str], storage_options: Mapping[str, Any]) -> Location:
    """Return a location that serves only to hide the secrets of catalog and storage in pyiceberg's errors."""
    secret = {name: value for name, value in properties.items() if name not in _PLAIN}
    return Location(str(properties.get("uri", "")), {**storage_options, **secret})
