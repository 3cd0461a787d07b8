"""A catalog that makes one commit on top of one version of a table, and deletes nothing if the commit fails."""

from __future__ import annotations

from typing import Any

from airflow_provider_ckpt.sinks.lake.table import CommitConflict


class OneAttempt:
    """A catalog that passes one commit on to a ``pyiceberg.catalog.Catalog``.

    It reports every conflict as :class:`CommitConflict`. pyiceberg retries a commit after its own
    CommitFailedException, on top of a version that the sink has not checked. When no retry is left, it deletes the
    manifests of the commit. But the commit may be in the table: a client that repeats its request gets a conflict with
    its own first request. A table whose manifests are gone cannot be read. So pyiceberg never sees its exception, and
    nothing is deleted (R9).

    The commit also requires the schema and the partition spec of the version. A change of these makes no snapshot, and
    pyiceberg requires only the snapshot.
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


def for_one_attempt(table: Any) -> Any:
    """Return the ``pyiceberg.table.Table`` with a catalog that commits on top of this version only."""
    from pyiceberg.table import Table

    catalog = OneAttempt(table.catalog, table.metadata)
    return Table(table.name(), table.metadata, table.metadata_location, table.io, catalog, table.config)  # type: ignore[arg-type]
