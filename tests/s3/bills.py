"""Bill of a job whose input, root and output are in an object store, counted with a local server.

``python -m tests.s3.bills`` counts again and writes the table of docs/object-store.md between ``<!-- bills -->`` and
``<!-- end of bills -->``.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from airflow_provider_ckpt.job.options.run_options import storage_options_environ
from tests.chaos.world import Driver
from tests.costs.meter import Cost
from tests.docs.examples import ROOT
from tests.s3.jars import hadoop_aws
from tests.s3.request_log import Request, RequestLog, cost
from tests.s3.store import Bucket, Server
from tests.s3.world import CONF
from tests.support.waiting import wait_until

PAGE = ROOT / "docs" / "object-store.md"
JOB = Path(__file__).parent / "jobs" / "live.py"
JOB_ID = "bill"
NEVER = 86_400.0
"""Checkpoint interval in seconds that no run reaches."""
POLLS = 20
"""Number of the driver's polls for stop and drain requests, one per second. It is the duration of a measurement."""
HOUR = 3600.0
FILES = 10
"""Number of measured micro-batches. Every tenth one is more expensive."""

START = "the start of a new job, until RUNNING"
RESTART = "a start after a kill, until RUNNING"
BATCH = "a micro-batch, one file in and one out, and the checkpoint that releases it"
CHECKPOINT = "a checkpoint with nothing new"
IDLE = "an hour of nothing, without checkpoints"
CONSUMER = "… for a query more, which reads a result partition"
_TABLE = re.compile(r"(<!-- bills -->\n).*?(<!-- end of bills -->)", re.DOTALL)


@dataclass
class Account:
    """Account of one job's requests to ``server``. Leaving the context kills the job's drivers."""

    server: Server
    jars: Path
    folder: Path
    chain: bool = True
    drivers: list[Driver] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bucket: Bucket = self.server.bucket()
        self.log, self.files = RequestLog(self.server.log), 0
        self.put()

    def __enter__(self) -> Account:
        return self

    def __exit__(self, *exc: object) -> None:
        for driver in self.drivers:
            driver.end()

    def put(self) -> None:
        """Upload an input file. This adds one request of the test itself."""
        self.bucket.put(f"data/live/{self.files:04d}.parquet", range(self.files * 20, self.files * 20 + 20))
        self.files += 1

    def start(self, checkpoint_interval: float) -> Driver:
        conf = {**CONF, "spark.driver.extraClassPath": f"{self.jars}/*"}
        options = {
            "job": f"{JOB}:job",
            "root": f"s3://{self.bucket.name}/ckpt",
            "job_id": JOB_ID,
            "conf": conf,
            "checkpoint_interval": checkpoint_interval,
        }
        command = [sys.executable, "-m", "airflow_provider_ckpt.spark.main", "--options", json.dumps(options)]
        env = {
            **storage_options_environ(self.bucket.options),
            "CKPT_S3_BASE": f"s3a://{self.bucket.name}/data",
            "CKPT_S3_CHAIN": "1" if self.chain else "0",
        }
        driver = Driver(command, self.folder / f"driver-{len(self.drivers)}.log", env=env)
        self.drivers.append(driver)
        return driver

    def watched(self, polls: int = POLLS) -> list[Request]:
        """Return the requests of as many seconds, measured by the driver's polls."""
        seen: list[Request] = []

        def has_polls() -> bool:
            assert self.drivers[-1].exit_code is None, self.drivers[-1].tail()
            seen.extend(self.log.taken())
            return sum(is_poll(request) for request in seen) >= polls

        wait_until(has_polls, lambda: f"{polls} polls\n{self.drivers[-1].tail()}", seconds=300, every=0.02)
        return seen

    def started(self, checkpoint_interval: float) -> Cost:
        self.log.taken()
        self.start(checkpoint_interval).wait_for("running", seconds=300)
        return cost(self.log.taken())

    def until_quiet(self) -> list[Request]:
        """Return all requests until the job no longer writes."""
        seen = last = self.watched(5)
        while any(request.verb == "PUT" for request in last):
            seen += (last := self.watched(5))
        return seen

    def released(self) -> list[Request]:
        """Return all requests until FILES further batches are released, one by one."""
        seen: list[Request] = []
        for _ in range(FILES):
            before = self.releases()
            self.put()
            while self.releases() == before:
                seen += self.watched(1)
        return seen + self.watched(3)

    def releases(self) -> int:
        return sum(" rows" in line["message"] for line in self.drivers[-1].lines("released"))

    def with_checkpoints(self, second: Cost, watch: Callable[[], list[Request]]) -> tuple[Cost, int]:
        """Return the cost of ``watch`` without an idle job's cost, and the number of checkpoints meanwhile."""
        lines = self.drivers[-1].lines
        before = len(lines("checkpoint"))
        seen = watch()
        return cost(seen) - second * polls(seen), len(lines("checkpoint")) - before


def is_poll(request: Request) -> bool:
    return request.verb == "LIST" and request.path.endswith("/requests/")


def polls(requests: Sequence[Request]) -> int:
    return sum(map(is_poll, requests))


def idle(account: Account) -> Cost:
    """Return the cost of one second of an idle job."""
    seen = account.watched()
    return cost(seen) * (1 / polls(seen))


def bills(server: Server, jars: Path, folder: Path) -> dict[str, Cost]:
    """Return the measured costs. The cost of an idle job is subtracted from everything that takes time."""
    costs: dict[str, Cost] = {}
    with Account(server, jars, folder) as account:
        costs[START] = account.started(NEVER)
        account.until_quiet()
        second = idle(account)
        account.drivers[-1].end()
        costs[RESTART] = account.started(1.0)
        account.drivers[-1].wait_for("released")
        account.watched(5)
        nothing, checkpoints = account.with_checkpoints(second, lambda: account.watched(2 * POLLS))
        costs[CHECKPOINT] = nothing * (1 / checkpoints)
        something, checkpoints = account.with_checkpoints(second, account.released)
        costs[BATCH] = (something - costs[CHECKPOINT] * (checkpoints - FILES)) * (1 / FILES)
    costs[IDLE] = second * HOUR
    with Account(server, jars, folder, chain=False) as account:
        account.started(1.0)
        while not account.releases():
            account.watched(1)
        account.drivers[-1].end()
        account.started(NEVER)
        account.until_quiet()
        costs[CONSUMER] = (idle(account) - second) * HOUR
    return costs


def table(costs: Mapping[str, Cost]) -> str:
    lines = ["| | GET, HEAD | PUT, COPY, LIST | price |", "| --- | --- | --- | --- |"]
    for name in (START, RESTART, BATCH, CHECKPOINT, IDLE, CONSUMER):
        cost = costs[name]
        price = f"${cost.a_month:,.2f} a month" if name in {IDLE, CONSUMER} else f"${cost.price * 1000:,.2f} for 1,000"
        lines.append(f"| {name} | {cost.gets:,.0f} | {cost.puts:,.0f} | {price} |")
    return "".join(f"{line}\n" for line in lines)


def shown(page: str) -> dict[str, Cost]:
    """Return the costs shown in a page's table."""
    rows = [line.strip("| ").split(" | ") for line in _TABLE.search(page)[0].splitlines() if line.startswith("| ")]  # type: ignore[index]
    return {name: Cost(float(gets.replace(",", "")), float(puts.replace(",", ""))) for name, gets, puts, _ in rows[2:]}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch, Server(Path(scratch)) as running:
        counted = table(bills(running, hadoop_aws(), Path(scratch)))
    text = PAGE.read_text("utf-8")
    PAGE.write_text(_TABLE.sub(lambda match: match[1] + counted + match[2], text), encoding="utf-8")
