"""Replacement of the rows of an Iceberg table that have given keys.

pyiceberg finds rows by an expression with a term for each key. The expression is slow for many keys, and Arrow crashes
the process at some ten thousand keys of two columns. Here a short expression selects files by the range of each key
column, or by its values if they are few. A hash join with the keys finds the rows in each file.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

_NUMBER = "_ckpt_number"
_COMPARED = 200
"""Maximum number of key values of a column that pyiceberg compares one by one with the statistics of a file."""


def replace_rows(producer: Any, table: Any, rows: Any, key: Sequence[str]) -> None:
    """Add rows to the snapshot of an overwrite, and rewrite the files that have a row with one of their keys.

    Args:
        producer: the overwrite of ``pyiceberg.table.update.snapshot``, on top of the ``pyiceberg.table.Table``.
        rows: a ``pyarrow.Table`` with one row for each key.
    """
    keys = _keys(table, rows, key)
    write = functools.partial(_write_files, table, producer.commit_uuid, itertools.count())
    for task in table.scan(row_filter=_filter(keys)).plan_files():
        kept = _rows_to_keep(table, task, keys)
        if kept is not None:
            producer.delete_data_file(task.file)
            if kept.num_rows:  # pyiceberg divides by the number of rows, so it cannot write a file without rows
                _add(producer, write(kept))
    _add(producer, write(rows))


def add_rows(producer: Any, table: Any, rows_of_files: Iterable[Any]) -> None:
    """Add the rows of each ``pyarrow.Table`` to a snapshot, in files that pyiceberg writes."""
    counter = itertools.count()
    for rows in rows_of_files:
        _add(producer, _write_files(table, producer.commit_uuid, counter, rows))


def _add(producer: Any, files: Iterable[Any]) -> None:
    for file in files:
        producer.append_data_file(file)


def _write_files(table: Any, write_uuid: Any, counter: Any, rows: Any) -> Iterable[Any]:
    import pyarrow as pa
    from pyiceberg.io.pyarrow import _dataframe_to_data_files

    plain = pa.table(rows.columns, rows.column_names)  # ids in a staged file may be outdated
    files: Iterable[Any] = _dataframe_to_data_files(table.metadata, plain, table.io, write_uuid, counter)
    return files


def _keys(table: Any, rows: Any, key: Sequence[str]) -> Any:
    """Return the key columns of ``rows`` (a ``pyarrow.Table``), cast to the Iceberg table's types."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    schema = schema_to_pyarrow(table.schema().select(*key), include_field_ids=False)
    return rows.select(schema.names).cast(schema)


def _filter(keys: Any) -> Any:
    """Return a filter that matches every row with one of the keys, and possibly other rows.

    Above ``_COMPARED`` values of a column the filter has only their range.
    """
    import pyarrow as pa
    from pyarrow import compute
    from pyiceberg.expressions import AlwaysTrue, And, GreaterThanOrEqual, In, LessThanOrEqual, Reference
    from pyiceberg.expressions.literals import literal

    row_filter: Any = AlwaysTrue()
    for name in keys.column_names:
        term, values = Reference(name), compute.unique(keys[name])
        # Python has no dates and instants after the year 9999, so pyiceberg gets numbers.
        if pa.types.is_temporal(values.type):
            values = values.cast("int32" if pa.types.is_date(values.type) else "int64")
        if len(values) <= _COMPARED:
            row_filter = And(row_filter, In(term=term, values={literal(value) for value in values.to_pylist()}))
        else:
            ends = {end: value.as_py() for end, value in compute.min_max(values).items()}
            row_filter = And(row_filter, GreaterThanOrEqual(term=term, value=ends["min"]))
            row_filter = And(row_filter, LessThanOrEqual(term=term, value=ends["max"]))
    return row_filter


def _rows_to_keep(table: Any, task: Any, keys: Any) -> Any:
    """Return the rows of a file that have none of the keys; None if no row of the file has a key."""
    file_keys = _read(table, task, table.schema().select(*keys.column_names))
    if _mask_without_keys(file_keys, keys) is None:
        return None
    rows = _read(table, task, table.schema())
    return rows.filter(_mask_without_keys(rows, keys))


def _mask_without_keys(rows: Any, keys: Any) -> Any:
    """Return a mask that is true for rows without any of the keys; None if it is true for all rows."""
    import pyarrow as pa
    from pyarrow import compute

    numbers = pa.array(range(rows.num_rows), pa.int64())
    file_keys = rows.select(keys.column_names).cast(keys.schema).append_column(_NUMBER, numbers)
    kept = file_keys.join(keys, keys.column_names, join_type="left anti")[_NUMBER]
    return None if len(kept) == rows.num_rows else compute.is_in(numbers, value_set=kept)


def _read(table: Any, task: Any, schema: Any) -> Any:
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan

    return ArrowScan(table.metadata, table.io, schema, AlwaysTrue()).to_table([task])
