from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import airflow_provider_ckpt

ROOT = Path(airflow_provider_ckpt.__file__).parents[1]
HEAVY = ("airflow", "pyspark", "fsspec", "pyarrow", "pandas", "pendulum", "psycopg", "pgpq", "sqlalchemy", "pymysql")


def loaded_after(code: str) -> set[str]:
    """Return the heavy packages that a fresh interpreter has loaded after ``code``."""
    probe = f"{code}\nimport sys\nprint(*(m for m in {HEAVY!r} if m in sys.modules))"
    run = subprocess.run([sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(run.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "import airflow_provider_ckpt",
        "from airflow_provider_ckpt import Job; Job('x').source(uid='a')(lambda read: read)",
        "from airflow_provider_ckpt import PostgresSink; PostgresSink('a', url='postgresql://h/d').validate()",
        "from airflow_provider_ckpt import SqlSink; SqlSink('a', url='mysql://h/d').validate()",
        "import airflow_provider_ckpt.job.chaining, airflow_provider_ckpt.job.loading.loading",
        "import airflow_provider_ckpt as p; dir(p); p.__version__; p.InvalidInputError",
    ],
)
def test_writing_a_job_loads_neither_airflow_nor_spark(code: str) -> None:
    assert loaded_after(code) == set()


def test_the_probe_notices_a_heavy_import() -> None:
    assert "fsspec" in loaded_after("import fsspec")


def test_exports_are_the_objects_of_their_modules() -> None:
    from airflow_provider_ckpt.errors import CkptError
    from airflow_provider_ckpt.job.job import Job

    assert airflow_provider_ckpt.Job is Job
    assert airflow_provider_ckpt.CkptError is CkptError
    assert set(airflow_provider_ckpt.__all__) <= set(dir(airflow_provider_ckpt))


def test_an_unknown_name_of_the_package_raises_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'Jobs'"):
        _ = airflow_provider_ckpt.Jobs


@pytest.mark.parametrize("module", ["job", "errors"])
def test_layers_below_spark_and_airflow_import_neither(module: str) -> None:
    """The test reads the source text, so it also sees imports inside functions."""
    path = ROOT / "airflow_provider_ckpt" / module
    files = sorted(path.rglob("*.py")) or [path.with_suffix(".py")]
    for file in files:
        lines = [line.strip() for line in file.read_text().splitlines()]
        imports = [line for line in lines if line.startswith(("import ", "from "))]
        assert not [line for line in imports if line.split()[1].split(".")[0] in HEAVY], file
