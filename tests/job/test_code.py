"""Comparison of the code of two jobs: which differences count."""

from __future__ import annotations

import py_compile
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_ckpt.job.loading.code import code_of
from airflow_provider_ckpt.job.loading.loading import load
from airflow_provider_ckpt.model.job_code import WITHOUT_SOURCE, JobCode

FILE = '''"""Orders."""

from airflow_provider_ckpt import FileSink, Job
from shapes_of_this_test import tools
import plain_of_this_test

job = Job("orders")
LIMIT = 3


@job.source
def live(read):
    return read.json("in")


@job.transform(inputs=[live])
def large(rows):
    """Large ones."""
    from late_of_this_test import late

    return rows.where(f"amount >= {LIMIT}")  # all of them


job.sink("lake", large, FileSink("out"))
'''
HELPERS = {
    "shapes_of_this_test/__init__.py": "",
    "shapes_of_this_test/tools.py": "from . import deep\nfrom .deep import NAME\n",
    "shapes_of_this_test/deep.py": "NAME = 'one'\n",
    "plain_of_this_test.py": "import json\n",
    "late_of_this_test.py": "def late(): ...\n",
    "unused_of_this_test.py": "NAME = 'one'\n",
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


def write(folder: Path, text: str = FILE, **changed: str) -> Path:
    for name, source in {
        **HELPERS,
        **{f"{name.replace('__', '/')}.py": source for name, source in changed.items()},
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    (folder / "orders.py").write_text(text)
    return folder / "orders.py"


def code(path: Path) -> JobCode:
    for name in [module for module in sys.modules if "of_this_test" in module]:
        del sys.modules[name]
    sys.path[:] = [entry for entry in sys.path if not entry.startswith(str(path.parent.parent))]
    compared = code_of(load(f"{path}:job"), f"{path}:job")
    assert compared is not None
    return compared


def differences(first: JobCode, second: JobCode) -> list[str]:
    return first.differences(second, ["live", "large"])


def test_the_code_of_a_job_has_its_functions_and_modules(tmp_path: Path) -> None:
    compared = code(write(tmp_path / "a"))
    assert compared.functions.keys() == {"live", "large"}
    assert compared.modules.keys() == {
        "shapes_of_this_test",
        "shapes_of_this_test.tools",
        "shapes_of_this_test.deep",
        "plain_of_this_test",
        "late_of_this_test",
    }


def test_comments_docstrings_layout_and_place_are_not_compared(tmp_path: Path) -> None:
    text = FILE.replace('"""Orders."""', "# v2").replace("Large ones.", "Others.").replace("  # all of them", "")
    text = text.replace('read.json("in")', "read.json(\n        'in',\n    )")
    helper = {"plain_of_this_test": '"""Plain."""\n\n# json\nimport json\n', "unused_of_this_test": "NAME = 2\n"}
    second = write(tmp_path / "b", text, **helper).rename(tmp_path / "b" / "previous_orders.py")
    assert code(write(tmp_path / "a")) == code(second)


@pytest.mark.parametrize(
    ("before", "after", "differing"),
    [
        ('json("in")', 'json("other")', ["the function of 'live'"]),
        ("@job.source\n", "@job.source(max_files_per_trigger=3)\n", ["the function of 'live'"]),
        ("LIMIT = 3", "LIMIT = 4", ["the code outside the functions of its operators"]),
        ('FileSink("out")', 'FileSink("there")', ["the code outside the functions of its operators"]),
        ("import plain_of_this_test\n", "", ["the code outside the functions of its operators"]),
    ],
)
def test_an_edited_part_of_a_jobs_file_is_named(tmp_path: Path, before: str, after: str, differing: list[str]) -> None:
    assert before in FILE
    first, second = code(write(tmp_path / "a")), code(write(tmp_path / "b", FILE.replace(before, after)))
    assert differences(first, second) == differences(second, first) == differing
    assert first.differences(second, ["large"]) == [part for part in differing if "live" not in part]


@pytest.mark.parametrize("name", ["shapes_of_this_test.deep", "plain_of_this_test", "late_of_this_test"])
def test_an_edited_imported_module_is_named(tmp_path: Path, name: str) -> None:
    given = {name.replace(".", "__"): "NAME = 'two'\ndef late(): ...\n"}
    first, second = code(write(tmp_path / "a")), code(write(tmp_path / "b", **given))
    assert differences(first, second) == [f"module {name!r}"]


def test_digests_of_code_are_stable(tmp_path: Path) -> None:
    """Digests are in journals, where workers of the next version are compared with digests of this version."""
    compared = code(write(tmp_path / "a"))
    assert (compared.rest, dict(compared.functions)) == (
        "28144fb4bc95b95d",
        {"live": "eba15d3a0307fac5", "large": "ff55d586c448ebbc"},
    )


@pytest.mark.parametrize("name", ["plain_of_this_test", "late_of_this_test"])
def test_a_module_imported_from_elsewhere_is_named(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """An old archive on the path may contain such a module."""
    first, path, old = code(write(tmp_path / "a")), write(tmp_path / "b"), tmp_path_factory.mktemp("old")
    (path.parent / f"{name}.py").rename(old / f"{name}.py")
    monkeypatch.syspath_prepend(str(old))
    assert differences(first, code(path)) == [f"module {name!r}, which is not in the file's folder there"]


def test_a_module_without_source_is_not_compared(tmp_path: Path) -> None:
    path = write(tmp_path / "b")
    py_compile.compile(str(path.parent / "plain_of_this_test.py"), str(path.parent / "plain_of_this_test.pyc"))
    (path.parent / "plain_of_this_test.py").unlink()
    first, second = code(write(tmp_path / "a")), code(path)
    assert second.modules["plain_of_this_test"] == WITHOUT_SOURCE
    assert differences(first, second) == differences(second, first) == []


def test_a_job_whose_file_is_gone_has_no_code_to_compare(tmp_path: Path) -> None:
    path = write(tmp_path / "a")
    loaded = load(f"{path}:job")
    path.unlink()
    assert code_of(loaded, f"{path}:job") is None


def test_a_job_in_a_module_includes_modules_of_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = FILE.replace("from shapes_of_this_test", "from .shapes_of_this_test")
    text = text.replace("import plain_of", "from pipelines_of_this_test import plain_of")
    text = text.replace("from late_of", "from pipelines_of_this_test.late_of")
    path = write(tmp_path / "pipelines_of_this_test", text)
    (path.parent / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    reference = "pipelines_of_this_test.orders:job"
    compared = code_of(load(reference), reference)
    assert compared is not None
    assert {name.removeprefix("pipelines_of_this_test").removeprefix(".") for name in compared.modules} == {
        "",
        "shapes_of_this_test",
        "shapes_of_this_test.tools",
        "shapes_of_this_test.deep",
        "plain_of_this_test",
        "late_of_this_test",
    }
    assert compared.functions.keys() == {"live", "large"}


def test_a_job_file_in_a_package_includes_modules_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = FILE.replace("import plain_of", "from pipelines_of_this_test.daily import plain_of")
    path = write(tmp_path / "pipelines_of_this_test" / "daily", text)
    for folder in (path.parent, path.parent.parent):
        (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    compared = code_of(load(f"{path}:job"), f"{path}:job")
    assert compared is not None
    assert {
        "pipelines_of_this_test",
        "pipelines_of_this_test.daily",
        "pipelines_of_this_test.daily.plain_of_this_test",
        "shapes_of_this_test.tools",
    } <= compared.modules.keys()
