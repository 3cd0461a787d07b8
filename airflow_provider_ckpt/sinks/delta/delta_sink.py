"""A sink that writes rows to a Delta table, with one commit for each checkpoint."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from airflow_provider_ckpt.sinks.argument_checks import names_problem, options_problem
from airflow_provider_ckpt.sinks.delta.delta_table import DeltaLakeTable
from airflow_provider_ckpt.sinks.errors import InvalidSinkError
from airflow_provider_ckpt.sinks.lake.bound_lake_sink import BoundLakeSink
from airflow_provider_ckpt.sinks.lake.columns import PARTITION_TYPES, check_table_input
from airflow_provider_ckpt.sinks.lake.lake_settings import LakeMode, LakeSettings, refuse_missing
from airflow_provider_ckpt.sinks.lake.table import LakeTable
from airflow_provider_ckpt.sinks.sink import Sink, SinkContext, SinkInput
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import canonical_uri, is_local, open_storage
from airflow_provider_ckpt.storage.storage import Storage

_AMBIGUOUS_PATH = re.compile(r"\\|%[0-9A-Fa-f]{2}")
"""Pattern of a local path for which ``deltalake`` creates the table in one folder and searches it in another folder."""


@dataclass(frozen=True)
class DeltaSink(Sink):
    """A sink that writes to a Delta table.

    Spark writes Parquet files into the table's folder, and each release is one commit that names them. Spark needs no
    Delta jar. The package ``deltalake`` is needed wherever the job runs or is released. See docs/sinks-lakes.md.

    Args:
        uri: the table's folder, as a path or a URI (``s3://…``). An absent table is created with the columns of the
            input.
        mode: ``append`` adds rows. ``overwrite`` replaces all rows in the job's first release, and adds rows in later
            releases. ``upsert`` replaces the row with the same ``key``, or adds the row.
        key: columns of the key, for ``upsert``.
        partition_by: the table's partition columns.
        options: options of Spark's Parquet writer.
        storage_options: fsspec options of the folder; None means those of the job's root.
        delta_options: options by which ``deltalake`` reaches the folder. None means options derived from
            ``storage_options`` on S3, and no options elsewhere.
    """

    uri: str
    mode: LakeMode = "append"
    key: Sequence[str] = ()
    partition_by: Sequence[str] = ()
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
    delta_options: Mapping[str, str] | None = field(default=None, repr=False)

    changeable: ClassVar[frozenset[str]] = frozenset({"mode"})
    """Settings that may change when a job resumes. A mode has an effect only until the first release."""

    @property
    def settings(self) -> LakeSettings:
        partition_by = None if self.mode == "upsert" else tuple(self.partition_by)
        return LakeSettings(self.mode, tuple(self.key), partition_by, self.options)

    def validate(self) -> None:
        if not isinstance(self.uri, str) or not self.uri.strip():
            raise self._invalid("uri", self.uri, "is not a path; give the folder of the table")
        if problem := names_problem(self.partition_by):  # checked here, because None has a meaning in the settings
            raise self._invalid("partition_by", self.partition_by, problem)
        if self.delta_options is not None and (problem := options_problem(self.delta_options)):
            raise self._invalid("delta_options", "…", problem)
        if self.storage_options is not None and not isinstance(self.storage_options, Mapping):
            raise self._invalid("storage_options", "…", "is no dict of options by name")
        LakeSettings(self.mode, self.key, self.partition_by, self.options).validate("DeltaSink")
        if canonical_uri(self.uri).startswith("memory:"):
            raise self._invalid("uri", self.uri, "is in the memory of one process; give a folder or an object store")
        if is_local(self.uri) and _AMBIGUOUS_PATH.search(canonical_uri(self.uri)):
            reason = "has parts that the package deltalake reads as another path (\\ as /, %20 as a blank); avoid them"
            raise self._invalid("uri", self.uri, reason)
        delta_options(self.uri, self.storage_options or {}, self.delta_options)

    def _invalid(self, setting: str, value: object, reason: str) -> InvalidSinkError:
        return InvalidSinkError(sink="DeltaSink", setting=setting, value=value, reason=reason)

    def definition(self) -> dict[str, Any]:
        definition = {**super().definition(), "uri": canonical_uri(self.uri), "mode": self.mode}
        if self.key:
            definition["key"] = list(self.key)
        return {**definition, "partition_by": list(self.partition_by)}

    def folder_conflicts(self, other: Sink) -> list[str]:
        if not isinstance(other, DeltaSink):
            return ["type"]
        if "overwrite" in (self.mode, other.mode):  # each sink would replace the other sink's releases
            return ["mode"]
        return [] if list(self.partition_by) == list(other.partition_by) else ["partition_by"]

    def check_input(self, given: SinkInput) -> None:
        check_table_input(given, "DeltaSink", self.mode, self.key, self.partition_by)
        for name, kind in given.columns:
            spelled = next((column for column in self.partition_by if column.casefold() == name.casefold()), None)
            if spelled not in (None, name):  # Spark ignores the case, but no reader could read the new table
                reason = (
                    f"is called {name!r} in the input of sink {given.uid}, and tables distinguish the case of names"
                )
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
        """Bind the sink like :meth:`bind`. ``storage``: the opened storage of the table's folder."""
        return BoundLakeSink(self.table(storage, context), self.settings, context)

    def table(self, storage: Storage, context: SinkContext) -> LakeTable:
        refuse_missing("DeltaSink", "deltalake", "delta")
        [folder] = self.spark_folders(context.storage_options)
        options = delta_options(self.uri, folder.options, self.delta_options)
        location = Location(storage.uri.removeprefix("file://") if is_local(self.uri) else storage.uri, options)
        return DeltaLakeTable(location, storage, context, tuple(self.partition_by))


_UNSAFE = "aws_s3_allow_unsafe_rename"
_S3 = {
    "key": "AWS_ACCESS_KEY_ID",
    "secret": "AWS_SECRET_ACCESS_KEY",
    "token": "AWS_SESSION_TOKEN",
    "endpoint_url": "AWS_ENDPOINT_URL",
    "region_name": "AWS_REGION",
}


def delta_options(uri: str, storage_options: Mapping[str, Any], given: Mapping[str, str] | None) -> dict[str, str]:
    """Return the options for ``deltalake``: ``given``; if it is None, options derived from the fsspec options on S3.

    Raises InvalidSinkError if ``AWS_S3_ALLOW_UNSAFE_RENAME`` is set, because two commits of the same version could then
    both succeed.
    """
    options = {name: str(value) for name, value in (given or {}).items()}
    if given is None and canonical_uri(uri).startswith("s3://"):
        options = _translate_s3(storage_options)
    _refuse_unsafe(options)
    return options


def _translate_s3(options: Mapping[str, Any]) -> dict[str, str]:
    client = options.get("client_kwargs")
    flat = {**(client if isinstance(client, Mapping) else {}), **options}
    translated = {name: str(flat[fsspec_name]) for fsspec_name, name in _S3.items() if flat.get(fsspec_name)}
    if translated.get("AWS_ENDPOINT_URL", "").startswith("http://"):
        translated["AWS_ALLOW_HTTP"] = "true"
    if flat.get("anon"):
        translated["AWS_SKIP_SIGNATURE"] = "true"
    return translated


def _refuse_unsafe(options: Mapping[str, str]) -> None:
    """Refuse ``AWS_S3_ALLOW_UNSAFE_RENAME`` in options and environment: with it, two commits may both succeed."""
    for source, checked in (("delta_options", options), ("the environment", os.environ)):
        for name, value in checked.items():
            if name.lower() == _UNSAFE and value.strip().lower() in ("true", "1", "yes"):
                reason = f"in {source} lets two commits of one version both succeed, and the first is lost; remove it"
                raise InvalidSinkError(sink="DeltaSink", setting=name, value=value, reason=reason)
