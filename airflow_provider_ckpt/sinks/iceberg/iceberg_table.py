"""Access to an Iceberg table through the package ``pyiceberg``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.model.column_name import quoted
from airflow_provider_ckpt.sinks.errors import StagedFileUnusableError, TargetRefusedError
from airflow_provider_ckpt.sinks.iceberg import partition_fields
from airflow_provider_ckpt.sinks.iceberg.iceberg_schema import (
    as_iceberg_columns,
    iceberg_schema,
    promoted,
    required_field,
    spark_columns,
    spark_schema_with_ids,
    takes_field_ids,
    with_field_ids,
)
from airflow_provider_ckpt.sinks.iceberg.partition_fields import PartitionField
from airflow_provider_ckpt.sinks.iceberg.replaced_rows import add_rows, replace_rows
from airflow_provider_ckpt.sinks.lake.columns import Column, columns_of
from airflow_provider_ckpt.sinks.lake.footers import Footer
from airflow_provider_ckpt.sinks.lake.intents import Change, Intent
from airflow_provider_ckpt.sinks.lake.staged_rows import newest_rows, rows_of_files
from airflow_provider_ckpt.sinks.lake.table import CommitConflict, LakeTable, Snapshot, table_refused, unreachable
from airflow_provider_ckpt.sinks.sink import SinkContext
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


T = TypeVar("T")
_OVERWRITES = "ckpt.~overwrites"
"""The table property that counts the overwrites of all jobs. No job id starts with a tilde."""
_NEWEST_FORMAT = 2


class IcebergLakeTable(LakeTable):
    """An Iceberg table. Its property ``ckpt.<job>.<sink>.applied`` is the number of the sink's intents in the table.

    The property outlives snapshots. A commit is tried once, on top of the loaded version
    (:class:`SingleAttemptCatalog`). Even a commit without rows makes a snapshot, because only then pyiceberg checks
    that the loaded snapshot is still the newest.

    ``upserts``: True if pyiceberg upserts the rows, so that the staged files do not enter the table.
    """

    def __init__(
        self,
        name: str,
        catalog: Callable[[], Any],
        secrets: Location,
        storage_options: Mapping[str, Any],
        context: SinkContext,
        *,
        upserts: bool = False,
    ) -> None:
        self.uri = name
        self._make_catalog = catalog
        self._secrets = secrets
        self._storage_options = storage_options
        self._property = f"ckpt.{context.job_id}.{context.uid}.applied"
        self._context = context
        self._upserts = upserts
        self._catalog: Any = None
        self._storage: Storage | None = None

    def storage(self) -> Storage | None:
        if self._storage is None:
            snapshot = self.load()
            if snapshot is not None:
                self._storage = open_storage(Location(snapshot.handle.location(), self._storage_options))
        return self._storage

    def load(self) -> Snapshot | None:
        from pyiceberg.exceptions import NoSuchTableError

        def act() -> Any:
            try:
                return self._loaded_catalog().load_table(self.uri)
            except NoSuchTableError:
                return None

        table = self._call("read", act)
        if table is None:
            return None
        return Snapshot(
            id=str(table.metadata.table_uuid),
            applied=int(table.properties.get(self._property, 0)),
            overwrites=int(table.properties.get(_OVERWRITES, 0)),
            columns=spark_columns(table.schema()),
            partition_by=tuple(f"{field.transform}({field.source})" for field in _fields(table)),
            handle=with_single_attempt(table),
        )

    def _loaded_catalog(self) -> Any:
        if self._catalog is None:
            self._catalog = self._make_catalog()
        return self._catalog

    def create(self, columns: Sequence[Column]) -> None:
        from pyiceberg.exceptions import NoSuchNamespaceError, TableAlreadyExistsError

        def act() -> None:
            try:
                schema = iceberg_schema(columns)
            except ValueError as error:  # for example a column `a.b` and a struct `a` with a field `b`
                raise self._creation_error(f"no table has such columns ({error}); rename one of them") from None
            try:
                self._loaded_catalog().create_table(self.uri, schema)
            except TableAlreadyExistsError:
                pass  # another process created it first
            except NoSuchNamespaceError:
                raise self._creation_error("neither the table nor its namespace exists; create one of them") from None

        self._call("made", act)

    def _creation_error(self, problem: str) -> TargetRefusedError:
        return table_refused(self._context, self.uri, problem)

    def as_stored(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        return as_iceberg_columns(columns)

    def identified(self, columns: Sequence[Column], snapshot: Snapshot) -> tuple[Column, ...]:
        return with_field_ids(columns, snapshot.handle.schema()) if self._releases_files(snapshot) else tuple(columns)

    def promoted(self, columns: Sequence[Column], snapshot: Snapshot) -> tuple[Column, ...]:
        return promoted(columns, snapshot.columns)

    def refusal(self, snapshot: Snapshot, change: Change) -> str | None:
        table = snapshot.handle
        if table.format_version > _NEWEST_FORMAT:
            return f"it has format version {table.format_version}, and this sink writes {_NEWEST_FORMAT}"
        if required := required_field(snapshot.columns):
            return f"its field {required!r} is required, and in Spark's files every column may be null"
        fields = _fields(table)
        if problem := partition_fields.refusal(fields) or self._without_statistics(table, fields):
            return problem
        return None if self._releases_files(snapshot) else _write_refusal(fields)

    def _without_statistics(self, table: Any, fields: Sequence[PartitionField]) -> str | None:
        """Return a problem if the table keeps no statistics of a partition column; None if it keeps them.

        Without statistics, pyiceberg would take a file's partition value for null.
        """
        from pyiceberg.io.pyarrow import compute_statistics_plan

        plan = compute_statistics_plan(table.schema(), table.properties)
        for field in fields:
            mode = plan[table.schema().find_field(field.source).field_id].mode.type.value
            if mode in ("none", "counts"):
                return f"it is partitioned by {field.source!r}, and keeps no statistics of it (write.metadata.metrics)"
        return None

    def shaped(self, frame: DataFrame, snapshot: Snapshot) -> tuple[DataFrame, list[str]]:
        if not self._releases_files(snapshot):
            return frame, []
        columns = self.identified(as_iceberg_columns(columns_of(frame.schema.json())), snapshot)
        frame = _with_field_ids(frame, columns)
        fields = _fields(snapshot.handle)
        if not fields:
            return frame, []
        return frame.selectExpr("*", *partition_fields.copy_expressions(fields)), [
            f"{partition_fields.COPY}{number}" for number in range(len(fields))
        ]

    def partition(self, path: str, footer: Footer, snapshot: Snapshot) -> dict[str, str | None]:
        """Return partition field -> value, as pyiceberg reads them from the file.

        Raises StagedFileUnusableError if pyiceberg refuses the file, or would put it into a wrong partition.
        """
        from pyiceberg.io.pyarrow import parquet_file_to_data_file

        table = snapshot.handle
        if not self._releases_files(snapshot):
            return {}
        fields = _fields(table)
        for field in fields:
            if field.source not in footer.ranges:
                raise StagedFileUnusableError(
                    uri=footer.uri, problem=f"it has no statistics of column {field.source!r}"
                )
        try:
            record = parquet_file_to_data_file(table.io, table.metadata, footer.uri).partition
        except ValueError as error:
            raise StagedFileUnusableError(uri=footer.uri, problem=str(error)) from None
        values: dict[str, str | None] = {}
        for number, field in enumerate(fields):
            value = record[number]
            if (value is None) != (footer.ranges[field.source][0] is None):
                problem = f"the partition {field.name!r} cannot be read off it"
                raise StagedFileUnusableError(uri=footer.uri, problem=problem)
            values[field.name] = None if value is None else str(value)
        return values

    def final_path(self, name: str, snapshot: Snapshot) -> str | None:
        """Return the file's path among the table's data files, without Spark's folders; None if only rows enter."""
        if not self._releases_files(snapshot):
            return None
        return _data_path(snapshot.handle, name.rpartition("/")[2])

    def _releases_files(self, snapshot: Snapshot) -> bool:
        """Return True if Spark's files enter the table. Otherwise pyiceberg writes their rows."""
        if self._upserts or not takes_field_ids(snapshot.handle.schema()):
            return False
        return _data_path(snapshot.handle, "part.parquet") is not None

    def commit(self, snapshot: Snapshot, intent: Intent, number: int) -> None:
        def act() -> None:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # pyiceberg warns that a deletion found nothing
                    self._commit(snapshot.handle, intent, number)
            except CommitConflict as conflict:
                raise CommitConflict(self._secrets.redact(str(conflict))) from None

        self._call("committed to", act)

    def _commit(self, table: Any, intent: Intent, number: int) -> None:
        """Commit the intent. The snapshot's summary is for users; no code reads it."""
        from pyiceberg.expressions import AlwaysTrue

        storage = self.storage()
        assert storage is not None
        summary = {"ckpt.job": intent.job, "ckpt.sink": intent.sink, "ckpt.checkpoint": str(intent.checkpoint)}
        with table.transaction() as transaction:
            if intent.change == "upsert":
                with transaction.update_snapshot(snapshot_properties=summary).overwrite() as producer:
                    replace_rows(producer, table, newest_rows(storage, intent), intent.key)
            else:
                if intent.change == "replace":
                    transaction.delete(AlwaysTrue())
                if intent.files and not _have_current_ids(table, intent):
                    with transaction.update_snapshot(snapshot_properties=summary).fast_append() as producer:
                        add_rows(producer, table, rows_of_files(storage, intent))
                else:
                    files = [storage.full_uri(file.target) for file in intent.files]
                    transaction.add_files(files, snapshot_properties=summary, check_duplicate_files=False)
            overwrites = str(intent.overwrites_after)
            transaction.set_properties({self._property: str(number), _OVERWRITES: overwrites})

    def _call(self, verb: str, act: Callable[[], T]) -> T:
        try:
            return act()
        except (CkptError, CommitConflict):
            raise
        except Exception as error:  # the catalog is the user's choice, and its driver may raise any error
            raise unreachable(self.uri, verb, self._secrets, error) from None


class SingleAttemptCatalog:
    """A catalog that forwards each commit one time to a ``pyiceberg.catalog.Catalog``.

    Every conflict becomes a :class:`CommitConflict`, so pyiceberg never sees its own CommitFailedException. On that
    error pyiceberg would retry on top of a version that the sink has not checked. Finally it would delete the manifests
    of the commit. But the commit may be in the table: a client that repeats its request conflicts with its own first
    request. A table without these manifests cannot be read (R9).

    Each commit also fails if the schema or partition spec has changed since the checked version. Such a change makes no
    snapshot, and pyiceberg itself compares only the snapshot.
    """

    def __init__(self, catalog: Any, version: Any) -> None:
        """Wrap a catalog. ``version``: the ``TableMetadata`` that the sink has checked."""
        self._catalog = catalog
        self._version = version

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    def commit_table(self, table: Any, requirements: tuple[Any, ...], updates: tuple[Any, ...]) -> Any:
        from pyiceberg.exceptions import CommitFailedException, ValidationException

        try:
            return self._catalog.commit_table(table, (*requirements, *self._same_columns_and_partitions()), updates)
        except (CommitFailedException, ValidationException) as error:
            raise CommitConflict(str(error)) from None

    def _same_columns_and_partitions(self) -> tuple[Any, ...]:
        from pyiceberg.table.update import AssertCurrentSchemaId, AssertDefaultSpecId

        schema = AssertCurrentSchemaId.model_validate({"current-schema-id": self._version.current_schema_id})
        return schema, AssertDefaultSpecId.model_validate({"default-spec-id": self._version.default_spec_id})


def with_single_attempt(table: Any) -> Any:
    """Return a ``pyiceberg.table.Table`` with a catalog that commits only on top of the table's loaded version."""
    from pyiceberg.table import Table

    catalog = SingleAttemptCatalog(table.catalog, table.metadata)
    return Table(table.name(), table.metadata, table.metadata_location, table.io, catalog, table.config)  # type: ignore[arg-type]


def _data_path(table: Any, name: str) -> str | None:
    """Return a data file's path relative to the table's folder; None if the table keeps its data files elsewhere."""
    folder = f"{table.location().rstrip('/')}/"
    place = table.location_provider().new_data_location(name)
    return place.removeprefix(folder) if place.startswith(folder) else None


def _with_field_ids(frame: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """Return the frame with metadata that makes Spark write the fields' ids to Parquet files.

    ``DataFrame.to`` does not suffice: it would not remove an id that a column has from another source.
    """
    fields = frame.schema.fromJson(spark_schema_with_ids(columns)).fields
    return frame.select(
        *(frame[quoted(field.name)].cast(field.dataType).alias(field.name, metadata=field.metadata) for field in fields)
    )


def _write_refusal(fields: Sequence[PartitionField]) -> str | None:
    """Return why pyiceberg cannot write rows to partitions of these fields; None if it can."""
    for field in fields:
        if field.transform != "identity" and find_spec("pyiceberg_core") is None:
            return (
                f"it is partitioned by {field.transform}({field.source}), and pyiceberg writes such partitions only "
                "with the package pyiceberg-core: pip install 'pyiceberg[pyiceberg-core]' wherever the job is released"
            )
    return None


def _have_current_ids(table: Any, intent: Intent) -> bool:
    """Return True if the staged files have the ids of the table's columns.

    A column that was dropped and added again after the rows were staged has another id. Readers find columns by id, and
    would show nulls.
    """
    schema = table.schema()
    return takes_field_ids(schema) and with_field_ids(intent.columns, schema) == intent.columns


def _fields(table: Any) -> list[PartitionField]:
    schema = table.schema()
    types = {column.name: column.type for column in spark_columns(schema)}
    fields = []
    for field in table.spec().fields:
        source = schema.find_column_name(field.source_id) or ""
        fields.append(PartitionField(field.name, source, str(field.transform), types.get(source, {"type": "nested"})))
    return fields
