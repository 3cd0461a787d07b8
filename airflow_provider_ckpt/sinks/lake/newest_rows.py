"""The rows of a release that replace those with the same key."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from airflow_provider_ckpt.sinks.lake.intents import Intent
from airflow_provider_ckpt.storage.storage import Storage

_NUMBER = "_ckpt_number"


def newest_rows(storage: Storage, intent: Intent) -> Any:
    """A ``pyarrow.Table``, all in memory: of several rows with one key the one that was staged last."""
    import pyarrow as pa
    from pyarrow import parquet

    whole = pa.concat_tables([parquet.read_table(BytesIO(storage.read(file.path))) for file in intent.files])
    numbered = whole.append_column(_NUMBER, pa.array(range(whole.num_rows), pa.int64()))
    last = numbered.group_by(list(intent.key)).aggregate([(_NUMBER, "max")])
    return whole.take(last.column(f"{_NUMBER}_max").sort())
