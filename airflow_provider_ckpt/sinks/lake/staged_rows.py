"""Readers of the rows in the staged files of a release."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Any

from airflow_provider_ckpt.sinks.lake.intents import Intent
from airflow_provider_ckpt.storage.storage import Storage

_NUMBER = "_ckpt_number"


def newest_rows(storage: Storage, intent: Intent) -> Any:
    """Return the rows of an intent as one ``pyarrow.Table``. Of several rows with the same key it has only the last."""
    import pyarrow as pa

    rows = pa.concat_tables(list(rows_of_files(storage, intent)))
    numbered = rows.append_column(_NUMBER, pa.array(range(rows.num_rows), pa.int64()))
    newest = numbered.group_by(list(intent.key)).aggregate([(_NUMBER, "max")])
    return rows.take(newest.column(f"{_NUMBER}_max").sort())


def rows_of_files(storage: Storage, intent: Intent) -> Iterator[Any]:
    """Yield a ``pyarrow.Table`` for each file of an intent. Only one file is in memory at a time."""
    from pyarrow import parquet

    for file in intent.files:
        yield parquet.read_table(BytesIO(storage.read(file.target)))
