"""Airflow's pages of a group in a browser: the grid, the graph and the list of its subtasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.airflow_real.browser import NOT_INSTALLED, Browser, chromium
from tests.airflow_real.server import Airflow
from tests.chaos.world import SMALL
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.airflow_real,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(chromium() is None, reason=NOT_INSTALLED),
]

JOB = Path(__file__).parent / "jobs" / "once_failing.py"
SUBTASKS = {"history/0", "history/1", "doubled/0"}
CONF = {name: value for name, value in SMALL.items() if name != "spark.master"}
DAG = f"""
from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_ckpt import CheckpointedSparkJobGroup

with DAG("shop", schedule=None, default_args={{"retry_delay": timedelta(seconds=1)}}):
    CheckpointedSparkJobGroup("orders", job={f"{JOB}:job"!r}, spark={{"conf": {CONF!r}}})
"""
TREE = "[...document.querySelectorAll('#main-panel [data-node-id]')].map(e => [e.dataset.nodeId, e.innerText.trim()])"
"""Rows of the grid: id → visible text."""
CELLS = "[...document.querySelectorAll('#main-panel a[href*=\"/runs/\"]')].map(e => e.getAttribute('href'))"
NODES = "[...document.querySelectorAll('.react-flow__node')].map(e => [e.dataset.id, e.innerText.trim()])"
"""Boxes of the graph."""
TABLE = (
    "[...document.querySelectorAll('table tbody tr')].map(row => Object.fromEntries("
    "[...row.querySelectorAll('td')].map(e => [e.dataset.testid, e.innerText.trim()])))"
)


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    base = tmp_path_factory.mktemp("world")
    env = {
        "CKPT_CHAOS_BASE": str(base),
        "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[1]"}',
        "AIRFLOW_CONN_CKPT_DEFAULT": f'{{"conn_type": "ckpt", "host": "{base}/ckpt"}}',
    }
    with Airflow(tmp_path_factory.mktemp("airflow"), env) as running:
        (running.dags / "dags.py").write_text(DAG)
        yield running


def test_grid_and_graph_show_the_group_with_its_subtasks_and_tries(airflow: Airflow, tmp_path: Path) -> None:
    run = airflow.start_dag("shop")
    tries = _ended(airflow, run)
    assert sorted(tries.values()) == [1, 1, 2], "a split fails once"
    with Browser() as browser:
        airflow.log_in_to(browser)
        _check_grid(browser, airflow, run)
        browser.screenshot(tmp_path / "grid.png")
        _check_graph(browser)
        browser.screenshot(tmp_path / "graph.png")
        _check_subtasks(browser, airflow, run, tries)
        browser.screenshot(tmp_path / "subtasks.png")


def _ended(airflow: Airflow, run: str) -> dict[str, int]:
    """Wait for the end of the run. Return the number of tries of each subtask from the REST API."""

    def logs() -> str:
        tasks = ("orders.plan", "orders.subtask", "orders.coordinate")
        return "\n".join(airflow.task_log("shop", name)[-5000:] for name in tasks)

    def states() -> set[str]:
        return {str(task["state"]) for task in airflow.tasks("shop", run)}

    wait_until(lambda: states() <= {"success", "failed", "upstream_failed"}, logs, seconds=600, every=1)
    assert states() == {"success"}, logs()
    tries = {task["rendered_map_index"]: task["try_number"] for task in airflow.tasks("shop", run)}
    return {name: tries[name] for name in SUBTASKS}


def _check_grid(browser: Browser, airflow: Airflow, run: str) -> None:
    """Check that the grid has a row for the group and each task, and a cell for each task of the run."""
    browser.open(f"{airflow.url}/dags/shop/runs/{run}")
    browser.wait_for(lambda: browser.click('[data-testid="expand-all-button"]:not([disabled])'), "a group to expand")
    rows = {
        "orders": "orders",
        "orders.plan": "plan",
        "orders.subtask": "subtask [ ]",
        "orders.coordinate": "coordinate",
    }
    browser.wait_for(lambda: dict(browser.evaluate(TREE)) == rows, f"the rows {rows}")
    tasks = ("group/orders", "orders.plan", "orders.subtask", "orders.coordinate")
    cells = tuple(f"/dags/shop/runs/{run}/tasks/{name}" for name in tasks)
    browser.wait_for(lambda: all(_is_among(browser.evaluate(CELLS), cell) for cell in cells), f"the cells {cells}")


def _is_among(links: list[str], wanted: str) -> bool:
    return any(link.startswith(wanted) for link in links)


def _check_graph(browser: Browser) -> None:
    """Check that the graph shows the expanded group, too."""
    browser.wait_for(lambda: browser.click('button[value="graph"]'), "the button of the graph")
    names = {
        "orders": "orders",
        "orders.plan": "plan",
        "orders.subtask": "subtask [3]",
        "orders.coordinate": "coordinate",
    }

    def is_shown() -> bool:
        boxes = dict(browser.evaluate(NODES))
        return all(boxes.get(node, "").startswith(name) for node, name in names.items())

    browser.wait_for(is_shown, f"the boxes {names}")


def _check_subtasks(browser: Browser, airflow: Airflow, run: str, tries: dict[str, int]) -> None:
    browser.open(f"{airflow.url}/dags/shop/runs/{run}/tasks/orders.subtask/mapped")

    def shown() -> dict[str, tuple[str, str]]:
        rows = [row for row in browser.evaluate(TABLE) if row.get("table-cell-rendered_map_index")]
        return {
            row["table-cell-rendered_map_index"]: (row["table-cell-state"], row["table-cell-try_number"])
            for row in rows
        }

    wanted = {name: ("Success", str(number)) for name, number in tries.items()}
    browser.wait_for(lambda: shown() == wanted, f"the subtasks {wanted}")
