"""The applications that get the modules of a job. No Spark runs here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zipfile import ZipFile

import pytest

from airflow_provider_ckpt.model.own_modules import OwnModules
from airflow_provider_ckpt.spark.app import shipped_modules
from airflow_provider_ckpt.spark.app.shipped_modules import ship_modules

OWN = OwnModules(("/jobs",), {"helpers.py": b"A = 1", "shapes/": b"", "shapes/round.py": b"B = 2"})


class Context:
    """The application of a driver that has nothing but these settings."""

    def __init__(self, folder: Path, master: str = "spark://master:7077", **conf: str) -> None:
        self.master, self._temp_dir = master, str(folder)
        self._python_includes: list[str] = []
        self._conf: Mapping[str, str] = {f"spark.{key.replace('_', '.')}": value for key, value in conf.items()}
        self.sent: list[Path] = []

    def getConf(self) -> Any:
        return SimpleNamespace(get=self._conf.get)

    def addPyFile(self, path: str) -> None:
        self.sent.append(Path(path))
        self._python_includes.append(Path(path).name)


@pytest.fixture(autouse=True)
def files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Replace the folder of the files that executors get from the user."""
    folder = tmp_path / "files"
    folder.mkdir()
    monkeypatch.setattr(shipped_modules, "SparkFiles", SimpleNamespace(getRootDirectory=lambda: str(folder)))
    return folder


def sent(context: Context, own: OwnModules | None = OWN) -> list[str]:
    """Return the paths in the archives that the application gets."""
    ship_modules(context, own)  # type: ignore[arg-type]
    return sorted(name for path in context.sent for name in ZipFile(path).namelist())


def test_an_application_gets_the_modules_once(tmp_path: Path) -> None:
    context = Context(tmp_path)
    assert sent(context) == sorted(OWN.sources)
    ship_modules(context, OWN)  # type: ignore[arg-type]
    assert len(context.sent) == 1


def test_a_module_that_imports_this_package_ships_it_too(tmp_path: Path) -> None:
    context = Context(tmp_path)
    names = sent(context, OwnModules(OWN.roots, OWN.sources, uses_library=True))
    assert "airflow_provider_ckpt/job/job.py" in names
    given = Context(tmp_path)
    given._python_includes.append("airflow_provider_ckpt-0123.zip")
    assert sent(given, OwnModules(OWN.roots, OWN.sources, uses_library=True)) == sorted(OWN.sources)


@pytest.mark.parametrize(
    "conf",
    [
        {"submit_deployMode": "cluster"},
        {"kubernetes_submitInDriver": "true"},
        {"executorEnv_PYTHONPATH": "/opt/code"},
    ],
)
def test_executors_with_another_way_to_get_code_are_sent_nothing(tmp_path: Path, conf: dict[str, str]) -> None:
    assert sent(Context(tmp_path, **conf)) == []


def test_a_module_shipped_by_the_user_is_left_out(tmp_path: Path, files: Path) -> None:
    (files / "helpers.py").touch()
    assert sent(Context(tmp_path)) == ["shapes/", "shapes/round.py"]
    with ZipFile(files / "given.zip", "w") as archive:
        archive.writestr("shapes/__init__.py", "")
    context = Context(tmp_path)
    context._python_includes.append("given.zip")
    assert sent(context) == []


def test_a_local_master_imports_modules_in_place(tmp_path: Path) -> None:
    context = Context(tmp_path, "local[2]")
    assert sent(context) == []
    assert context._python_includes == ["/jobs"]


@pytest.mark.parametrize("own", [None, OwnModules()])
def test_without_own_modules_nothing_is_sent(tmp_path: Path, own: OwnModules | None) -> None:
    assert sent(Context(tmp_path), own) == []
