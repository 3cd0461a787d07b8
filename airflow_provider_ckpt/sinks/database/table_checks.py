"""Checks that rows with given columns can be released to the table as it is now. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_ckpt.sinks.spark_types import shown

Columns = Sequence[tuple[str, Any]]
"""(name, type as in Spark's schema JSON), in order."""
Problem = tuple[str, str]
"""(the problem, the advice)."""
_NEEDED = {"append": ("SELECT", "INSERT"), "upsert": ("SELECT", "INSERT", "UPDATE")}
_NEEDED["replace"] = (*_NEEDED["append"], "DELETE")


@dataclass(frozen=True)
class TargetColumn:
    """The properties of one column of the target.

    ``type``: type in the database's spelling. ``has_default``: True if the database supplies a value when a row has
    none. ``is_computed``: True if the database accepts no value for the column.
    """

    type: str
    not_null: bool
    has_default: bool
    is_computed: bool


def rights_needed(mode: str) -> tuple[str, ...]:
    return _NEEDED[mode]


def column_problems(
    columns: Columns, table_columns: Mapping[str, TargetColumn], fits: Callable[[Any, str], bool], database: str
) -> Iterator[Problem]:
    """Yield the problems of a table's columns for rows with ``columns``.

    ``fits``: returns True if a column type of the database stores each value of a Spark type.
    """
    for name, kind in columns:
        column = table_columns.get(name)
        if column is None:
            has = ", ".join(table_columns)
            yield (
                f"it has no column {name!r} (it has {has})",
                "Drop or rename the column in the job, or add it to the table",
            )
        elif column.is_computed:
            yield f"{database} itself sets the values of column {name!r}", "Leave the column out of the job's rows"
        elif not fits(kind, column.type):
            problem = (
                f"column {name!r} is {shown(kind)} in the job and {column.type} in the table, which does not keep all "
                "of its values"
            )
            yield problem, "Cast it in the job, or alter the table"
    job_columns = {name for name, _ in columns}
    for name, column in table_columns.items():
        if name not in job_columns and column.not_null and not column.has_default and not column.is_computed:
            yield (
                f"its column {name!r} is NOT NULL and has no default, and the job has no such column",
                "Select it, too",
            )


def nullable_key_problems(
    key: Collection[str], table_columns: Mapping[str, TargetColumn], advice: str
) -> Iterator[Problem]:
    """Yield a problem for each nullable column of the key. ``advice`` contains ``{name}``."""
    for name in key:
        if name in table_columns and not table_columns[name].not_null:
            problem = f"column {name!r} of its key may be NULL, and an upsert never finds such rows"
            yield problem, advice.format(name=name)
