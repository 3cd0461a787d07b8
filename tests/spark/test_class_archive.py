"""A class archive of a real JVM.

The command creates it, drivers use it, and a driver runs without it if it is unusable.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_provider_ckpt.jvm.class_archive import class_archive
from airflow_provider_ckpt.spark.app.session import build_session

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(900)]

CKPT = "import sys; from airflow_provider_ckpt.cli import main; sys.exit(main(sys.argv[1:]))"
DRIVER = """
import os
from airflow_provider_ckpt.spark.app.session import build_session
names = ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS")
before = [os.environ.get(name) for name in names]
spark = build_session("archived", {"spark.master": "local[1]", "spark.ui.enabled": "false"})
assert [os.environ.get(name) for name in names] == before
print(spark.range(10).count())
"""


@pytest.fixture(scope="module")
def archive_path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("archives")
    process = _python(CKPT, "class-archive", folder=folder)
    assert process.returncode == 0, process.stderr[-2000:]
    assert "\tat " not in process.stderr
    (path,) = folder.glob("*.jsa")
    assert str(path) in process.stdout
    yield path
    path.unlink()


def _python(code: str, *arguments: str, folder: Path | str, options: str = "") -> subprocess.CompletedProcess[str]:
    submit = f"{os.environ['SPARK_SUBMIT_OPTS']} {options}"
    environ = {**os.environ, "CKPT_CLASS_ARCHIVE": str(folder), "SPARK_SUBMIT_OPTS": submit}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


def _loaded(folder: Path | str, log: Path) -> tuple[str, str]:
    """Run a driver; return its output and the place from which its JVM loaded the class SparkContext."""
    process = _python(DRIVER, folder=folder, options=f"-Xlog:class+load:file={log}")
    assert process.returncode == 0, process.stderr[-2000:]
    (line,) = [line for line in log.read_text().splitlines() if " org.apache.spark.SparkContext source: " in line]
    return process.stdout, line.partition(" source: ")[2]


@pytest.mark.slow  # creating an archive takes minutes on a busy machine
def test_a_driver_loads_its_classes_from_the_archive(archive_path: Path, tmp_path: Path) -> None:
    assert _loaded(archive_path.parent, tmp_path / "log") == ("10\n", "shared objects file (top)")
    assert _python(CKPT, "class-archive", folder=archive_path.parent).stdout.startswith(f"{archive_path} is there")


def test_a_driver_loads_its_classes_from_jars_if_the_archive_is_off(archive_path: Path, tmp_path: Path) -> None:
    printed, source = _loaded("off", tmp_path / "log")
    assert printed == "10\n"
    assert ".jar" in source


@pytest.mark.parametrize("of", ["another jvm", "damage"])
def test_a_driver_with_an_unusable_archive_runs_without_a_message(archive_path: Path, tmp_path: Path, of: str) -> None:
    """The archive has the right length and the right place, but its content does not suit the JVM."""
    folder = tmp_path / "archives"
    folder.mkdir(mode=0o755)
    archive = class_archive({**os.environ, "CKPT_CLASS_ARCHIVE": str(folder)})
    assert archive is not None
    content = _of_another_jvm(archive_path) if of == "another jvm" else _damaged(archive_path)
    (folder / f"{archive.stem}.{len(content)}.jsa").write_bytes(content)
    assert archive.find() is not None
    printed, source = _loaded(folder, tmp_path / "log")
    assert printed == "10\n"
    assert ".jar" in source


def _of_another_jvm(archive_path: Path) -> bytes:
    """Return the archive with another JVM name in its header."""
    with archive_path.open("rb") as file:
        content = file.read()
    at = content.index(b"OpenJDK")
    return content[:at] + b"ClosedJ" + content[at + 7 :]


def _damaged(archive_path: Path) -> bytes:
    """Return the archive with a part overwritten by zeros, as a damaged disk may leave it."""
    content = archive_path.read_bytes()
    start, end = len(content) // 100, len(content) // 3
    return content[:start] + bytes(end - start) + content[end:]


def test_an_existing_session_leaves_the_environment_unchanged(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[str | None] = []
    before = SparkSession.Builder.getOrCreate

    def noting(builder: SparkSession.Builder) -> SparkSession:
        seen.append(os.environ.get("SPARK_LAUNCHER_OPTS"))
        return before(builder)

    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", noting)
    build_session("again", {})
    assert seen == [None]
