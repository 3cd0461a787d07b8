"""`ckpt run` on a cluster: executors get the modules that the job's file imports, and a missing one ends the job."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.model.job_status import JobStatus
from tests.cluster.environments import importable
from tests.cluster.standalone import ONE_EXECUTOR, Standalone
from tests.support.processes import ROOT, Process

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

JOB = """
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType

from airflow_provider_ckpt import FileSink, Job
{imports}

job = Job("orders")
PLACE = job.param("place", {place!r})


@job.source(bounded=True)
def history(read):
    return read.schema("id long").json(PLACE + "/in")


def plus_one(number):
    from {package}later import plus

    return plus(number, 1)


@job.transform(inputs=[history])
def priced(rows):
    double, origin = F.udf(helpers.double, LongType()), F.udf(lambda: helpers.__file__, StringType())
    area, after = F.udf(square.area, LongType()), F.udf(plus_one, LongType())
    columns = {{"double": double("id"), "area": area("id"), "after": after("id"), "origin": origin()}}
    return rows.withColumns(columns)


job.sink("out", priced, FileSink(PLACE + "/out", format="json"))
"""
MODULES = {
    "helpers.py": "def double(number):\n    return 2 * number\n",
    "later.py": "def plus(one, other):\n    return one + other\n",
    "shapes/square.py": "from shapes import numbers\n\n\ndef area(side):\n    return numbers.power(side)\n",
    "shapes/numbers.py": "def power(number):\n    return number**2\n",
}


def write(folder: Path, text: str, files: Mapping[str, str] = MODULES) -> Path:
    for name, content in {**files, "orders.py": text}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder / "orders.py"


def run(
    place: Path,
    reference: str,
    master: str,
    python: Path,
    *,
    path: str = "",
    conf: Mapping[str, str] | None = None,
) -> Process:
    """Run a job to its end. ``path``: of the driver's imports."""
    (place / "in").mkdir(exist_ok=True)
    (place / "in" / "1.json").write_text('{"id": 1}\n{"id": 5}\n')
    settings = {**ONE_EXECUTOR, "spark.master": master, "spark.pyspark.python": str(python), **(conf or {})}
    command = [str(Path(sys.executable).with_name("ckpt")), "run", reference, "--root", str(place / "root")]
    command += [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    with Process(command, place / "log", env={"PYTHONPATH": f"{ROOT}:{path}"}, cwd=place) as process:
        process.wait(400)
        return process


def rows(place: Path) -> list[dict[str, Any]]:
    records = [json.loads(line) for path in (place / "out").glob("*.json") for line in path.read_text().splitlines()]
    return sorted(records, key=lambda row: int(row["id"]))


def check(place: Path, process: Process, origin: str) -> None:
    assert process.exit_code == 0, process.tail()
    written = rows(place)
    assert all(origin in row.pop("origin") for row in written)
    assert written == [
        {"id": 1, "double": 2, "area": 1, "after": 2},
        {"id": 5, "double": 10, "area": 25, "after": 6},
    ]


def test_executors_get_modules_from_the_folder_of_the_job_file(
    cluster: Standalone, executor_python: Path, tmp_path: Path
) -> None:
    assert importable(executor_python, "helpers", "shapes", "airflow_provider_ckpt") == []
    imports = "import helpers\nfrom shapes import square"
    path = write(tmp_path / "pipelines", JOB.format(imports=imports, place=str(tmp_path), package=""))
    check(tmp_path, run(tmp_path, f"{path}:job", cluster.url, executor_python), "/ckpt-modules-")


def test_executors_get_modules_from_the_package_of_the_job(
    cluster: Standalone, executor_python: Path, tmp_path: Path
) -> None:
    imports = "from . import helpers\nfrom .shapes import square"
    text = JOB.format(imports=imports, place=str(tmp_path), package=".")
    text = text.replace('job.param("place", ', "str(")  # a job without parameters goes by reference
    files = {name: content.replace("from shapes", "from .") for name, content in MODULES.items()}
    write(tmp_path / "code" / "daily", text, {**files, "__init__.py": ""})
    process = run(tmp_path, "daily.orders:job", cluster.url, executor_python, path=str(tmp_path / "code"))
    check(tmp_path, process, "/ckpt-modules-")


def test_py_files_take_precedence_and_a_missing_module_ends_the_job(
    cluster: Standalone, executor_python: Path, tmp_path: Path
) -> None:
    """The driver finds the modules on its own path, which executors do not have."""
    elsewhere = tmp_path / "elsewhere"
    write(elsewhere, "")
    imports = "import helpers\nfrom shapes import square"
    path = write(tmp_path / "pipelines", JOB.format(imports=imports, place=str(tmp_path), package=""), {})
    failed = run(tmp_path, f"{path}:job", cluster.url, executor_python, path=str(elsewhere))
    assert failed.exit_code == 1, failed.tail()
    assert "which has no module 'helpers'" in failed.text()
    state = JobClient(str(tmp_path / "root"), "orders").read_state()
    assert state.status is JobStatus.FAILED
    assert "--conf spark.submit.pyFiles=FILE.zip" in str(state.cause)

    archive = tmp_path / "given.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for name, content in {**MODULES, "shapes/__init__.py": ""}.items():
            file.writestr(name, content)
    shutil.rmtree(tmp_path / "root")
    archives = {"spark.submit.pyFiles": str(archive)}
    process = run(tmp_path, f"{path}:job", cluster.url, executor_python, path=str(elsewhere), conf=archives)
    check(tmp_path, process, "/given.zip/")


def test_python_workers_of_a_local_master_read_modules_in_place(executor_python: Path, tmp_path: Path) -> None:
    """A module may read a file in its own folder. The workers run in the driver's folder, which has no modules."""
    helpers = """
        from pathlib import Path

        FACTOR = int((Path(__file__).parent / "factor.txt").read_text())


        def double(number):
            return FACTOR * number
        """
    files = {**MODULES, "helpers.py": textwrap.dedent(helpers), "factor.txt": "2"}
    imports = "import helpers\nfrom shapes import square"
    path = write(tmp_path / "pipelines", JOB.format(imports=imports, place=str(tmp_path), package=""), files)
    check(tmp_path, run(tmp_path, f"{path}:job", "local[1]", executor_python), str(path.with_name("helpers.py")))
