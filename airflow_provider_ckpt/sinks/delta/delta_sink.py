"""Rows in a Delta table, one commit for each checkpoint."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from airflow_provider_ckpt.sinks.delta.delta_options import delta_options
from airflow_provider_ckpt.sinks.delta.delta_table import DeltaLakeTable
from airflow_provider_ckpt.sinks.errors import InvalidSinkError
from airflow_provider_ckpt.sinks.given import names_problem, options_problem
from airflow_provider_ckpt.sinks.lake.bound_lake_sink import BoundLakeSink
from airflow_provider_ckpt.sinks.lake.columns import PARTITION_TYPES, check_table_input
from airflow_provider_ckpt.sinks.lake.packages import refuse_missing
from airflow_provider_ckpt.sinks.lake.settings import LakeMode, LakeSettings
from airflow_provider_ckpt.sinks.lake.table import LakeTable
from airflow_provider_ckpt.sinks.sink import Sink, SinkContext, SinkInput
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import canonical_uri, is_local, open_storage
from airflow_provider_ckpt.storage.storage import Storage

_READ_AS_ANOTHER = re.compile(r"\\|%[0-9A-Fa-f]{2}")
"""Of a path of this machine: a table is made in the one, and looked for in the other."""


@dataclass(frozen=True)
class DeltaSink(Sink):
    """Writes to a Delta table: Spark writes Parquet files beside it, and each release is one commit that names them. No
    Delta jar is needed in Spark; the package ``deltalake`` is.

    ``uri``: the table's folder, as a path or a URI (``s3://…``). The table is made, with the columns of the input, if
    there is none. ``mode``: ``append``; ``overwrite``: the job's first release replaces all rows, later ones add;
    ``upsert``: rows replace those that have the same ``key``. ``partition_by``: as the table is partitioned.
    ``options``: of Spark's Parquet writer. ``storage_options``: fsspec options of the folder; None = those of the job's
    root. ``delta_options``: what the package ``deltalake`` is to reach the same folder with; None = made of
    ``storage_options`` on S3, and nothing elsewhere.

    See docs/sinks-lakes.md.
    """

    uri: str
    mode: LakeMode = "append"
    key: Sequence[str] = ()
    partition_by: Sequence[str] = ()
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
    delta_options: Mapping[str, str] | None = field(default=None, repr=False)

    changeable: ClassVar[frozenset[str]] = frozenset({"mode"})
    """A mode is at work until the first release only; one with keys has keys, which may not change."""

    @property
    def settings(self) -> LakeSettings:
        partition_by = None if self.mode == "upsert" else tuple(self.partition_by)
        return LakeSettings(self.mode, tuple(self.key), partition_by, self.options)

    def validate(self) -> None:
        if not isinstance(self.uri, str) or not self.uri.strip():
            raise self._invalid("uri", self.uri, "is not a path; give the folder of the table")
        if problem := names_problem(self.partition_by):  # None has a meaning in the settings
            raise self._invalid("partition_by", self.partition_by, problem)
        if self.delta_options is not None and (problem := options_problem(self.delta_options)):
            raise self._invalid("delta_options", "…", problem)
        if self.storage_options is not None and not isinstance(self.storage_options, Mapping):
            raise self._invalid("storage_options", "…", "is no dict of options by name")
        LakeSettings(self.mode, self.key, self.partition_by, self.options).validate("DeltaSink")
        if canonical_uri(self.uri).startswith("memory:"):
            raise self._invalid("uri", self.uri, "is in the memory of one process; give a folder or an object store")
        if is_local(self.uri) and _READ_AS_ANOTHER.search(canonical_uri(self.uri)):
            reason = (
                "has what the package deltalake reads as another path (\\ as /, %20 as a blank); choose one without"
            )
            raise self._invalid("uri", self.uri, reason)
        delta_options(self.uri, self.storage_options or {}, self.delta_options)

    def _invalid(self, setting: str, value: object, reason: str) -> InvalidSinkError:
        return InvalidSinkError(sink="DeltaSink", setting=setting, value=value, reason=reason)

    def definition(self) -> dict[str, Any]:
        found = {**super().definition(), "uri": canonical_uri(self.uri), "mode": self.mode}
        if self.key:
            found["key"] = list(self.key)
        return {**found, "partition_by": list(self.partition_by)}

    def at_odds(self, other: Sink) -> list[str]:
        if not isinstance(other, DeltaSink):
            return ["type"]
        if "overwrite" in (self.mode, other.mode):  # each would replace what the other has released
            return ["mode"]
        return [] if list(self.partition_by) == list(other.partition_by) else ["partition_by"]

    def check_input(self, given: SinkInput) -> None:
        check_table_input(given, "DeltaSink", self.mode, self.key, self.partition_by)
        for name, kind in given.columns:
            spelled = next((one for one in self.partition_by if one.casefold() == name.casefold()), None)
            if spelled not in (None, name):  # Spark takes it, and of the table that is made nobody can read anything
                reason = f"is called {name!r} in the input of sink {given.uid}, and a table tells the case of names"
                raise self._invalid("partition_by", spelled, reason)
            if spelled is not None and kind not in PARTITION_TYPES:
                reason = f"is a column of type {kind}; partition by one of {', '.join(PARTITION_TYPES)}"
                raise self._invalid("partition_by", name, reason)

    def bind(self, context: SinkContext) -> BoundLakeSink:
        self.validate()
        [folder] = self.spark_folders(context.storage_options)
        return self.bind_to(open_storage(folder), context)

    def spark_folders(self, storage_options: Mapping[str, Any]) -> list[Location]:
        return [Location(self.uri, storage_options if self.storage_options is None else self.storage_options)]

    def bind_to(self, storage: Storage, context: SinkContext) -> BoundLakeSink:
        """:meth:`bind` with the storage of the folder given."""
        return BoundLakeSink(self.table(storage, context), self.settings, context)

    def table(self, storage: Storage, context: SinkContext) -> LakeTable:
        refuse_missing("DeltaSink", "deltalake", "delta")
        [folder] = self.spark_folders(context.storage_options)
        options = delta_options(self.uri, folder.options, self.delta_options)
        place = Location(storage.uri.removeprefix("file://") if is_local(self.uri) else storage.uri, options)
        return DeltaLakeTable(place, storage, context, tuple(self.partition_by))
