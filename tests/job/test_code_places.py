"""Folders from which code that a request names may be loaded: only the job's and added ones."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from airflow_provider_ckpt.job.errors import JobNotFoundError
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.sinks.file.file_sink import FileSink
from airflow_provider_ckpt.spark.plan.code_places import CodePlaces
from airflow_provider_ckpt.spark.plan.logic import LogicLoader
from airflow_provider_ckpt.spark.query.errors import ForeignCodeError
from airflow_provider_ckpt.spark.query.sources.reader import SourceReads
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import open_root

pytestmark = pytest.mark.usefixtures("import_state")

RAISES = "raise AssertionError('this code must not run')\n"


def write(path: Path, text: str = RAISES) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return f"{path}:job"


def places(folder: Path, *added: str) -> CodePlaces:
    """Return the places of a job in ``folder/jobs/orders.py``, with its root and its output in that folder."""
    job = Job("orders")

    @job.source
    def live(read: object) -> object:
        raise AssertionError

    job.sink("out", live, FileSink(f"{folder}/jobs/out"))
    reference = write(folder / "jobs" / "orders.py")
    options = RunOptions(reference, f"{folder}/jobs/root", "orders", allow_code_from=added)
    return CodePlaces.of(job, options, Location(options.root))


@pytest.mark.parametrize("name", ["jobs/orders.py", "jobs/orders_v2.py", "jobs/versions/orders.py", "added/v2.py"])
def test_code_next_to_the_jobs_file_and_in_added_folders_is_accepted(tmp_path: Path, name: str) -> None:
    code_places = places(tmp_path, f"{tmp_path}/added")
    code_places.check(write(tmp_path / name))


def test_code_of_the_jobs_package_is_accepted(tmp_path: Path) -> None:
    for folder in ("pipelines", "pipelines/orders"):
        write(tmp_path / folder / "__init__.py", "")
    code_places = CodePlaces(write(tmp_path / "pipelines/orders/job.py"))
    code_places.check(write(tmp_path / "pipelines/other/job.py"))
    with pytest.raises(ForeignCodeError):
        code_places.check(write(tmp_path / "other/job.py"))


@pytest.mark.parametrize("name", ["evil.py", "jobs-of-others/evil.py", "added.py"])
def test_code_elsewhere_is_refused_with_the_option_to_allow_it(tmp_path: Path, name: str) -> None:
    code_places = places(tmp_path, f"{tmp_path}/added")
    reference = write(tmp_path / name)
    with pytest.raises(ForeignCodeError) as refused:
        LogicLoader({}, Location(f"{tmp_path}/root"), code_places).read(reference)
    message = str(refused.value)
    assert f"({tmp_path}/jobs, {tmp_path}/added)" in message
    assert message.endswith(f"--allow-code-from {(tmp_path / name).parent}")


def test_a_link_to_code_outside_the_jobs_folder_is_refused(tmp_path: Path) -> None:
    code_places = places(tmp_path)
    write(tmp_path / "evil.py")
    (tmp_path / "jobs" / "v2.py").symlink_to(tmp_path / "evil.py")
    with pytest.raises(ForeignCodeError):
        code_places.check(f"{tmp_path}/jobs/v2.py:job")
    with pytest.raises(ForeignCodeError):
        code_places.check(write(tmp_path / "jobs" / ".." / "evil.py"))


def test_the_folder_of_the_job_may_be_a_link(tmp_path: Path) -> None:
    """Schedulers publish files this way, with a link to the folder of the newest version."""
    write(tmp_path / "version-7" / "orders.py")
    write(tmp_path / "version-7" / "v2.py")
    (tmp_path / "current").symlink_to(tmp_path / "version-7")
    CodePlaces(f"{tmp_path}/current/orders.py:job").check(f"{tmp_path}/current/v2.py:job")


@pytest.mark.parametrize(
    "name",
    [
        "jobs/root/evil.py",
        "jobs/root/orders/requests/evil.py",
        "jobs/out/evil.py",
        "jobs/_ckpt-out/orders/evil.py",
        "jobs/another-root/evil.py",
        "jobs/another-out/day=1/evil.py",
    ],
)
def test_code_in_folders_that_jobs_write_to_is_never_run(tmp_path: Path, name: str) -> None:
    """A folder that a job writes to is data, even below the job's or an added folder, whichever job writes to it."""
    code_places = places(tmp_path, "/", str(tmp_path))
    open_root(open_storage(tmp_path / "jobs" / "another-root"))
    (tmp_path / "jobs" / "_ckpt-another-out").mkdir(parents=True)
    with pytest.raises(ForeignCodeError, match="Data must not run as code"):
        LogicLoader({}, Location(f"{tmp_path}/jobs/root"), code_places).read(write(tmp_path / name))


def test_modules_are_checked_by_package_without_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("own_package_of_this_test", "foreign_package_of_this_test"):
        write(tmp_path / package / "__init__.py")
        write(tmp_path / package / "jobs.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    code_places = CodePlaces("own_package_of_this_test.jobs:job")
    code_places.check("own_package_of_this_test.jobs_v2:job")
    assert code_places.is_own("own_package_of_this_test.jobs:other")
    assert not code_places.is_own("own_package_of_this_test:job")
    with pytest.raises(ForeignCodeError, match=f"--allow-code-from {tmp_path}/foreign_package_of_this_test$"):
        code_places.check("foreign_package_of_this_test.jobs:job")
    with pytest.raises(ForeignCodeError):
        code_places.check("antigravity:job")
    CodePlaces(code_places.job, (f"{tmp_path}/foreign_package_of_this_test",)).check(
        "foreign_package_of_this_test.jobs:job"
    )
    assert not {"own_package_of_this_test", "foreign_package_of_this_test"} & sys.modules.keys()


def test_a_job_whose_file_is_gone_allows_added_folders(tmp_path: Path) -> None:
    code_places = CodePlaces(f"{tmp_path}/gone.py:job", (f"{tmp_path}/added",))
    code_places.check(write(tmp_path / "added" / "v2.py"))
    with pytest.raises(JobNotFoundError):
        code_places.check(f"{tmp_path}/gone.py:job")


@pytest.mark.parametrize("module", ["root.evil", "out.evil", "root.orders.requests.evil"])
def test_a_module_below_a_root_or_an_output_is_never_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    """A folder without ``__init__.py`` is a package, too, and the folder of the job's file is on ``sys.path``."""
    code_places = places(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "jobs"))
    write(tmp_path / "jobs" / f"{module.replace('.', '/')}.py")
    with pytest.raises(ForeignCodeError, match="Data must not run as code"):
        LogicLoader({}, Location(f"{tmp_path}/jobs/root"), code_places).read(f"{module}:job")


@pytest.mark.parametrize("imported", ["helper", "helpers.parse"])
def test_a_linked_helper_outside_the_allowed_folders_is_not_run(tmp_path: Path, imported: str) -> None:
    code_places = places(tmp_path)
    write(tmp_path / "evil.py")
    helper = tmp_path / "jobs" / f"{imported.replace('.', '/')}.py"
    helper.parent.mkdir(exist_ok=True)
    helper.symlink_to(tmp_path / "evil.py")
    reference = write(tmp_path / "jobs" / "v2.py", f"import {imported}\n")
    with pytest.raises(ForeignCodeError, match=r"evil\.py"):
        LogicLoader({}, Location(f"{tmp_path}/root"), code_places).read(reference)


@pytest.mark.parametrize("checked", ["orders.py", "orders_v2.py"])
def test_a_link_that_changes_after_the_check_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checked: str
) -> None:
    """The job's own file needs no check, so a link to it is the harder case."""
    code_places = places(tmp_path)
    write(tmp_path / "evil.py")
    write(tmp_path / "jobs" / "orders_v2.py")
    link = tmp_path / "v2.py"
    link.symlink_to(tmp_path / "jobs" / checked)
    check_of = CodePlaces.check_of

    def checked_and_changed(self: CodePlaces, reference: str) -> object:
        check = check_of(self, reference)
        link.unlink()
        link.symlink_to(tmp_path / "evil.py")
        return check

    monkeypatch.setattr(CodePlaces, "check_of", checked_and_changed)
    with pytest.raises(ForeignCodeError, match=r"evil\.py"):
        LogicLoader({}, Location(f"{tmp_path}/root"), code_places).read(f"{link}:job")


def test_a_sources_folder_counts_as_data_unless_it_holds_the_jobs_code(tmp_path: Path) -> None:
    code_places = places(tmp_path)
    reads = [SourceReads(paths=[f"file:{tmp_path}/jobs/live"]), SourceReads("csv", paths=[f"file:{tmp_path}/jobs"])]
    code_places = code_places.without_input(reads)
    with pytest.raises(ForeignCodeError, match="jobs/live, where data is written"):
        code_places.check(write(tmp_path / "jobs" / "live" / "evil.py"))
    code_places.check(write(tmp_path / "jobs" / "orders_v2.py"))
