"""A throw-away Airflow (SQLite), set up before anything imports Airflow, which reads its environment once."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

_HOME = Path(tempfile.mkdtemp(prefix="ckpt-airflow-"))
atexit.register(shutil.rmtree, _HOME, ignore_errors=True)
(_HOME / "dags").mkdir()
os.environ.update(
    AIRFLOW_HOME=str(_HOME),
    AIRFLOW__CORE__DAGS_FOLDER=str(_HOME / "dags"),
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=f"sqlite:///{_HOME}/airflow.db",
    AIRFLOW__LOGGING__BASE_LOG_FOLDER=str(_HOME / "logs"),
    AIRFLOW__USAGE_DATA_COLLECTION__ENABLED="False",
)

from collections.abc import Callable, Iterator  # noqa: E402
from typing import Any  # noqa: E402

import pytest  # noqa: E402

from airflow_provider_ckpt.journal.journal import Journal  # noqa: E402
from airflow_provider_ckpt.storage.opening import open_storage  # noqa: E402
from airflow_provider_ckpt.storage.root import open_root  # noqa: E402
from airflow_provider_ckpt.storage.storage import Storage  # noqa: E402
from tests.airflow.group_journal import FakeTaskStates  # noqa: E402
from tests.airflow.support import FakeSparkSubmit, run_dag  # noqa: E402


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.airflow)


@pytest.fixture(scope="session")
def airflow_db() -> None:
    from airflow.utils import db

    db.initdb()


@pytest.fixture
def run(airflow_db: None) -> Callable[..., Any]:
    """Run a Dag in this process: ``run(dag) -> (Dag run, {task id: task instance})``."""
    return run_dag


@pytest.fixture
def root(tmp_path: Path) -> Storage:
    return open_root(open_storage(tmp_path / "root"))


@pytest.fixture
def journal(root: Storage) -> Callable[[str], Journal]:
    return lambda job_id: Journal(root, job_id)


@pytest.fixture
def spark_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSparkSubmit]:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
    made = FakeSparkSubmit(tmp_path / "spark-submit")
    yield made
    (made.folder / "go").write_text("")  # ends the wait of a script after a failed test


@pytest.fixture
def task_states(monkeypatch: pytest.MonkeyPatch) -> FakeTaskStates:
    """Replace Airflow's answers about the states of a group's tasks."""
    from airflow_provider_ckpt.triggers.group_task_states import Siblings

    states = FakeTaskStates()
    monkeypatch.setattr(Siblings, "states", lambda self: states(self))
    return states


@pytest.fixture
def asked_tasks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the tasks whose state Airflow is asked for, and answer "deferred"."""
    from airflow_provider_ckpt.triggers.group_task_states import Siblings

    queried: list[str] = []

    def state(siblings: Siblings, task_id: str) -> str:
        queried.append(task_id)
        return "deferred"

    monkeypatch.setattr(Siblings, "state", state)
    return queried


@pytest.fixture
def group_arguments(spark_submit: FakeSparkSubmit, root: Storage, tmp_path: Path) -> dict[str, Any]:
    """Write the job's file, which is empty. Return the arguments that the tasks of its group share."""
    (tmp_path / "orders.py").write_text("")
    job = f"{tmp_path}/orders.py:job"
    return {"job": job, "root": root.uri, "spark_binary": spark_submit.path, "ckpt_group": "orders"}


@pytest.fixture
def subtask(
    group_arguments: dict[str, Any], task_states: FakeTaskStates, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    """Return a function that builds the task of history/0, which checks the group's tasks every 0.01 s."""
    from airflow_provider_ckpt.operators import subtask_task

    monkeypatch.setattr(subtask_task, "_POLL", 0.01)
    given = {**group_arguments, "subtask": "history/0", "coordinate": "orders.coordinate"}
    return lambda **more: subtask_task.SubtaskTaskOperator(task_id="subtask", **{**given, **more})
