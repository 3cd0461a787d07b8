"""Interfaces to the tables of a database sink: the ledger of its releases, and a staging table for each batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Generic, Protocol, TypeVar

from airflow_provider_ckpt.sinks.database.ledger_rules import LedgerRow
from airflow_provider_ckpt.sinks.sink import Handle

C = TypeVar("C")
"""Type of a connection that is in a transaction."""


class Ledger(ABC, Generic[C]):
    """The ledger of one sink of one job, in one schema. Every method works in the given connection's transaction."""

    @abstractmethod
    def create(self, connection: C, entry_id: str) -> None:
        """Create the ledger and this sink's entry if they are absent. ``entry_id``: random id of a new entry.

        If the sink has released nothing, also update the table and mode of an existing entry.

        Raises TerminalError.
        """

    @abstractmethod
    def exists(self, connection: C) -> bool: ...

    @abstractmethod
    def row(self, connection: C, *, lock: bool = False) -> LedgerRow | None:
        """Return the sink's entry; None if absent. ``lock``: True to lock it until the end of the transaction (R9)."""

    @abstractmethod
    def lock_target(self, connection: C, *, exclusive: bool) -> None:
        """Lock the target table against all other releases; without ``exclusive`` only against exclusive releases."""

    @abstractmethod
    def released(self, connection: C, handles: Sequence[str]) -> set[str]: ...

    @abstractmethod
    def record_release(self, connection: C, handles: Collection[str], checkpoint: int, rows: int) -> None: ...

    @abstractmethod
    def forget_released(self, connection: C, upto: int) -> None:
        """Delete the records of handles that were released with checkpoint ``upto`` or an earlier checkpoint."""

    @abstractmethod
    def has_other_sink_released(self, connection: C) -> bool:
        """Return True if another sink of this job has released rows to the table."""

    @abstractmethod
    def supersede(self, connection: C) -> None:
        """Mark other jobs' entries for the table as replaced, if the job has released there or has mode ``replace``."""

    @abstractmethod
    def record_staged(self, connection: C, handle: str, staging: str) -> None: ...

    @abstractmethod
    def forget_staged(self, connection: C, handle: str) -> None: ...

    @abstractmethod
    def staged(self, connection: C) -> dict[str, tuple[str, int]]:
        """Return handle id -> (staging table, bytes of the table). The bytes are -1 if the table is gone."""


class ReleaseStatements(Protocol):
    """The statements that move staged rows to the target, inside the transaction of a release."""

    def without_table(self, handles: Sequence[Handle]) -> list[Handle]:
        """Return the handles whose staging table is gone."""

    def lock_definition(self) -> None:
        """Lock the definition of the target until the end of the transaction."""

    def empty(self) -> bool:
        """Delete all rows of the target. Return False if a trigger or a rule of the table keeps some rows."""

    def move(self, handle: Handle) -> int:
        """Move the rows that successful tasks staged to the target. Return the number of rows that arrived there."""

    def count(self, handle: Handle) -> int:
        """Return the number of rows of successful tasks in the staging table."""

    def drop(self, handle: Handle) -> None:
        """Drop the staging table, unless a DROP would commit the transaction."""
