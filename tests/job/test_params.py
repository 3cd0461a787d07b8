"""Parameters, which the run passes and the job's file reads while it is loaded."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt import Job
from airflow_provider_ckpt.job import errors
from airflow_provider_ckpt.job.loading.loading import load, load_job

pytestmark = pytest.mark.usefixtures("import_state")

CODE = """
from airflow_provider_ckpt import FileSink, Job

job = Job("orders")
DAY = job.param("day")
SHOP = job.param("shop", default="all")


@job.source(bounded=True)
def orders(read):
    return read.text(f"/in/{job.param('day')}")


job.sink("lake", orders, FileSink(f"/lake/day={DAY}"))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "daily_of_this_test.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.fixture(params=["file", "module"])
def reference(request: pytest.FixtureRequest, folder: Path) -> str:
    return f"{folder}/daily_of_this_test.py:job" if request.param == "file" else "daily_of_this_test:job"


def sink_path(job: Job) -> str:
    return str(job.operators["lake"].sink.path)


def test_each_load_of_a_job_has_its_own_parameters(reference: str) -> None:
    first = load_job(reference, {"day": "2026-01-01"})
    second = load_job(reference, {"day": "2026-01-02", "shop": "A"})
    assert [sink_path(job) for job in (first, second)] == ["/lake/day=2026-01-01", "/lake/day=2026-01-02"]
    assert (first.params, second.params) == (
        {"day": "2026-01-01", "shop": "all"},
        {"day": "2026-01-02", "shop": "A"},
    )


def test_a_function_called_later_reads_the_parameters_of_its_load(reference: str) -> None:
    class Reader:
        def text(self, path: str) -> str:
            return path

    jobs = [load_job(reference, {"day": day}) for day in ("1", "2")]
    functions: list[Any] = [job.operators["orders"].function for job in jobs]
    assert [read(Reader()) for read in functions] == ["/in/1", "/in/2"]


def test_an_unused_parameter_is_refused_with_the_closest_name(reference: str) -> None:
    with pytest.raises(errors.BadOptionError, match=r"no parameter 'shopp'. Did you mean 'shop'\? .*day, shop"):
        load_job(reference, {"day": "1", "shopp": "A"})


def test_a_missing_parameter_is_refused_where_it_is_read(reference: str, folder: Path) -> None:
    words = rf"{folder}/daily_of_this_test\.py:5\) needs the parameter 'day'.* where you gave 'days'\? Given: days"
    with pytest.raises(errors.InvalidJobError, match=words) as caught:
        load_job(reference, {"days": "1"})
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_refused_load_does_not_affect_the_next_load(reference: str) -> None:
    assert sink_path(load_job(reference, {"day": "1"})) == "/lake/day=1"
    with pytest.raises(errors.InvalidJobError, match="needs the parameter 'day'"):
        load_job(reference)
    assert sink_path(load_job(reference, {"day": "2"})) == "/lake/day=2"


def test_a_parameter_read_only_in_a_function_is_refused(folder: Path) -> None:
    (folder / "late.py").write_text(
        'from airflow_provider_ckpt import Job\njob = Job("j")\ndef ask():\n    return job.param("day", default="x")\n'
    )
    loaded = load(f"{folder}/late.py:job")
    with pytest.raises(errors.InvalidJobError, match=r"late\.py:4\).*top level"):
        loaded.module.ask()


def test_a_job_that_an_imported_module_already_made_is_refused(folder: Path) -> None:
    (folder / "front.py").write_text("from daily_of_this_test import job\n")
    assert sink_path(load_job(f"{folder}/front.py:job", {"day": "1"})) == "/lake/day=1"
    with pytest.raises(errors.InvalidJobError, match="front"):
        load_job(f"{folder}/front.py:job", {"day": "2"})


def test_a_module_that_reads_no_parameters_is_imported_once(folder: Path) -> None:
    (folder / "plain_of_this_test.py").write_text('from airflow_provider_ckpt import Job\njob = Job("j")\n')
    assert load_job("plain_of_this_test:job") is load_job("plain_of_this_test:job")


def test_functions_of_a_module_with_parameters_are_sent_by_value(folder: Path) -> None:
    """An executor that imported the module would have no parameters."""
    (folder / "plain_of_this_test.py").write_text('from airflow_provider_ckpt import Job\njob = Job("j")\n')
    assert load("daily_of_this_test:job", {"day": "1"}).by_value
    assert not load("plain_of_this_test:job").by_value


def test_a_job_that_was_not_loaded_uses_default_parameters() -> None:
    job = Job("orders")
    assert job.param("day", default="2026-01-01") == "2026-01-01"
    assert job.param("end", default=None) is None
    with pytest.raises(errors.InvalidJobError, match=r"test_params\.py:\d+\) needs the parameter 'shop'"):
        job.param("shop")


@pytest.mark.parametrize(("name", "default"), [("", "x"), ("a day", "x"), (3, "x"), ("day", 3), ("day", ["x"])])
def test_names_and_defaults_of_parameters_must_be_texts(name: object, default: object) -> None:
    with pytest.raises(errors.InvalidJobError, match=r"test_params\.py"):
        Job("orders").param(name, default=default)  # type: ignore[call-overload]
