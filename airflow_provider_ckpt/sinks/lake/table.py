"""A table as the releases of a sink see it; one class for each table format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_ckpt.errors import kind_and_text
from airflow_provider_ckpt.printable import without_colours
from airflow_provider_ckpt.sinks.lake.columns import Column
from airflow_provider_ckpt.sinks.lake.errors import TableUnreachableError
from airflow_provider_ckpt.sinks.lake.footers import Footer
from airflow_provider_ckpt.sinks.lake.intents import Change, Intent
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def unreachable(uri: str, verb: str, place: Location, error: Exception) -> TableUnreachableError:
    """``place``: its secrets are hidden in what the library said."""
    reason = without_colours(place.redact(kind_and_text(error)))
    return TableUnreachableError(uri=uri, verb=verb, reason=reason)


class CommitConflict(Exception):
    """The table's library reported a conflict with another commit.

    That is no proof that this commit is not in the table: a client that repeats a request by itself may report the
    conflict with its own first request. Load the table again, and delete nothing that the commit names.
    """


@dataclass(frozen=True)
class Snapshot:
    """One version of a table, as it was loaded. ``id`` stays the same for as long as it is the same table. ``applied``:
    how many intents of the sink are in it. ``overwrites``: how often jobs of ours have replaced its rows. ``handle``:
    what the library needs to commit on top of this very version and no other."""

    id: str
    applied: int
    overwrites: int
    columns: tuple[Column, ...]
    partition_by: tuple[str, ...]
    handle: Any


class LakeTable(ABC):
    """Of one sink of one job. ``uri``: for people. Every method raises TableUnreachableError."""

    uri: str

    @abstractmethod
    def storage(self) -> Storage | None:
        """The table's folder, in which the sink stages; None if there is no table yet and nobody knows where it would
        be."""

    @abstractmethod
    def load(self) -> Snapshot | None:
        """The newest version; None if there is no table. An error is never taken for that."""

    @abstractmethod
    def create(self, columns: Sequence[Column]) -> None:
        """An empty one, if there is none; several may do so at once."""

    def as_held(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        """Columns of rows, in the types in which the table holds them."""
        return tuple(columns)

    def identified(self, columns: Sequence[Column], snapshot: Snapshot) -> tuple[Column, ...]:
        """Return columns of staged rows with the ids of the table's columns that the staged files have."""
        return tuple(columns)

    def promoted(self, columns: Sequence[Column], snapshot: Snapshot) -> tuple[Column, ...]:
        """Columns of staged rows, in the types in which the table reads their files since its own were widened."""
        return tuple(columns)

    @abstractmethod
    def refusal(self, snapshot: Snapshot, change: Change) -> str | None:
        """What the table asks for and this sink does not do: a feature, a constraint. None: nothing."""

    @abstractmethod
    def shaped(self, frame: DataFrame, snapshot: Snapshot) -> tuple[DataFrame, list[str]]:
        """The frame as it is to be written, and the columns by which Spark makes folders."""

    @abstractmethod
    def partition(self, path: str, footer: Footer, snapshot: Snapshot) -> dict[str, str | None]:
        """Of a staged file, given relative to its place. Raises StatisticsMissingError."""

    def released(self, name: str, snapshot: Snapshot) -> str | None:
        """Return the final path of a staged file; None if its rows are released, and not the file.

        ``name`` has folders if Spark made some. The path must not be in the place of staged files, which is deleted.
        """
        return name

    @abstractmethod
    def commit(self, snapshot: Snapshot, intent: Intent, number: int) -> None:
        """Make the change of an intent, and say in the same commit that ``number`` of them are in the table. Only on
        top of ``snapshot``: raises CommitConflict if another version is the newest. After any error the commit may be
        in the table, so an implementation deletes nothing that the commit names."""
