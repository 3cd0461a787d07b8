"""Modules of a job that Python workers need, because its file imports them from its folder or package."""

from __future__ import annotations

import py_compile
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_ckpt.job.loading.loading import load
from airflow_provider_ckpt.job.loading.module_sources import own_modules
from airflow_provider_ckpt.model.own_modules import OwnModules

FILE = """
import json
import pyarrow
from airflow_provider_ckpt import Job
from shapes_of_this_test import tools
import plain_of_this_test

job = Job("orders")


def price(row):
    from late_of_this_test import late
    return late(row)
"""
FILES = {
    "shapes_of_this_test/__init__.py": "",
    "shapes_of_this_test/tools.py": "from .deep.round import NAME\n",
    "shapes_of_this_test/deep/round.py": "NAME = 'one'\n",
    "shapes_of_this_test/unused.py": "NAME = 'one'\n",
    "shapes_of_this_test/rates.json": "{}",
    "plain_of_this_test.py": "import importlib\nimportlib.import_module('named_' + 'of_this_test')\n",
    "named_of_this_test.py": "NAME = 'one'\n",
    "late_of_this_test.py": "def late(row): ...\n",
    "unused_of_this_test.py": "NAME = 'one'\n",
}
SHIPPED = {
    "shapes_of_this_test/__init__.py",
    "shapes_of_this_test/tools.py",
    "shapes_of_this_test/deep/",
    "shapes_of_this_test/deep/round.py",
    "plain_of_this_test.py",
    "named_of_this_test.py",
    "late_of_this_test.py",
}


@pytest.fixture(autouse=True)
def clean_modules() -> Iterator[None]:
    """Remove the modules of the job's own folder from Python afterwards."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in sys.modules.keys() - modules:
        if "of_this_test" in name or name.startswith("_ckpt_job_"):
            del sys.modules[name]


def write(folder: Path, files: dict[str, str] = FILES, text: str = FILE) -> Path:
    for name, content in {**files, "orders.py": text}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder / "orders.py"


def own(reference: str) -> OwnModules:
    return own_modules(load(reference), reference)


def test_a_job_file_ships_only_imports_from_its_folder(tmp_path: Path) -> None:
    own_code = own(f"{write(tmp_path)}:job")
    assert own_code.sources.keys() == SHIPPED
    assert own_code.sources["late_of_this_test.py"] == b"def late(row): ...\n"
    assert own_code.roots == (str(tmp_path),)
    assert not own_code.uses_library
    assert own_code.names == {name.partition("/")[0].removesuffix(".py") for name in SHIPPED}


def test_a_job_module_ships_itself_and_imports_from_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = FILE.replace("from shapes_of", "from .shapes_of").replace("from late_of", "from .late_of")
    text = text.replace("import plain_of_this_test", "from . import plain_of_this_test")
    files = {**FILES, "plain_of_this_test.py": ""}
    write(tmp_path / "jobs_of_this_test" / "daily", files, text)
    for folder in ("", "daily/"):
        (tmp_path / f"jobs_of_this_test/{folder}__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    own_code = own("jobs_of_this_test.daily.orders:job")
    expected = {f"daily/{name}" for name in SHIPPED - {"named_of_this_test.py"}}
    expected |= {"__init__.py", "daily/__init__.py", "daily/orders.py"}
    assert own_code.sources.keys() == {f"jobs_of_this_test/{name}" for name in expected}
    assert (own_code.roots, own_code.uses_library) == ((str(tmp_path),), True)


def test_modules_in_a_zip_file_are_shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "jobs.zip", "w") as archive:
        archive.writestr("zipped_of_this_test/__init__.py", "")
        archive.writestr(
            "zipped_of_this_test/orders.py", "from airflow_provider_ckpt import Job\njob = Job('orders')\n"
        )
    monkeypatch.syspath_prepend(str(tmp_path / "jobs.zip"))
    own_code = own("zipped_of_this_test.orders:job")
    assert own_code.sources.keys() == {"zipped_of_this_test/__init__.py", "zipped_of_this_test/orders.py"}
    assert own_code.roots == (str(tmp_path / "jobs.zip"),)


def test_installed_packages_and_compiled_modules_are_not_shipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "job")
    plain = path.parent / "plain_of_this_test.py"
    py_compile.compile(str(plain), str(plain.with_suffix(".pyc")))
    plain.unlink()
    assert "plain_of_this_test.py" not in own(f"{path}:job").sources

    site = tmp_path / "lib" / "site-packages"
    write(
        site / "installed_of_this_test", {"__init__.py": ""}, "from airflow_provider_ckpt import Job\njob = Job('a')\n"
    )
    monkeypatch.syspath_prepend(str(site))
    assert own("installed_of_this_test.orders:job").sources == {}


def test_a_module_can_be_left_out_by_name() -> None:
    own_code = OwnModules(("/a",), {"one.py": b"", "two/__init__.py": b"", "two/three.py": b""}, True)
    assert own_code.without(frozenset({"two"})) == OwnModules(("/a",), {"one.py": b""}, True)
