"""Process that releases batches to a Delta table, one per checkpoint. Tests kill it or run several at once.

``python -m tests.lakes.releasing <table> <handles.json> [<step> <checkpoint>]``: with a step (``before`` or ``after``
the commit) it creates a marker file there, and waits to be killed.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

from airflow_provider_ckpt.errors import TransientError
from airflow_provider_ckpt.sinks.delta.delta_sink import DeltaSink
from airflow_provider_ckpt.sinks.lake.bound_lake_sink import BoundLakeSink
from airflow_provider_ckpt.sinks.lake.intents import Intent
from airflow_provider_ckpt.sinks.lake.table import Snapshot
from airflow_provider_ckpt.sinks.sink import SinkContext
from airflow_provider_ckpt.storage.opening import open_storage
from tests.lakes.crashing_table import WrappedTable

CONTEXT = SinkContext("orders", "lake")
REACHED = "reached"


class Held(WrappedTable):
    step, checkpoint, said = "", 0, Path()

    def commit(self, snapshot: Snapshot, intent: Intent, number: int) -> None:
        if intent.checkpoint == self.checkpoint and self.step == "before":
            self.hold()
        super().commit(snapshot, intent, number)
        if intent.checkpoint == self.checkpoint and self.step == "after":
            self.hold()

    def hold(self) -> None:
        self.said.touch()
        threading.Event().wait()


def main(table: str, handles: str, step: str = "", checkpoint: str = "0") -> None:
    sink = DeltaSink(table)
    held = Held(sink.table(open_storage(table), CONTEXT), None)
    held.step, held.checkpoint, held.said = step, int(checkpoint), Path(handles).with_name(REACHED)
    bound = BoundLakeSink(held, sink.settings, CONTEXT)
    for number, handle in enumerate(json.loads(Path(handles).read_text()), start=1):
        while True:
            try:
                bound.release([handle], number)
            except TransientError:
                continue
            break


if __name__ == "__main__":
    main(*sys.argv[1:])
