"""Measured plans: the same functions for the library's job and for the plain Spark query.

As a job file (``bench/plans.py:job``) it builds the job from the environment (CKPT_BENCH_PLAN, JSON of :class:`Plan`).
The plain query is in ``one_run.py``.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_ckpt import FileSink, Job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

VARIABLE = "CKPT_BENCH_PLAN"
SCHEMA = "order_id BIGINT, customer INT, amount DOUBLE, ts BIGINT"


@dataclass(frozen=True)
class Plan:
    """A measured plan.

    Attributes:
        variant: A is history only, filter + projection. B is history and live, count and sums per customer.
        chain: False makes history a query of its own, with a result partition in between.
    """

    variant: str
    history: str
    live: str
    out: str
    files_per_trigger: int = 4
    chain: bool = True

    def to_environ(self) -> dict[str, str]:
        return {VARIABLE: json.dumps(asdict(self))}

    @property
    def output_mode(self) -> str:
        return "append" if self.variant == "A" else "update"


def cleaned(rows: DataFrame) -> DataFrame:
    return rows.where("amount >= 10.0").selectExpr(
        "order_id", "customer", "CAST(ROUND(amount * 100, 0) AS BIGINT) AS cents", "ts"
    )


def totals(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return (
        cleaned(rows)
        .groupBy("customer")
        .agg(F.count("*").alias("n"), F.sum("cents").alias("cents"), F.sum("order_id").alias("ids"))
    )


def build(plan: Plan) -> Job:
    job = Job("bench")

    @job.source(bounded=True, chain=plan.chain, max_files_per_trigger=plan.files_per_trigger)
    def history(read: Any) -> Any:
        return read.schema(SCHEMA).parquet(plan.history)

    if plan.variant == "A":
        result = job.transform(inputs=[history], uid="result")(cleaned)
    else:

        @job.source
        def live(read: Any) -> Any:
            return read.schema(SCHEMA).parquet(plan.live)

        result = job.transform(inputs=[history, live], uid="result", output_mode="update")(totals)
    job.sink("out", result, FileSink(plan.out))
    return job


if VARIABLE in os.environ:
    job = build(Plan(**json.loads(os.environ[VARIABLE])))
