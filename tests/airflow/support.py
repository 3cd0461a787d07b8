"""Helpers of the Airflow tests: a scripted spark-submit and clock, a state store, a Dag run."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from airflow.sdk import DAG, BaseOperator
    from airflow.sdk.exceptions import TaskDeferred

_PROGRAM = """#!{python}
import json, os, pathlib, shutil, sys
here = pathlib.Path({folder!r})
number = len(list(here.glob("call-*.json")))
connections = {{name: value for name, value in os.environ.items() if name.startswith("AIRFLOW_CONN_")}}
call = {{"argv": sys.argv[1:], "storage_options": os.environ.get("CKPT_STORAGE_OPTIONS"), "pid": os.getpid(),
        "connections": connections}}
(here / f"call-{{number}}.json").write_text(json.dumps(call))
play = json.loads((here / f"play-{{number}}.json").read_text())
def say(line):
    start, token = "CKPT {{", os.environ.get("CKPT_STATUS_TOKEN")
    print(f"CKPT {{token}} {{line[5:]}}" if token and line.startswith(start) else line, flush=True)
for line in play["lines"]:
    say(line)
if play["copy"]:
    shutil.copytree(*play["copy"], dirs_exist_ok=True)
if play["wait"]:
    (here / "waiting").write_text("")
    import time
    while not (here / "go").exists():
        time.sleep(0.02)
for line in play["after"]:
    say(line)
sys.exit(play["exit"])
"""


def status(kind: str, message: str = "", **data: Any) -> str:
    """Return a status line. FakeSparkSubmit prints it with its token, as a driver does, if nothing is before it."""
    return "CKPT " + json.dumps({"kind": kind, "message": message or kind, **data})


@dataclass
class Call:
    """Recorded call of spark-submit."""

    argv: list[str]
    storage_options: str | None
    pid: int
    connections: dict[str, str] = field(default_factory=dict)

    @property
    def options(self) -> dict[str, Any]:
        """Return the run options that the driver got."""
        options: dict[str, Any] = json.loads(self.argv[self.argv.index("--options") + 1])
        return options

    def value(self, flag: str) -> str:
        return self.argv[self.argv.index(flag) + 1]


class FakeSparkSubmit:
    """Program that the real SparkSubmitHook starts. It plays one script for each call, in order."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.path = str(folder / "spark-submit")
        Path(self.path).write_text(_PROGRAM.format(python=sys.executable, folder=str(folder)))
        Path(self.path).chmod(0o755)
        self._plays = 0

    def play(
        self,
        *lines: str,
        exit: int = 0,  # noqa: A002 - the word of the thing
        copy: tuple[Path, Path] | None = None,
        wait: bool = False,
        after: Sequence[str] = (),
    ) -> None:
        """Script the next call: print ``lines``, copy a folder, wait for the file ``go``, print ``after``, and exit."""
        script = {
            "lines": lines,
            "exit": exit,
            "copy": copy and [str(path) for path in copy],
            "wait": wait,
            "after": after,
        }
        (self.folder / f"play-{self._plays}.json").write_text(json.dumps(script))
        self._plays += 1

    @property
    def calls(self) -> list[Call]:
        paths = sorted(self.folder.glob("call-*.json"), key=lambda path: int(path.stem[5:]))
        return [Call(**json.loads(path.read_text())) for path in paths]


@dataclass
class StateStore:
    """Task state store of one task instance. It counts its calls."""

    values: dict[str, Any] = field(default_factory=dict)
    reads: int = 0
    writes: list[Any] = field(default_factory=list)
    broken: bool = False

    def get(self, key: str, default: Any = None) -> Any:
        self.reads += 1
        return self.values.get(key, default)

    def set(self, key: str, value: Any) -> None:
        if self.broken:
            raise ConnectionError("the API server does not answer")
        self.values[key] = json.loads(json.dumps(value))
        self.writes.append(self.values[key])

    def delete(self, key: str) -> None:
        self.values.pop(key, None)


def context(
    store: StateStore, *, try_number: int = 1, max_tries: int = 2, run_id: str = "r1", clear_number: int = 0
) -> Any:
    """Return a task's context. ``context["ti"].pushed`` has its XComs."""
    pushed: dict[str, Any] = {}
    ti = SimpleNamespace(
        pushed=pushed,
        xcom_push=pushed.__setitem__,
        dag_id="shop",
        task_id="orders",
        run_id=run_id,
        map_index=-1,
        try_number=try_number,
        max_tries=max_tries,
    )
    dag_run = SimpleNamespace(clear_number=clear_number, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc))
    return {"task_state_store": store, "ti": ti, "dag_run": dag_run}


def run_dag(dag: DAG, **arguments: Any) -> tuple[Any, Mapping[str, Any]]:
    """Run ``dag.test()`` for a Dag in no Dags folder. Return the Dag run and its task instances."""
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.session import create_session

    with create_session() as session:
        session.merge(DagBundleModel(name="testing"))
    bag = DagBag(dag_folder=os.devnull)
    bag.bag_dag(dag)
    sync_bag_to_db(bag, bundle_name="testing", bundle_version=None)
    dag_run = dag.test(**arguments)
    return dag_run, {ti.task_id: ti for ti in dag_run.get_task_instances()}


def lines_of(records: Sequence[Any]) -> str:
    return "\n".join(record.getMessage() for record in records)


def deferral_of(operator: BaseOperator, run: Any) -> TaskDeferred:
    """Execute a task, which must be deferred, and return its deferral."""
    from airflow.sdk.exceptions import TaskDeferred

    with pytest.raises(TaskDeferred) as caught:
        operator.execute(run)
    return caught.value


class ScriptedClock:
    """Clock whose sleeps run a function each.

    ``between``: the functions, from the second sleep on. A further sleep fails.
    """

    def __init__(self, *between: Callable[[], object]) -> None:
        self.slept: list[float] = []
        self._between = [lambda: None, *between]

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if len(self.slept) > len(self._between):
            raise AssertionError("the trigger still waits")
        await asyncio.to_thread(self._between[len(self.slept) - 1])
