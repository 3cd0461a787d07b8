"""What every sink of a database asks of its own tables there: what was released, and what is staged where."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Generic, Protocol, TypeVar

from airflow_provider_ckpt.sinks.database.ledger_rules import LedgerRow
from airflow_provider_ckpt.sinks.sink import Handle

C = TypeVar("C")
"""A connection, in a transaction."""


class Ledger(ABC, Generic[C]):
    """Of one sink of one job, in one schema. Every method works in the transaction of the connection that it is
    given."""

    @abstractmethod
    def make(self, connection: C, born: str) -> None:
        """Idempotent. The table and the mode are those of now until the first release. Raises LedgerVersionError."""

    @abstractmethod
    def exists(self, connection: C) -> bool: ...

    @abstractmethod
    def row(self, connection: C, *, lock: bool = False) -> LedgerRow | None:
        """None: there is none, or no ledger at all. ``lock``: until the end of the transaction, R9."""

    @abstractmethod
    def lock_target(self, connection: C, *, alone: bool) -> None:
        """Against others who release to the same table; ``alone``: nobody else may meanwhile."""

    @abstractmethod
    def released(self, connection: C, handles: Sequence[str]) -> set[str]: ...

    @abstractmethod
    def note_release(self, connection: C, handles: Collection[str], checkpoint: int, rows: int) -> None: ...

    @abstractmethod
    def forget_released(self, connection: C, upto: int) -> None:
        """Handles that were released as that checkpoint or an earlier one."""

    @abstractmethod
    def another_has_released(self, connection: C) -> bool:
        """Whether another sink of this job has put rows into the table."""

    @abstractmethod
    def supersede(self, connection: C) -> None:
        """All other jobs in the table: who has released there, and who was about to replace it."""

    @abstractmethod
    def note_staged(self, connection: C, handle: str, staging: str) -> None: ...

    @abstractmethod
    def forget_staged(self, connection: C, handle: str) -> None: ...

    @abstractmethod
    def staged(self, connection: C) -> dict[str, tuple[str, int]]:
        """Handle → its table and the table's bytes; -1 if the table is gone."""


class Releasing(Protocol):
    """From staging tables to the target, inside the transaction of a release."""

    def without_table(self, handles: Sequence[Handle]) -> list[Handle]:
        """Those whose staging table is gone."""

    def hold(self) -> None:
        """The target, so that nobody alters it before the end of the transaction."""

    def empty(self) -> bool:
        """Delete all rows of the target. Return False if it still has rows, because a trigger or a rule keeps them."""

    def move(self, handle: Handle) -> int:
        """The rows of the task attempts that count; returns how many there were."""

    def count(self, handle: Handle) -> int:
        """Return the number of staged rows of the task attempts that count."""

    def drop(self, handle: Handle) -> None:
        """Drop the staging table, if that does not commit the transaction."""
