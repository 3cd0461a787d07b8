"""Differences between the columns of two writers of one folder, as its readers see them. Pure functions, no I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from airflow_provider_ckpt.sinks.errors import TargetRefusedError

_UNREAD = {"nullable", "metadata", "containsNull", "valueContainsNull"}
"""Parts of a type that do not change how values are read."""
Columns = Sequence[tuple[str, Any]]
"""(name, type as Spark's schema JSON has it), in order. None stands for an unknown type."""


def differences(
    mine: Columns, its: Columns, me: str, it: str, file_format: str, partition_by: Collection[str]
) -> list[str]:
    """Return how two lists of columns differ for a reader of the format, each difference as a phrase.

    ``me``, ``it``: names of the two writers.
    """
    differ = [*_only_one_has(mine, its, me, it), *type_differences(mine, its, me, it)]
    return [*differ, *_order(mine, its, me, it, partition_by)] if file_format == "csv" else differ


def type_differences(mine: Columns, its: Columns, me: str, it: str) -> Iterator[str]:
    """Yield a phrase for each column of both lists that has two types."""
    known = dict(its)
    for name, kind in mine:
        other = known.get(name)
        if kind is not None and other is not None and _comparable(kind) != _comparable(other):
            yield f"column {name!r} is {_shown(kind)} in {me} and {_shown(other)} in {it}"


def _only_one_has(mine: Columns, its: Columns, me: str, it: str) -> Iterator[str]:
    for where, here, there in ((me, mine, its), (it, its, mine)):
        names = {name for name, _ in there}
        only = [repr(name) for name, _ in here if name not in names]
        if only:
            yield f"only {where} has {', '.join(only)}"


def _order(mine: Columns, its: Columns, me: str, it: str, partition_by: Collection[str]) -> Iterator[str]:
    """Yield a phrase if the same columns have another order. Only CSV has columns by place, without partitions."""
    one, other = (_names(columns, partition_by) for columns in (mine, its))
    if one != other and sorted(one) == sorted(other):
        yield f"the order is {', '.join(one)} in {me} and {', '.join(other)} in {it}"


def _names(columns: Columns, partition_by: Collection[str]) -> list[str]:
    folders = {name.casefold() for name in partition_by}
    return [name for name, _ in columns if name.casefold() not in folders]


def _comparable(kind: Any) -> Any:
    if isinstance(kind, dict):
        return {key: _comparable(value) for key, value in kind.items() if key not in _UNREAD}
    return [_comparable(one) for one in kind] if isinstance(kind, list) else kind


def _shown(kind: Any) -> str:
    return str(kind["type"] if isinstance(kind, dict) else kind)


def columns_refused(sink: str, folder: str, other: str, differ: Iterable[str]) -> TargetRefusedError:
    """Return the error for a writer of a folder whose columns differ from those of ``other``."""
    return TargetRefusedError(
        "Sink {sink} cannot write to {folder}, because readers take the folder for one table, and {other} has other "
        "columns: {differ}. Give each a folder of its own, or select the same columns, in the same order and of the "
        "same types",
        sink=sink,
        folder=folder,
        other=other,
        differ="; ".join(differ),
    )
