"""The interface of a database sink to its own tables: the ledger of its releases, and one staging table a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Generic, Protocol, TypeVar

from airflow_provider_ckpt.sinks.database.ledger_rules import LedgerRow
from airflow_provider_ckpt.sinks.sink import Handle

C = TypeVar("C")
"""A connection, in a transaction."""


class Ledger(ABC, Generic[C]):
    """The ledger of one sink of one job, in one schema. Every method works in the given connection's transaction."""

    @abstractmethod
    def create(self, connection: C, born: str) -> None:
        """Create the ledger and this sink's entry if they are absent.

        Until the first release, update the entry's table and mode.

        Raises TerminalError.
        """

    @abstractmethod
    def exists(self, connection: C) -> bool: ...

    @abstractmethod
    def row(self, connection: C, *, lock: bool = False) -> LedgerRow | None:
        """Return the sink's entry, or None if it is absent. ``lock`` locks it until the end of the transaction (R9)."""

    @abstractmethod
    def lock_target(self, connection: C, *, exclusive: bool) -> None:
        """Lock the target against other releases to the same table; ``exclusive`` excludes all of them."""

    @abstractmethod
    def released(self, connection: C, handles: Sequence[str]) -> set[str]: ...

    @abstractmethod
    def record_release(self, connection: C, handles: Collection[str], checkpoint: int, rows: int) -> None: ...

    @abstractmethod
    def forget_released(self, connection: C, upto: int) -> None:
        """Forget the handles that were released as checkpoint ``upto`` or an earlier one."""

    @abstractmethod
    def has_other_sink_released(self, connection: C) -> bool:
        """Return whether another sink of this job has released rows to the table."""

    @abstractmethod
    def supersede(self, connection: C) -> None:
        """Mark the other jobs in the table as replaced if they have released or were about to replace it."""

    @abstractmethod
    def record_staged(self, connection: C, handle: str, staging: str) -> None: ...

    @abstractmethod
    def forget_staged(self, connection: C, handle: str) -> None: ...

    @abstractmethod
    def staged(self, connection: C) -> dict[str, tuple[str, int]]:
        """Return handle -> (staging table, its bytes). The bytes are -1 if the table is gone."""


class ReleaseStatements(Protocol):
    """The statements that move staged rows to the target, inside the transaction of a release."""

    def without_table(self, handles: Sequence[Handle]) -> list[Handle]:
        """Return the handles whose staging table is gone."""

    def lock_definition(self) -> None:
        """Lock the definition of the target until the end of the transaction."""

    def empty(self) -> bool:
        """Delete all rows of the target. Return False if it still has rows, because a trigger or a rule keeps them."""

    def move(self, handle: Handle) -> int:
        """Move the rows of the task attempts that count. Return how many rows reached the target."""

    def count(self, handle: Handle) -> int:
        """Return the number of staged rows of the task attempts that count."""

    def drop(self, handle: Handle) -> None:
        """Drop the staging table, unless a DROP would commit the transaction."""
