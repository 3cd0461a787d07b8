"""Isolation of the tests from the shell's settings for the user's own Airflow and Spark.

This runs before any test module (and so before any import of Airflow, which reads its environment
once) is imported; ``tests/airflow/conftest.py`` then sets up its throw-away AIRFLOW_HOME.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from airflow_provider_ckpt.status.trace_file import trace_file
from tests.support import hangs, scheduling, selection, timings

_FOREIGN = ("AIRFLOW", "SPARK", "PYSPARK", "HADOOP", "AWS_")
_MEMORY = Path("/dev/shm")
_MEMORY_NEEDED = 4 << 30


def _forget_the_users_setup() -> None:
    for name in list(os.environ):
        if name.startswith(_FOREIGN) or name == "CKPT_STORAGE_OPTIONS":
            del os.environ[name]


def _one_python_everywhere() -> None:
    # Spark starts its Python workers, and spark-submit its driver, by name from PATH.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    # A machine's host name need not resolve to an address that Spark can bind to.
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"


def _quick_jvms() -> None:
    # JVMs of tests run small jobs. On two cores the optimizing compiler of a JVM would take half of the time.
    os.environ["SPARK_SUBMIT_OPTS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    # the result of a test must not depend on a cache of this machine
    os.environ["CKPT_CLASS_ARCHIVE"] = "off"


def _write_to_memory() -> None:
    # An fsync takes milliseconds on a disk, and a batch and a checkpoint do several. No test can see the effect of an
    # fsync on the disk. A folder that the user has set is used. So is the usual folder if there is too little memory.
    if "TMPDIR" in os.environ or not os.access(_MEMORY, os.W_OK | os.X_OK):
        return
    runs_programs = not os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC
    if runs_programs and shutil.disk_usage(_MEMORY).free >= _MEMORY_NEEDED:
        os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)


_forget_the_users_setup()
_one_python_everywhere()
_quick_jvms()
_write_to_memory()

# Every run draws the same examples, so that a failure can be repeated. HYPOTHESIS_PROFILE=search draws new ones.
hypothesis.settings.register_profile("quick", derandomize=True, deadline=None, max_examples=20)
hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None)
hypothesis.settings.register_profile("search", deadline=None)
_PROFILE = "quick" if os.environ.get("CKPT_SLOW", "none") == "none" else "fixed"
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", _PROFILE))


@pytest.fixture(scope="session", autouse=True)
def _temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the stack traces of runs (``ckpt-*.log``) among pytest's own folders, which it deletes if all tests pass.

    Processes that tests start get the folder as TMPDIR. This process still makes short paths that all users can reach.
    """
    folder, usual = str(tmp_path_factory.mktemp("tmp")), tempfile.gettempdir()
    tempfile.tempdir = folder
    trace_file()  # the file of this process keeps its first name
    tempfile.tempdir = usual
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", folder)
        yield


_STARTING = {"spark", "server", "broker"}
"""Fixtures that start a Spark driver, a database server or a broker."""
_OTHER_SUITES = {"airflow_real", "chaos", "cluster", "kafka", "random_jobs", "s3", "sinks", "soak", "tables", "workers"}
"""Markers of suites with make targets of their own. Those targets run slow tests, too."""


_WHOLE_FOLDERS = {"airflow_real": "airflow_real", "chaos": "chaos", "cluster": "cluster", "kafka": "kafka"}
_WHOLE_FOLDERS |= {"sinks_together": "sinks"}
"""Folder → the marker of all of its tests."""
_SLOW_FILE = re.compile(r"^pytestmark = .*\bpytest\.mark\.slow\b", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import suites that the mark expression excludes as a whole, nor, without slow tests, files of only such.

    pytest does not ask for paths that the command line names.
    """
    marker = _WHOLE_FOLDERS.get(collection_path.name)
    if marker is not None and f"not {marker}" in config.option.markexpr:
        return True
    if collection_path.name.startswith("test_") and os.environ.get("CKPT_SLOW", "none") == "none":
        return True if _SLOW_FILE.search(collection_path.read_text("utf-8")) else None
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests with Spark, and tests with Spark or a server as slow. ``tests/smoke`` starts each component once."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
        markers = {marker.name for marker in item.iter_markers()}
        if _STARTING.intersection(getattr(item, "fixturenames", ())) and not markers & {"smoke", *_OTHER_SUITES}:
            item.add_marker("slow")
    scheduling.long_files_first(items)


def pytest_configure(config: pytest.Config) -> None:
    selection.install(config)
    if config.pluginmanager.has_plugin("xdist"):
        config.pluginmanager.register(scheduling, "ckpt-scheduling")
    hangs.install(config)
    timings.install(config)
