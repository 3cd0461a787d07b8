from __future__ import annotations

import importlib
import pickle
import sys
from pathlib import Path
from types import ModuleType

import pytest

from airflow_provider_ckpt.job import errors
from airflow_provider_ckpt.job.loading.loading import file_module_name, load, load_job

pytestmark = pytest.mark.usefixtures("import_state")

GOOD = """
from airflow_provider_ckpt import Job
from columns_of_this_test import NAME

job = Job(NAME)
backup = Job("backup")
number = 3
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "columns_of_this_test.py").write_text('NAME = "orders"\n')
    (tmp_path / "orders.py").write_text(GOOD)
    return tmp_path


def test_a_file_is_loaded_with_the_modules_in_its_folder(folder: Path) -> None:
    loaded = load(f"{folder}/orders.py:job")
    assert loaded.job.name == "orders"
    assert loaded.from_file
    assert loaded.module.__name__ == file_module_name(f"{folder}/orders.py")
    assert sys.modules[loaded.module.__name__] is loaded.module
    assert load_job(f"{folder}/orders.py:backup").name == "backup"


def test_a_relative_path_starts_at_the_working_directory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert load_job("orders.py:job").name == "orders"
    assert load_job("./orders.py:job").name == "orders"


def test_a_file_is_run_again_with_every_load(folder: Path) -> None:
    first = load_job(f"{folder}/orders.py:job")
    (folder / "orders.py").write_text(GOOD.replace("Job(NAME)", 'Job("changed")'))
    assert (first.name, load_job(f"{folder}/orders.py:job").name) == ("orders", "changed")


def test_a_job_file_does_not_hide_a_module_of_its_name(folder: Path) -> None:
    (folder / "json.py").write_text('from airflow_provider_ckpt import Job\njob = Job("json")\n')
    before = sys.modules["json"]
    assert load_job(f"{folder}/json.py:job").name == "json"
    assert sys.modules["json"] is before


def test_a_main_guard_does_not_run(folder: Path) -> None:
    (folder / "orders.py").write_text(GOOD + '\nif __name__ == "__main__":\n    raise SystemExit(9)\n')
    assert load_job(f"{folder}/orders.py:job").name == "orders"


def test_a_module_is_imported_by_its_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = folder / "pipelines_of_this_test"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "orders.py").write_text(GOOD)
    monkeypatch.syspath_prepend(str(folder))
    loaded = load("pipelines_of_this_test.orders:job")
    assert (loaded.job.name, loaded.from_file) == ("orders", False)


@pytest.mark.parametrize("reference", ["", "orders.py", "job", ":job", "orders.py:", "orders.py:a-b", "a.py:x.y"])
def test_a_reference_that_is_not_well_formed_is_refused_with_the_form(reference: str) -> None:
    with pytest.raises(errors.JobReferenceError, match=r"path/to/file\.py:name"):
        load_job(reference)


def test_a_missing_file_is_refused_with_its_full_path(tmp_path: Path) -> None:
    with pytest.raises(errors.JobNotFoundError, match=f"there is none at {tmp_path}/nope.py") as caught:
        load_job(f"{tmp_path}/nope.py:job")
    assert str(Path.cwd()) in str(caught.value)
    with pytest.raises(errors.JobNotFoundError):
        load_job(f"{tmp_path}/:job")


@pytest.mark.parametrize("module", ["nowhere_at_all", "nowhere_at_all.orders", "json.nowhere"])
def test_a_missing_module_is_refused(module: str) -> None:
    with pytest.raises(errors.JobNotFoundError, match="Python finds no"):
        load_job(f"{module}:job")


def test_a_missing_name_is_refused_with_the_existing_jobs(folder: Path) -> None:
    with pytest.raises(errors.JobNotFoundError, match=r"has no 'jobb'.*job, backup.* Did you mean 'job'"):
        load_job(f"{folder}/orders.py:jobb")


def test_a_name_that_is_no_job_is_refused_with_the_existing_jobs(folder: Path) -> None:
    with pytest.raises(errors.JobReferenceError, match=r"type int, which is no Job.*job, backup"):
        load_job(f"{folder}/orders.py:number")


BROKEN = {
    "raises in a module of its folder": (
        "import columns_of_this_test\nfrom broken_of_this_test import x\n",
        "broken_of_this_test.py:2: ZeroDivisionError: division by zero",
    ),
    "raises in the library's code": ("import json\njson.loads('{')\n", "orders.py:2: JSONDecodeError"),
    "imports what is not there": ("\nimport nowhere_at_all\n", "orders.py:2: ModuleNotFoundError"),
    "is no Python": ("job = (\n", "orders.py:1: SyntaxError"),
    "exits": ("import sys\n\nsys.exit('no config')\n", "orders.py:3: SystemExit: no config"),
    "asserts without a message": ("assert False\n", "orders.py:1: AssertionError"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_an_error_of_the_users_code_has_its_line_and_loads_no_module(folder: Path, case: str) -> None:
    code, words = BROKEN[case]
    (folder / "orders.py").write_text(code)
    (folder / "broken_of_this_test.py").write_text("\nx = 1 / 0\n")
    path, modules = list(sys.path), set(sys.modules)
    with pytest.raises(errors.JobImportError, match="loading it failed at") as caught:
        load_job(f"{folder}/orders.py:job")
    assert words in str(caught.value)
    assert type(caught.value.__cause__).__name__ in words
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert sys.path == path
    assert not {name for name in set(sys.modules) - modules if name.endswith(("_of_this_test", "orders"))}
    assert file_module_name(f"{folder}/orders.py") not in sys.modules


def test_the_next_load_reads_a_repaired_module(folder: Path) -> None:
    (folder / "orders.py").write_text("from columns_of_this_test import MISSING_FOR_NOW\n" + GOOD)
    with pytest.raises(errors.JobImportError, match="MISSING_FOR_NOW"):
        load_job(f"{folder}/orders.py:job")
    (folder / "columns_of_this_test.py").write_text('NAME = "orders"\nMISSING_FOR_NOW = "there it is, longer"\n')
    assert load_job(f"{folder}/orders.py:job").name == "orders"


def _dags_modules(folder: Path) -> dict[str, ModuleType]:
    """Create modules of the same names that a Dag file has imported from elsewhere: one, and a package with two
    more."""
    dags = folder / "dags"
    (dags / "package_of_this_test").mkdir(parents=True)
    (dags / "columns_of_this_test.py").write_text('NAME = "of_the_dag"\n')
    for name in ("__init__", "one", "two"):
        (dags / "package_of_this_test" / f"{name}.py").write_text('NAME = "of_the_dag"\n')
    sys.path.insert(0, str(dags))
    names = ["columns_of_this_test", "package_of_this_test.one", "package_of_this_test.two", "package_of_this_test"]
    modules = {name: importlib.import_module(name) for name in names}
    sys.path.remove(str(dags))
    return modules


def test_a_module_of_the_jobs_folder_precedes_one_that_a_dag_imported(folder: Path) -> None:
    """Otherwise the job would get the Dag's settings, and its sinks would write elsewhere."""
    theirs = _dags_modules(folder)
    (folder / "package_of_this_test").mkdir()
    (folder / "package_of_this_test" / "__init__.py").write_text("")
    (folder / "package_of_this_test" / "one.py").write_text('NAME = "orders_2"\n')
    (folder / "second.py").write_text(GOOD.replace("columns_of_this_test", "package_of_this_test.one"))
    assert load_job(f"{folder}/orders.py:job").name == "orders"
    assert sys.modules["package_of_this_test.two"] is theirs["package_of_this_test.two"]  # the loader did not touch it
    assert load_job(f"{folder}/second.py:job").name == "orders_2"
    assert "package_of_this_test.two" not in sys.modules


def test_a_failed_load_leaves_the_modules_of_a_dag_unchanged(folder: Path) -> None:
    theirs = _dags_modules(folder)
    (folder / "orders.py").write_text("import columns_of_this_test\nraise RuntimeError\n")
    with pytest.raises(errors.JobImportError):
        load_job(f"{folder}/orders.py:job")
    assert {name: sys.modules[name] for name in theirs} == theirs


def test_a_failed_reload_keeps_the_previous_module(folder: Path) -> None:
    loaded = load(f"{folder}/orders.py:job")
    (folder / "orders.py").write_text("raise RuntimeError\n")
    with pytest.raises(errors.JobImportError):
        load_job(f"{folder}/orders.py:job")
    assert sys.modules[loaded.module.__name__] is loaded.module


def test_a_mistake_in_the_job_raises_its_own_error(folder: Path) -> None:
    mistake = GOOD + "\njob.sink('out', 'a', 3)\n"
    (folder / "orders.py").write_text(mistake)
    with pytest.raises(errors.InvalidJobError, match=r"orders\.py:9"):
        load_job(f"{folder}/orders.py:job")
    assert file_module_name(f"{folder}/orders.py") not in sys.modules
