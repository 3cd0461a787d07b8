"""The order in which xdist hands out files: long ones first, and all that need Airflow to one worker."""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.scheduler.protocol import Scheduling

_AIRFLOW = ("tests/airflow/", "tests/demo/", "tests/smoke/test_airflow")


class AirflowTogether(LoadFileScheduling):  # type: ignore[misc]
    """Tests of a file stay together. Those that need Airflow's database do, too: a worker takes seconds to make it."""

    def _split_scope(self, nodeid: str) -> str:
        return "airflow" if nodeid.startswith(_AIRFLOW) else super()._split_scope(nodeid)


@pytest.hookimpl
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    return AirflowTogether(config, log) if config.getoption("dist") == "loadfile" else None


def long_files_first(items: list[pytest.Item]) -> None:
    """Sort ``tests/smoke`` to the front: a file of half a minute must not be the last one."""
    items.sort(key=lambda item: "/smoke/" not in item.nodeid)
