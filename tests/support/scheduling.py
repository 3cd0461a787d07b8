"""The order in which xdist hands out files."""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.scheduler.protocol import Scheduling
from xdist.workermanage import WorkerController

_TOGETHER = {
    "airflow": ("tests/airflow/", "tests/demo/", "tests/smoke/test_airflow_task"),
    "spark": ("tests/smoke/test_released_tables", "tests/smoke/test_root_on_s3"),
}
"""Scope → paths. One worker makes Airflow's database, and one starts the Spark session of the smoke tests."""


class SharedProcesses(LoadFileScheduling):  # type: ignore[misc]
    """Scheduling that keeps the tests of a file together, and files that share a process with a slow start."""

    def _split_scope(self, nodeid: str) -> str:
        for scope, paths in _TOGETHER.items():
            if nodeid.startswith(paths):
                return scope
        return str(super()._split_scope(nodeid))

    def remove_node(self, node: WorkerController) -> str | None:
        """Give the tests of an ended worker to others, except the test that ended it.

        xdist 3.8 hands that test out again, which ends one worker after another.
        """
        workload = self.assigned_work[node]
        pending = [(unit, nodeid) for unit in workload.values() for nodeid, is_done in unit.items() if not is_done]
        if pending:
            unit, crashed = pending[0]
            unit[crashed] = True
        super().remove_node(node)
        return pending[0][1] if pending else None


@pytest.hookimpl
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    return SharedProcesses(config, log) if config.getoption("dist") == "loadfile" else None


def long_files_first(items: list[pytest.Item]) -> None:
    """Sort ``tests/smoke`` to the front: a file of half a minute must not be the last one."""
    items.sort(key=lambda item: "/smoke/" not in item.nodeid)
