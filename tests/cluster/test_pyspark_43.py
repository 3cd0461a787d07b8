"""PySpark 4.3 in a separate environment, because Airflow's Spark provider does not support it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.chaos.data import Feeder
from tests.chaos.ending import finish
from tests.chaos.world import Variant, World
from tests.cluster.environments import importable, installed

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

VARIANTS = (
    Variant("mixed", "mixed.py", ("out", "copy")),
    Variant("mixed-apart", "mixed.py", ("out", "copy"), chain=False),
    Variant("counts", "counts.py", ("out",), counts=True),
)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = installed(tmp_path_factory.mktemp("pyspark43") / "env", "pyspark==4.3.0", "pyarrow", "fsspec")
    assert importable(made, "pyspark", "airflow") == ["pyspark"]
    return made


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_a_job_survives_a_kill_on_pyspark_4_3(variant: Variant, python: Path, tmp_path: Path) -> None:
    with World(tmp_path, variant) as world:
        command = [
            "env",
            f"PYSPARK_PYTHON={python}",
            f"PYSPARK_DRIVER_PYTHON={python}",
            f"PATH={python.parent}{os.pathsep}{os.environ['PATH']}",
            str(python),
            "-m",
            "airflow_provider_ckpt.spark.main",
            "--options",
            world.options(),
        ]
        with Feeder(world.data):
            first = world.start(command)
            first.wait_for("released", count=3)
            first.signal(signal.SIGKILL)
            second = world.start(command)
            second.wait_for("released", count=3)
        finish(world, second)
