"""Differences between the columns of two writers of one folder, as its readers see them. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from airflow_provider_ckpt.sinks.errors import TargetRefusedError
from airflow_provider_ckpt.sinks.spark_types import shown

_UNREAD = {"nullable", "metadata", "containsNull", "valueContainsNull"}
"""Keys in a type's schema JSON that do not change how values are read."""
Columns = Sequence[tuple[str, Any]]
"""(name, type as in Spark's schema JSON), in order. The type is None if it is unknown."""


def differences(
    own_columns: Columns,
    other_columns: Columns,
    own_name: str,
    other_name: str,
    file_format: str,
    partition_by: Collection[str],
) -> list[str]:
    """Return a phrase for each difference between two writers' columns that matters to readers of ``file_format``."""
    differ = [
        *_only_one_has(own_columns, other_columns, own_name, other_name),
        *type_differences(own_columns, other_columns, own_name, other_name),
    ]
    return (
        [*differ, *_order(own_columns, other_columns, own_name, other_name, partition_by)]
        if file_format == "csv"
        else differ
    )


def type_differences(own_columns: Columns, other_columns: Columns, own_name: str, other_name: str) -> Iterator[str]:
    """Yield a phrase for each column whose types in the two lists are known and differ."""
    other_types = dict(other_columns)
    for name, kind in own_columns:
        other_type = other_types.get(name)
        if kind is not None and other_type is not None and _comparable(kind) != _comparable(other_type):
            yield f"column {name!r} is {shown(kind)} in {own_name} and {shown(other_type)} in {other_name}"


def _only_one_has(own_columns: Columns, other_columns: Columns, own_name: str, other_name: str) -> Iterator[str]:
    for writer, columns, compared in ((own_name, own_columns, other_columns), (other_name, other_columns, own_columns)):
        names = {name for name, _ in compared}
        only = [repr(name) for name, _ in columns if name not in names]
        if only:
            yield f"only {writer} has {', '.join(only)}"


def _order(
    own_columns: Columns, other_columns: Columns, own_name: str, other_name: str, partition_by: Collection[str]
) -> Iterator[str]:
    """Yield one phrase if the lists have the same columns in different orders. Partition columns are ignored.

    Only CSV needs this check, because its readers identify columns by position.
    """
    own_order, other_order = (_names(columns, partition_by) for columns in (own_columns, other_columns))
    if own_order != other_order and sorted(own_order) == sorted(other_order):
        yield f"the order is {', '.join(own_order)} in {own_name} and {', '.join(other_order)} in {other_name}"


def _names(columns: Columns, partition_by: Collection[str]) -> list[str]:
    folders = {name.casefold() for name in partition_by}
    return [name for name, _ in columns if name.casefold() not in folders]


def _comparable(kind: Any) -> Any:
    if isinstance(kind, dict):
        return {key: _comparable(value) for key, value in kind.items() if key not in _UNREAD}
    return [_comparable(part) for part in kind] if isinstance(kind, list) else kind


def columns_refused(sink: str, folder: str, other: str, differ: Iterable[str]) -> TargetRefusedError:
    """Return the error that refuses ``sink`` because its columns differ from those of ``other``, a sink or file."""
    return TargetRefusedError(
        "Sink {sink} cannot write to {folder}, because readers take the folder for one table, and {other} has other "
        "columns: {differ}. Give each a folder of its own, or select the same columns, in the same order and of the "
        "same types",
        sink=sink,
        folder=folder,
        other=other,
        differ="; ".join(differ),
    )
