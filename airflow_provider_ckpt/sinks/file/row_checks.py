"""Checks that Spark's file writers can write a sink's columns. No I/O. The rules are those of Spark 4.2's code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from airflow_provider_ckpt.sinks.errors import InvalidSinkError, SinkInputError
from airflow_provider_ckpt.sinks.sink import SinkInput
from airflow_provider_ckpt.sinks.spark_types import plain, shown

_REFUSED = {
    "parquet": ("interval",),
    "json": ("interval", "geometry", "geography"),
    "orc": ("interval", "geometry", "geography", "void", "variant"),
    "csv": ("interval", "geometry", "geography", "void", "variant"),
}
_NO_FOLDER_NAME = ("interval", "geometry", "geography", "void", "variant")
"""Types that cannot be partition columns, because a folder's name would not read back as the same value."""


def check_file_input(given: SinkInput, file_format: str, partition_by: Sequence[str], sink: str = "FileSink") -> None:
    """Refuse columns that the file format cannot store, and a ``partition_by`` that does not fit the columns.

    Raises SinkInputError for a column, InvalidSinkError for ``partition_by``.
    """
    if not given.columns:
        raise _refused(given, "its input has no columns", "Select at least one")
    _check_names(given)
    partitions = {_partition_column(given, name, sink) for name in partition_by}
    if len(partitions) == len(given.columns):
        reason = f"is every column of the input of sink {given.uid}: the files would hold none. Leave one out"
        raise InvalidSinkError(sink=sink, setting="partition_by", value=list(partition_by), reason=reason)
    for name, kind in given.columns:
        if name in partitions:
            _check_partition(given, name, kind, sink)
        else:
            _check_type(given, file_format, name, kind)


def _check_names(given: SinkInput) -> None:
    seen: dict[str, str] = {}
    for name, _ in given.columns:
        if name.casefold() in seen:
            first = seen[name.casefold()]
            problem = f"its input has the columns {first!r} and {name!r}, and readers ignore case"
            raise _refused(given, problem, "Rename or drop one of the two")
        seen[name.casefold()] = name


def _partition_column(given: SinkInput, wanted: str, sink: str) -> str:
    """Return the input column for ``wanted``, a name in ``partition_by``. Spark ignores case by default.

    Raises InvalidSinkError if the input has no such column.
    """
    names = [name for name, _ in given.columns]
    for name in names:
        if name == wanted:
            return name
    for name in names:
        if name.casefold() == wanted.casefold():
            return name
    reason = f"is no column of the input of sink {given.uid}; it has {', '.join(map(repr, names))}"
    raise InvalidSinkError(sink=sink, setting="partition_by", value=wanted, reason=reason)


def _check_partition(given: SinkInput, name: str, kind: Any, sink: str) -> None:
    kind = plain(kind)
    if not isinstance(kind, str) or _family(kind) in _NO_FOLDER_NAME:
        reason = (
            f"is a column of type {shown(kind)} in the input of sink {given.uid}, and no folder can be named by such a "
            "value. Partition by a column derived from it, for example as text or date"
        )
        raise InvalidSinkError(sink=sink, setting="partition_by", value=name, reason=reason)


def _check_type(given: SinkInput, file_format: str, name: str, kind: Any) -> None:
    kind = plain(kind)
    if file_format == "csv" and isinstance(kind, dict):
        problem = f"column {name!r} is of type {kind['type']}, which CSV cannot hold"
        raise _refused(given, problem, "Make text of it (to_json), take it apart, or write another format")
    for leaf in _leaves(kind):
        if leaf == "struct" or _family(leaf) in _REFUSED[file_format]:
            what = "a struct without fields" if leaf == "struct" else f"of type {leaf}"
            inside = "" if leaf == kind else "holds what is "
            problem = f"column {name!r} {inside or 'is '}{what}, which {file_format.upper()} cannot hold"
            raise _refused(given, problem, "Cast it to another type (of NULL: CAST(NULL AS STRING)), or leave it out")


def _leaves(kind: Any) -> Iterator[str]:
    """Yield the names of the elementary types inside a type; ``struct`` for a struct without fields."""
    kind = plain(kind)
    if not isinstance(kind, dict):
        yield str(kind)
        return
    parts = [field["type"] for field in kind["fields"]] if kind["type"] == "struct" else []
    parts += [kind[key] for key in ("elementType", "keyType", "valueType") if key in kind]
    if not parts:
        yield str(kind["type"])
    for part in parts:
        yield from _leaves(part)


def _family(kind: str) -> str:
    """Return a type without its arguments: ``geometry`` for ``geometry(SRID:0)``, but ``interval day`` unchanged."""
    return kind.partition("(")[0]


def _refused(given: SinkInput, problem: str, advice: str) -> SinkInputError:
    return SinkInputError(sink=given.uid, problem=problem, advice=advice)
