"""Versions of a job besides the loaded one. Each has its own modules, even under names that were imported before."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

from airflow_provider_ckpt.job import errors
from airflow_provider_ckpt.job.loading.loading import load
from airflow_provider_ckpt.job.loading.version import Version, load_version
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.spark.plan.code_places import CodePlaces
from airflow_provider_ckpt.spark.plan.logic import LogicLoader
from airflow_provider_ckpt.storage.location import Location

pytestmark = pytest.mark.usefixtures("import_state")

JOB = """
from airflow_provider_ckpt import Job
{imports}

job = Job("orders")
day = job.param("day", "none")

@job.source
def live(read):
    {body}
"""


def write(folder: Path, helper: str, imports: str = "import shapes", body: str = "return shapes.NAME") -> str:
    folder.mkdir(exist_ok=True)
    (folder / "shapes.py").write_text(helper)
    (folder / "orders.py").write_text(JOB.format(imports=imports, body=body))
    return f"{folder}/orders.py:job"


def function(version: Version) -> Any:
    return version.job.operators["live"].function


def loader_of(folder: Path) -> LogicLoader:
    return LogicLoader({}, Location(f"{folder}/root"), CodePlaces("tests:job", (str(folder),)))


IMPORTS = {
    "module": ("import shapes", "return shapes.NAME"),
    "as": ("import shapes as other", "return other.NAME"),
    "name": ("from shapes import NAME", "return NAME"),
    "star": ("from shapes import *", "return NAME"),
    "when it is called": ("", "from shapes import NAME; return NAME"),
    "when it is called, whole": ("", "import shapes; return shapes.NAME"),
}


@pytest.mark.parametrize("how", IMPORTS)
def test_a_version_imports_the_helper_in_its_own_folder(tmp_path: Path, how: str) -> None:
    imports, body = IMPORTS[how]
    running = load(write(tmp_path / "one", 'NAME = "one"', imports, body))
    two = load_version(write(tmp_path / "two", 'NAME = "two"', imports, body))
    assert function(two)(None) == "two"
    assert running.job.operators["live"].function(None) == "one"  # type: ignore[misc]
    assert load(f"{tmp_path}/one/orders.py:job").job.operators["live"].function(None) == "one"  # type: ignore[misc]


def test_a_version_has_its_own_copy_of_packages(tmp_path: Path) -> None:
    for name in ("one", "two"):
        package = tmp_path / name / "lib_of_this_test"
        (package / "deep").mkdir(parents=True)
        (package / "__init__.py").write_text("from . import plain\n")
        (package / "plain.py").write_text("import lib_of_this_test.deep.end\nEND = lib_of_this_test.deep.end.END\n")
        (package / "deep" / "end.py").write_text(f"import shapes\nEND = shapes.NAME + {name!r}\n")
    imports, body = "import lib_of_this_test.plain\nimport lib_of_this_test.deep.end as e", "return e.END"
    load(write(tmp_path / "one", 'NAME = "1"', imports, body))
    two = load_version(write(tmp_path / "two", 'NAME = "2"', imports, body))
    assert function(two)(None) == "2two"


def test_a_version_imports_installed_packages_as_usual(tmp_path: Path) -> None:
    import json

    reference = write(tmp_path / "two", "", "import json\nimport airflow_provider_ckpt", "return json")
    (tmp_path / "two" / "json.py").write_text("raise AssertionError")
    (tmp_path / "two" / "pyspark").mkdir()
    assert function(load_version(reference))(None) is json


def test_an_edited_file_is_read_again(tmp_path: Path) -> None:
    reference = write(tmp_path / "two", 'NAME = "bad"')
    first = load_version(reference)
    (tmp_path / "two" / "shapes.py").write_text('NAME = "two"')  # of the same length, within the same second
    second = load_version(reference)
    assert (function(first)(None), function(second)(None)) == ("bad", "two")
    assert first.digest != second.digest
    assert load_version(reference).digest == second.digest
    assert load_version(write(tmp_path / "three", 'NAME = "two"')).digest == second.digest, (
        "the digest is of the content"
    )
    same = load_version(write(tmp_path / "four", 'NAME = "two"  # the second one'))
    assert same.digest == second.digest, "a comment makes no difference"
    assert [version.matches(second.digest) for version in (first, second)] == [False, True]
    assert first.matches(None)


def test_functions_are_sent_to_workers_with_their_helpers(tmp_path: Path) -> None:
    """The workers have neither the file nor this package."""
    helper = "import re\n\nNAME = re.compile('two').pattern\n\ndef name():\n    return NAME\n"
    imports = "import shapes\nfrom shapes import name"
    version = load_version(write(tmp_path / "two", helper, imports, "return shapes.name() + name()"))
    cloudpickle.register_pickle_by_value(version.package)  # type: ignore[no-untyped-call]
    data = cloudpickle.dumps(function(version))  # type: ignore[no-untyped-call]
    code = (
        "import pickle, sys; sys.modules['airflow_provider_ckpt'] = None\n"
        f"print(pickle.loads({data!r})(None), [m for m in sys.modules if 'ckpt_logic' in m])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout.strip() == "twotwo []"
    assert pickle.loads(data)(None) == "twotwo"


def test_a_version_of_a_module_is_loaded_with_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "pipelines_of_this_test"
    package.mkdir()
    (package / "__init__.py").write_text("")
    write(package, 'NAME = "one"', "from pipelines_of_this_test import shapes")
    monkeypatch.syspath_prepend(str(tmp_path))
    reference = "pipelines_of_this_test.orders:job"
    running = load(reference)
    (package / "shapes.py").write_text('NAME = "two"')
    assert function(load_version(reference))(None) == "two"
    assert running.job.operators["live"].function(None) == "one"  # type: ignore[misc]
    with pytest.raises(errors.JobNotFoundError, match=r"Python finds no 'pipelines_of_this_test\.nothing'"):
        load_version("pipelines_of_this_test.nothing:job")
    with pytest.raises(errors.JobNotFoundError, match="Python finds no 'nothing_of_this_test'"):
        load_version("nothing_of_this_test.orders:job")


def test_a_version_reads_the_parameters_of_the_run(tmp_path: Path) -> None:
    reference = write(tmp_path / "two", "", "", "return day")
    first, second = (load_version(reference, {"day": day}) for day in ("1", "2"))
    assert (function(first)(None), function(second)(None)) == ("1", "2")
    with pytest.raises(errors.BadOptionError, match="no parameter 'other'"):
        load_version(reference, {"other": "1"})


@pytest.mark.parametrize(
    ("helper", "error", "problem"),
    [
        ("raise ValueError('no')", errors.JobImportError, r"shapes.py:1: ValueError: no"),
        ("def (", errors.JobImportError, r"shapes.py:1: SyntaxError"),
        ("import nothing_of_this_test", errors.JobImportError, "No module named 'nothing_of_this_test'"),
    ],
)
def test_a_failed_load_of_a_version_leaves_no_module_behind(
    tmp_path: Path, helper: str, error: type, problem: str
) -> None:
    modules, finders = dict(sys.modules), list(sys.meta_path)
    with pytest.raises(error, match=problem):
        load_version(write(tmp_path / "two", helper))
    assert sys.modules == modules
    assert sys.meta_path == finders
    (tmp_path / "two" / "shapes.py").write_text('NAME = "two"')
    assert function(load_version(f"{tmp_path}/two/orders.py:job"))(None) == "two"


def test_an_unchanged_version_is_not_loaded_twice(tmp_path: Path) -> None:
    reference = write(tmp_path / "two", 'NAME = "two"')
    loader = loader_of(tmp_path)
    digest = loader.read(reference)
    modules, finders = set(sys.modules), list(sys.meta_path)
    for _ in range(5):
        assert loader.read(reference) == digest
    assert (set(sys.modules), sys.meta_path) == (modules, finders)
    live: Any = loader(reference, digest)["live"].function
    assert live(None) == "two"
    write(tmp_path / "two", 'NAME = "three"')
    assert loader.read(reference) != digest
    assert set(sys.modules) - modules, "the edited file is another version"


def test_an_assigned_file_keeps_the_digest_of_its_first_read(tmp_path: Path) -> None:
    """Later runs recognise by the digest that the file has changed. They do not replace it with the digest that they
    read."""
    reference = write(tmp_path / "two", 'NAME = "two"')
    settings = {"v": VertexSettings(logic={"live": reference})}
    first = loader_of(tmp_path)
    first(reference)
    assigned = first.with_missing_digests(settings)
    digest = assigned["v"].digests["live"]
    write(tmp_path / "two", 'NAME = "three"')
    later = loader_of(tmp_path)
    later(reference, digest)
    assert [change.given for change in later.changed] == [digest]
    assert later.with_missing_digests(assigned) == assigned
    assert later.with_read_digests(assigned)["v"].digests["live"] != digest


def test_a_module_without_source_is_refused_by_name(tmp_path: Path) -> None:
    reference = write(tmp_path / "two", "")
    (tmp_path / "two" / "shapes.py").unlink()
    (tmp_path / "two" / "shapes.so").write_bytes(b"")
    with pytest.raises(errors.JobImportError, match=r"shapes.so is no Python source"):
        load_version(reference)


def test_a_file_without_the_python_suffix_is_refused(tmp_path: Path) -> None:
    (tmp_path / "orders.txt").write_text("")
    with pytest.raises(errors.JobReferenceError, match="no Python source"):
        load_version(f"{tmp_path}/orders.txt:job")
    with pytest.raises(errors.JobNotFoundError):
        load_version(f"{tmp_path}/nothing.py:job")
