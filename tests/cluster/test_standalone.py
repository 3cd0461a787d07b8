"""Jobs on a real standalone cluster.

Its Python environments have only pyspark and pyarrow, and fsspec in the driver.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.chaos.data import Feeder
from tests.chaos.ending import finish
from tests.chaos.world import SMALL, Driver, Variant, World
from tests.cluster.environments import importable
from tests.cluster.standalone import Standalone
from tests.cluster.submitting import COUNTS, submit_command
from tests.support.processes import is_alive
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

MIXED = Variant("mixed", "mixed.py", ("out", "copy"))
MIXED_APART = Variant("mixed-apart", "mixed.py", ("out", "copy"), chain=False)
MODULES = ("airflow_provider_ckpt", "airflow", "fsspec", "pandas", "pyspark", "pyarrow")


def test_the_environments_contain_only_the_required_packages(executor_python: Path, driver_python: Path) -> None:
    assert importable(executor_python, *MODULES) == ["pyspark", "pyarrow"]
    assert importable(driver_python, *MODULES) == ["fsspec", "pyspark", "pyarrow"]


@pytest.mark.parametrize("variant", [MIXED, MIXED_APART, COUNTS], ids=lambda variant: variant.name)
def test_killed_executors_and_drivers_do_not_change_the_output(
    variant: Variant, cluster: Standalone, executor_python: Path, driver_python: Path, tmp_path: Path
) -> None:
    """R1, R5: Spark repeats the lost tasks, and the library stages the output of the successful ones."""
    conf = {name: value for name, value in SMALL.items() if name != "spark.master"}
    with World(tmp_path, variant, conf=conf) as world:
        submit = submit_command(world, cluster, executor_python, driver_python)
        with Feeder(world.data):
            first = world.start(submit)
            first.wait_for("released", count=2)
            _lose_an_executor(cluster, first)
            first.signal(signal.SIGKILL)
            first.wait()
            second = world.start(submit)
            second.wait_for("released", count=2)
            _lose_an_executor(cluster, second)
        finish(world, second)
        assert world.state().epoch == 2, "an executor's death is Spark's to mend"


def _lose_an_executor(cluster: Standalone, driver: Driver) -> None:
    """Kill an executor, and wait until checkpoints are released again."""
    pid = cluster.kill_an_executor()
    wait_until(lambda: not is_alive(pid), "the end of the executor")
    seen = len(driver.lines("released"))
    driver.wait_for("released", count=seen + 3)
