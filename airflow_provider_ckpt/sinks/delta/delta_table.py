"""Access to a Delta table through the package ``deltalake``."""

from __future__ import annotations

import json
import time
import urllib.parse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_ckpt.sinks.delta.delta_features import refusal
from airflow_provider_ckpt.sinks.errors import SinkUnavailableError
from airflow_provider_ckpt.sinks.lake.columns import Column, columns_of, schema_json
from airflow_provider_ckpt.sinks.lake.footers import Footer
from airflow_provider_ckpt.sinks.lake.intents import Change, Intent
from airflow_provider_ckpt.sinks.lake.lake_handle import LakeFile
from airflow_provider_ckpt.sinks.lake.staged_rows import newest_rows
from airflow_provider_ckpt.sinks.lake.table import CommitConflict, LakeTable, Snapshot, unreachable
from airflow_provider_ckpt.sinks.sink import SinkContext
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

T = TypeVar("T")
_OVERWRITES = "ckpt/~overwrites"
"""The application transaction that counts the overwrites of all jobs. No job id starts with a tilde."""
_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"


class DeltaLakeTable(LakeTable):
    """A Delta table. The version of its transaction ``ckpt/<job>/<sink>`` is the number of the sink's intents in it.

    The table retains this number when old versions are cleaned up. ``deltalake`` must not retry commits: it would put
    them on top of a version that the sink has not checked. It does not compare the numbers of transactions.
    """

    def __init__(self, location: Location, storage: Storage, context: SinkContext, partition_by: Sequence[str]) -> None:
        self.uri = storage.uri
        self._location = location
        self._storage = storage
        self._app = f"ckpt/{context.job_id}/{context.uid}"
        self._partition_by = partition_by

    def storage(self) -> Storage:
        return self._storage

    def load(self) -> Snapshot | None:
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        def act() -> Any:
            try:
                return DeltaTable(self._location.uri, storage_options=self._options())
            except TableNotFoundError:
                if self._storage.list("_delta_log"):
                    raise  # an error must not count as absence
                return None

        table = self._call("read", act)
        if table is None:
            return None
        metadata = table.metadata()
        return Snapshot(
            id=str(metadata.id),
            applied=table.transaction_version(self._app) or 0,
            overwrites=table.transaction_version(_OVERWRITES) or 0,
            columns=columns_of(table.schema().to_json()),
            partition_by=tuple(metadata.partition_columns),
            handle=table,
        )

    def _options(self) -> dict[str, str]:
        return {name: str(value) for name, value in self._location.options.items()}

    def create(self, columns: Sequence[Column]) -> None:
        from deltalake import DeltaTable, Schema

        def act() -> None:
            schema = Schema.from_json(schema_json(columns))
            DeltaTable.create(
                self._location.uri, schema, "ignore", list(self._partition_by), storage_options=self._options()
            )

        try:
            self._call("made", act)
        except SinkUnavailableError:
            if self.load() is None:  # if the table exists now, another process created it first
                raise

    def refusal(self, snapshot: Snapshot, change: Change) -> str | None:
        protocol = snapshot.handle.protocol()
        features = [*(protocol.writer_features or ()), *(protocol.reader_features or ())]
        configuration = snapshot.handle.metadata().configuration
        schema = snapshot.handle.schema().to_json()
        return refusal(protocol.min_writer_version, features, configuration, schema, change)

    def shaped(self, frame: DataFrame, snapshot: Snapshot) -> tuple[DataFrame, list[str]]:
        return frame, list(self._partition_by)

    def partition(self, path: str, footer: Footer, snapshot: Snapshot) -> dict[str, str | None]:
        """Return partition column -> value, from the names of the file's folders, which Spark has escaped."""
        parts = [part.split("=", 1) for part in path.split("/")[:-1]]
        return {urllib.parse.unquote(name): _value(value) for name, value in parts}

    def commit(self, snapshot: Snapshot, intent: Intent, number: int) -> None:
        from deltalake.exceptions import CommitFailedError

        def act() -> None:
            try:
                (self._merge if intent.change == "upsert" else self._write)(snapshot, intent, number)
            except CommitFailedError as error:
                raise CommitConflict(self._location.redact(str(error))) from None

        self._call("committed to", act)

    def _write(self, snapshot: Snapshot, intent: Intent, number: int) -> None:
        table, now = snapshot.handle, int(time.time() * 1000)
        table.create_write_transaction(
            [_add_action(file, now) for file in intent.files],
            "overwrite" if intent.change == "replace" else "append",
            table.schema(),
            partition_by=list(intent.partition_by),
            commit_properties=self._properties(intent, number),
        )

    def _merge(self, snapshot: Snapshot, intent: Intent, number: int) -> None:
        rows = newest_rows(self._storage, intent)
        condition = " AND ".join(f"old.{_quoted(name)} = new.{_quoted(name)}" for name in intent.key)
        merger = snapshot.handle.merge(
            rows, condition, source_alias="new", target_alias="old", commit_properties=self._properties(intent, number)
        )
        merger.when_matched_update_all().when_not_matched_insert_all().execute()

    def _properties(self, intent: Intent, number: int) -> Any:
        """Return the commit's properties. The custom metadata is for users; no code reads it."""
        from deltalake import CommitProperties, Transaction

        metadata = {
            "job": intent.job,
            "sink": intent.sink,
            "checkpoint": intent.checkpoint,
            "batches": list(intent.batches),
        }
        return CommitProperties(
            custom_metadata={"ckpt": json.dumps(metadata)},
            max_commit_retries=0,
            app_transactions=[Transaction(self._app, number), Transaction(_OVERWRITES, intent.overwrites_after)],
        )

    def _call(self, verb: str, act: Callable[[], T]) -> T:
        from deltalake.exceptions import DeltaError

        try:
            return act()
        except (DeltaError, OSError, ValueError) as error:
            raise unreachable(self.uri, verb, self._location, error) from None


def _value(text: str) -> str | None:
    return None if text == _NULL_FOLDER else urllib.parse.unquote(text)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _add_action(file: LakeFile, now: int) -> Any:
    from deltalake.transaction import AddAction

    stats: dict[str, Any] = {"numRecords": file.rows}
    if file.stats:
        bounds = {
            name: stats_of_column for name, stats_of_column in file.stats.items() if stats_of_column[0] is not None
        }
        stats["minValues"] = {name: stats_of_column[0] for name, stats_of_column in bounds.items()}
        stats["maxValues"] = {name: stats_of_column[1] for name, stats_of_column in bounds.items()}
        stats["nullCount"] = {name: stats_of_column[2] for name, stats_of_column in file.stats.items()}
    return AddAction(file.target, file.size, file.partition, now, True, json.dumps(stats))
