"""The interface of a lake table for the releases of a sink."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_ckpt.errors import kind_and_text
from airflow_provider_ckpt.printable import without_colours
from airflow_provider_ckpt.sinks.errors import SinkUnavailableError, TargetRefusedError
from airflow_provider_ckpt.sinks.lake.columns import Column
from airflow_provider_ckpt.sinks.lake.footers import Footer
from airflow_provider_ckpt.sinks.lake.intents import Change, Intent
from airflow_provider_ckpt.sinks.sink import SinkContext
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def unreachable(uri: str, verb: str, location: Location, error: Exception) -> SinkUnavailableError:
    """Return the error for a failure of the table's library. The error hides the secrets of ``location``."""
    reason = without_colours(location.redact(kind_and_text(error)))
    return SinkUnavailableError("table {uri} could not be {verb}: {reason}", uri=uri, verb=verb, reason=reason)


def table_refused(context: SinkContext, uri: str, problem: str) -> TargetRefusedError:
    """Return the error for a table that does not accept the rows."""
    return TargetRefusedError(
        "Sink {sink} of job {job!r} cannot write to table {uri}: {problem}",
        sink=context.uid,
        job=context.job_id,
        uri=uri,
        problem=problem,
    )


class CommitConflict(Exception):
    """The table's library reported a conflict with another commit.

    This commit may still be in the table: a client that repeats a request by itself may report the conflict with its
    own first request. Load the table again, and delete nothing that the commit names.
    """


@dataclass(frozen=True)
class Snapshot:
    """One loaded version of a table.

    Args:
        id: id of the table; another table under the same name has another id.
        applied: number of the sink's intents in the table.
        overwrites: how often jobs of this package have replaced the rows of the table.
        handle: the library's object for a commit on top of exactly this version.
    """

    id: str
    applied: int
    overwrites: int
    columns: tuple[Column, ...]
    partition_by: tuple[str, ...]
    handle: Any


class LakeTable(ABC):
    """The table of one sink of one job. ``uri`` is for messages. Every method may raise SinkUnavailableError."""

    uri: str

    @abstractmethod
    def storage(self) -> Storage | None:
        """Return the table's folder, in which the sink stages; None if the table is absent and its place unknown."""

    @abstractmethod
    def load(self) -> Snapshot | None:
        """Return the newest version; None if the table does not exist. An error never counts as absence."""

    @abstractmethod
    def create(self, columns: Sequence[Column]) -> None:
        """Create an empty table if it does not exist. Several processes may call this at once."""

    def as_stored(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        """Return the rows' columns with the types in which the table stores them."""
        return tuple(columns)

    def identified(self, columns: Sequence[Column], snapshot: Snapshot) -> tuple[Column, ...]:
        """Return columns of staged rows with the table's column ids; unchanged if the staged files contain no ids."""
        return tuple(columns)

    def promoted(self, columns: Sequence[Column], snapshot: Snapshot) -> tuple[Column, ...]:
        """Return columns of staged rows with the types that readers see after the table has widened its types."""
        return tuple(columns)

    @abstractmethod
    def refusal(self, snapshot: Snapshot, change: Change) -> str | None:
        """Return the feature or constraint of the table that this sink does not support; None if there is none."""

    @abstractmethod
    def shaped(self, frame: DataFrame, snapshot: Snapshot) -> tuple[DataFrame, list[str]]:
        """Return (the frame to write, the columns by which Spark makes folders)."""

    @abstractmethod
    def partition(self, path: str, footer: Footer, snapshot: Snapshot) -> dict[str, str | None]:
        """Return partition column -> value of a staged file. ``path`` is relative to the staged place.

        Raises StagedFileUnusableError.
        """

    def final_path(self, name: str, snapshot: Snapshot) -> str | None:
        """Return the final path of a staged file, outside the staged places; None if only its rows are released."""
        return name

    @abstractmethod
    def commit(self, snapshot: Snapshot, intent: Intent, number: int) -> None:
        """Commit an intent on top of ``snapshot``. The commit also records that the table contains ``number`` intents.

        After any error the commit may be in the table. So an implementation deletes nothing that the commit names.

        Raises CommitConflict if another version is the newest.
        """
