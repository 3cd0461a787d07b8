"""Flink's job in a race, submitted to a Flink of its own. Run it by a Python with ``apache-flink``, without this
package.

    python bench/flink_race.py '<bench.race_plan.RacePlan as JSON>' PORT

The job is SQL only: Python makes the plan, and no row passes through it. It runs with parallelism 2, exactly once, and
a checkpoint each second. B keeps its state in RocksDB, and discards its rows. Flink's REST API is on PORT until the job
is cancelled.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

ORDERS = "order_id BIGINT, customer INT, amount DOUBLE, ts BIGINT"
CLEANED = "order_id, customer, CAST(ROUND(amount * 100, 0) AS BIGINT) AS cents, ts"
TOTALS = "customer, COUNT(*) AS n, SUM(cents) AS cents, SUM(order_id) AS ids"


def settings(plan: dict[str, Any], port: str) -> dict[str, str]:
    return {
        "parallelism.default": "2",
        "rest.address": "localhost",
        "rest.port": port,
        "rest.bind-port": port,
        "state.backend.type": "hashmap" if plan["variant"] == "A" else "rocksdb",
        "web.checkpoints.history": "2000",
        "execution.checkpointing.interval": "1s",
        "execution.checkpointing.mode": "EXACTLY_ONCE",
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.dir": f"file://{plan['work']}/ckpt",
    }


def environment(conf: dict[str, str]) -> Any:
    made = Configuration()
    for key, value in conf.items():
        made.set_string(key, value)
    return TableEnvironment.create(
        EnvironmentSettings.new_instance().with_configuration(made).in_streaming_mode().build()
    )


def files(path: str, kind: str, **more: str) -> str:
    options = {"connector": "filesystem", "path": f"file://{path}", "format": kind, **more}
    return ", ".join(f"'{key}' = '{value}'" for key, value in options.items())


def statements(plan: dict[str, Any]) -> list[str]:
    """Return the SQL statements. The last one is the job itself."""
    live = {"source.monitor-interval": "100ms"}
    rows = f"SELECT {CLEANED} FROM (SELECT * FROM history UNION ALL SELECT * FROM live) WHERE amount >= 10.0"
    if plan["variant"] == "A":
        columns, sink = "order_id BIGINT, customer INT, cents BIGINT, ts BIGINT", files(plan["out"], plan["writes"])
    else:
        columns, sink = "customer INT, n BIGINT, cents BIGINT, ids BIGINT", "'connector' = 'blackhole'"
        rows = f"SELECT {TOTALS} FROM ({rows}) GROUP BY customer"
    return [
        f"CREATE TABLE history ({ORDERS}) WITH ({files(plan['history'], plan['reads'])})",
        f"CREATE TABLE live ({ORDERS}) WITH ({files(plan['live'], plan['reads'], **live)})",
        f"CREATE TABLE orders_out ({columns}) WITH ({sink})",
        f"INSERT INTO orders_out {rows}",
    ]


def main() -> None:
    plan = json.loads(sys.argv[1])
    tables = environment(settings(plan, sys.argv[2]))
    *before, insert = statements(plan)
    for statement in before:
        tables.execute_sql(statement)
    tables.execute_sql(insert).wait()


if __name__ == "__main__":
    main()
