"""Query with any state in Python: it counts the rows of each key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
from pyspark.sql import DataFrame
from pyspark.sql.streaming.stateful_processor import StatefulProcessor


class RunningCount(StatefulProcessor):
    """A processor that counts the rows of each key."""

    def init(self, handle: Any) -> None:
        self.seen = handle.getValueState("seen", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        n = sum(len(frame) for frame in rows) + (self.seen.get()[0] if self.seen.exists() else 0)
        self.seen.update((n,))
        yield pd.DataFrame({"k": [key[0]], "id": [n]})

    def close(self) -> None:
        pass


def running_count(rows: DataFrame) -> DataFrame:
    processor: Any = RunningCount()
    return rows.groupBy("k").transformWithStateInPandas(processor, "k long, id long", "append", "none")
