"""Cost tables of ``docs/``, generated from counted requests: ``python -m tests.costs.tables`` writes them.

A table stands between ``<!-- costs: <name> -->`` and ``<!-- end of costs -->``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from airflow_provider_ckpt.remote.timing import LOCAL_POLL, REMOTE_POLL, Timing
from tests.costs.deployment import Idle
from tests.costs.driver import IdleDriver
from tests.costs.looks import awaiting_task, deferred_task, finished_tasks, sensor
from tests.costs.meter import Cost
from tests.docs.generated_tables import GeneratedTables, table

DRIVER = "`ckpt run`, for comparison"
WHOLE = "a master and five workers of a subtask each, one of which reads the other four"


@cache
def processes(poll: float) -> Mapping[str, Cost]:
    """Return the hourly costs of a deployment's parts.

    Each is the difference of two deployments that differ only in it.
    """
    timing = Timing(poll)
    two, three = Idle(1, [[0]], timing).costs(), Idle(2, [[0], [1]], timing).costs()
    shared, five = Idle(2, [[0, 1]], timing).costs(), Idle(4, [[0], [1], [2], [3]], timing).costs()
    each_worker = three["master"] - two["master"]
    each_subtask = shared["live/0"] - two["live/0"]
    return {
        "a master": two["master"] - each_worker * 2,
        "… for each worker": each_worker,
        "a worker": two["live/0"] - each_subtask,
        "… for each subtask that it runs": each_subtask,
        "… for each log that it reads": two["reader/0"] - two["live/0"],
        WHOLE: sum(five.values(), Cost(0, 0)),
        DRIVER: IdleDriver().cost(),
    }


def of_workers() -> str:
    far, near = processes(REMOTE_POLL), processes(LOCAL_POLL)
    head = ("an hour of", "GET, HEAD", "PUT, LIST", "a month of it", f"all, at `--poll {LOCAL_POLL * 1000:.0f}ms`")
    rows = [
        (name, *_counted(cost), _price(cost), "" if name == DRIVER else _number(round(_all(near[name]), -2)))
        for name, cost in far.items()
    ]
    return table(head, rows)


@cache
def looks() -> Mapping[tuple[str, str], Cost]:
    """Return the hourly costs by poller with its interval, and by the job's activity."""
    idle, busy = "writes nothing", "completes a checkpoint every 30 s"
    either, task = "a sensor or a `CheckpointReleaseTrigger`, every 10 s", "a deferred task that runs a job, every 10 s"
    return {
        ("a sensor, every 60 s", idle): sensor(60),
        (either, idle): sensor(10),
        (either, busy): sensor(10, 120),
        (task, idle): deferred_task(10, 60),
        (task, busy): deferred_task(10, 60, 120),
        ("a subtask's task that waits for a JobMaster, every 10 s", "has none"): awaiting_task(10),
        ("300 subtasks' tasks that have finished in batch mode, every 10 s", idle): finished_tasks(300, 10),
    }


def of_looks() -> str:
    head = ("who looks", "the job", "GET, HEAD an hour", "LIST an hour", "in a month")
    return table(head, [(*names, *_counted(cost), _price(cost)) for names, cost in looks().items()])


def _all(cost: Cost) -> float:
    return cost.gets + cost.puts


def _number(count: float) -> str:
    return f"{round(count):,}"


def _counted(cost: Cost) -> tuple[str, str]:
    return _number(cost.gets), _number(cost.puts)


def _price(cost: Cost) -> str:
    return f"${cost.a_month:,.2f}"


TABLES = GeneratedTables("costs", {"workers": of_workers, "looks": of_looks})


if __name__ == "__main__":
    TABLES.write()
