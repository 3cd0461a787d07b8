"""Random jobs that release to tables which others change meanwhile, drawn from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from airflow_provider_ckpt.testing.crash import When

Kind = Literal["sqlite", "iceberg", "postgres", "mariadb"]
Mode = Literal["append", "upsert", "replace"]
Trigger = Literal["none", "audits", "swallows", "keeps", "refuses", "rule"]
Change = Literal["none", "add column", "rename column", "drop column", "insert row", "delete row"]
Moment = Literal["staged", "completed"]

CHANGES: tuple[Change, ...] = (
    "none",
    "add column",
    "rename column",
    "drop column",
    "rename column",
    "drop column",
    "insert row",
    "delete row",
)
TRIGGERS: dict[Kind, tuple[Trigger, ...]] = {
    "sqlite": ("none", "audits", "audits", "swallows", "keeps"),
    "iceberg": ("none",),
    "postgres": ("none", "audits", "swallows", "keeps", "rule"),
    "mariadb": ("none", "audits", "refuses"),
}
APART = 1_000_000
"""Distance between the ids of two sources."""


@dataclass(frozen=True)
class TableRun:
    """One run: the storages are gone from verb ``fault`` on; None: no fault."""

    fault: int | None = None
    when: When = "before"
    once: bool = False


@dataclass(frozen=True)
class TableCase:
    """A job with a table.

    ``trigger``: of the table. ``change``: others change the table so, once. ``moment``: "staged", after batch
    ``number`` was staged, or "completed", after checkpoint ``number`` has completed and before it is released.
    ``files``: of history and of the live feed. ``bad``: the id of the row on which a trigger acts.
    """

    seed: int
    kind: Kind
    mode: Mode
    trigger: Trigger
    change: Change
    moment: Moment
    number: int
    files: tuple[int, int]
    each: int
    runs: tuple[TableRun, ...]

    @property
    def bad(self) -> int:
        return random.Random(self.seed).choice([row[0] for rows in self.rows(0) for row in rows])

    def rows(self, source: int) -> list[list[tuple[int, int]]]:
        """Return ids and values of each file of history (0) or of the live feed (1).

        For an upsert, files repeat ids of earlier files with other values. An id occurs once in a file.
        """
        rng = random.Random(self.seed * 53 + source)
        files: list[list[tuple[int, int]]] = []
        for file in range(self.files[source]):
            rows = [(source * APART + file * 100 + number, file * 1000 + number) for number in range(self.each)]
            if self.mode == "upsert" and files and rng.random() < 0.8:
                again = {row[0] for rows in files for row in rows}
                rows += [(number, file * 1000 + 500) for number in rng.sample(sorted(again), min(2, len(again)))]
            files.append(rows)
        return files

    @property
    def draws(self) -> list[str]:
        return [f"{self.kind} {self.mode}", f"trigger {self.trigger}"]


def table_case(seed: int, kind: Kind | None = None) -> TableCase:
    rng = random.Random(seed * 59 + 23)
    drawn: Kind = rng.choice(["sqlite", "sqlite", "iceberg", "postgres", "mariadb"])
    kind = kind or drawn
    change = rng.choice(CHANGES)
    moment: Moment = rng.choice(["staged", "completed", "completed"])
    mode: Mode = rng.choice(["append", "upsert", "replace"])
    triggers = [trigger for trigger in TRIGGERS[kind] if trigger != "keeps" or mode == "replace"]
    if change in ("rename column", "drop column"):  # an audit names the column, and a database refuses the change then
        triggers = [trigger for trigger in triggers if trigger != "audits"]
    runs = [
        TableRun(rng.randint(10, 90), rng.choice(["before", "after"]), rng.random() < 0.2)
        for _ in range(rng.choice([0, 1, 1, 2]))
    ]
    return TableCase(
        seed=seed,
        kind=kind,
        mode=mode,
        trigger=rng.choice(triggers),
        change=change,
        moment=moment,
        number=rng.randint(1, 3),
        files=(rng.randint(1, 3), rng.randint(1, 2)),
        each=rng.randint(1, 4),
        runs=(*runs, TableRun()),
    )
