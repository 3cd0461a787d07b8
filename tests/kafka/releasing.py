"""Process that releases staged rows to a topic, and kills itself (kill -9) at a given step. It needs no Spark (R16).

``plan``: a file with handles by checkpoint. ``journal``: a file with the last checkpoint that was reported as released.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from airflow_provider_ckpt.sinks.kafka.bound_kafka_sink import BoundKafkaSink
from airflow_provider_ckpt.sinks.kafka.ledger import Ledger
from airflow_provider_ckpt.sinks.kafka.staging import KafkaStaging
from airflow_provider_ckpt.sinks.sink import Handle, SinkContext
from airflow_provider_ckpt.storage.opening import open_storage
from tests.kafka.faults import HookedClient

CONTEXT = SinkContext("orders", "lake")
STEPS = ("settle", "begin", "send", "record", "commit", "in the commit", "journal")


def staged_outside(servers: str, topic: str, folder: Path, batch: int, rows: range) -> Handle:
    """Stage a batch without Spark, with the same result as :meth:`BoundKafkaSink.stage`."""
    staging = KafkaStaging(open_storage(folder), CONTEXT, topic)
    ledger = Ledger(HookedClient("lake", servers, {}, 60), CONTEXT, topic)
    name = f"a1-{batch}-n{batch}"
    file = folder / staging.place(name) / "part-0.parquet"
    file.parent.mkdir(parents=True)
    values = [str(number).encode() for number in rows]
    parquet.write_table(pa.table({"key": values, "value": values}), file)
    return staging.handle(name, len(rows), [(file.name, file.stat().st_size)], ledger.id(), 0)


def main(servers: str, topic: str, folder: str, at: str, when: str, delay: float) -> None:
    home = Path(folder)
    plan = {int(number): handles for number, handles in json.loads((home / "plan").read_text()).items()}
    journal = home / "journal"
    client = HookedClient("lake", servers, {}, 60)
    sink = BoundKafkaSink(topic, client, CONTEXT, open_storage(home / "staging"))

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def step(name: str) -> None:
        if name == at:
            die()

    def before(name: str) -> None:
        if at == "in the commit" and name == "commit":
            threading.Timer(delay, die).start()
        if when == "before":
            step(name)

    client.before = before
    client.after = step if when == "after" else lambda name: None
    released = int(journal.read_text()) if journal.exists() else 0
    while released < max(plan):
        # checkpoints completed without a running releaser are released together with a later one
        number = min(released + 2, max(plan)) if at == "" else released + 1
        sink.release([handle for key in plan if released < key <= number for handle in plan[key]], number)
        if at == "journal":
            die()
        journal.with_suffix(".new").write_text(str(number))
        journal.with_suffix(".new").replace(journal)
        released = number


if __name__ == "__main__":
    given = sys.argv[1:]
    main(given[0], given[1], given[2], given[3], given[4], float(given[5]))
