"""Workers whose code or parameters differ from the planner's: they are refused, if possible before Spark starts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ckpt import Job
from airflow_provider_ckpt.job.loading.code import code_of
from airflow_provider_ckpt.job.loading.loading import load
from airflow_provider_ckpt.job.loading.version import load_version
from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.journal.events import DeploymentPrepared, PlanRecorded, Reconfigured
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.definition import JobDefinition
from airflow_provider_ckpt.model.graph import JobEdge, JobGraph, JobVertex
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.remote.timing import Timing
from airflow_provider_ckpt.spark.errors import WorkerDiffersError
from airflow_provider_ckpt.spark.plan.code_places import CodePlaces
from airflow_provider_ckpt.spark.plan.logic import LogicLoader
from airflow_provider_ckpt.spark.preparation.code_checks import check_code, check_logic
from airflow_provider_ckpt.spark.preparation.loaded_run import LoadedRun, RunRequest
from airflow_provider_ckpt.spark.worker_run import WorkerRun, prepare_again
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.memory import MemoryStorage
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage

LIVE, LARGE = map(SubtaskId, ("live/0", "large/0"))
GRAPH = JobGraph(
    (
        JobVertex("live", ("live",), ("live",), (), (), bounded=False),
        JobVertex("large", ("large",), (), (), ("lake",), bounded=False),
    ),
    (JobEdge("live__large", "live", "large", "large", "all_to_all"),),
)
FILE = """
from airflow_provider_ckpt import FileSink, Job

job = Job("orders")


@job.source
def live(read):
    return read.json("in")


@job.transform(inputs=[live])
def large(rows):
    return rows.where("amount >= 100")


job.sink("lake", large, FileSink("out"))
"""
OTHER = FILE.replace("100", "200")


@pytest.mark.parametrize(
    ("planned", "worker_params"), [({"day": "1"}, {}), ({}, {"day": "1"}), ({"day": "1"}, {"day": "2"})]
)
def test_a_worker_with_other_parameters_is_refused(planned: dict[str, str], worker_params: dict[str, str]) -> None:
    state = JobState("orders")
    state.deployment = 3
    definition = JobDefinition("streaming", {}, {}, {}, params=planned)
    PlanRecorded(JobGraph((), ()), {}, 1.0, definition).apply(state)
    options = RunOptions(job="job.py:job", root="memory://refusals", job_id="orders", params=worker_params)
    with pytest.raises(
        WorkerDiffersError, match="the parameters of job 'orders' differ from those that it was prepared with"
    ):
        prepare_again(_loaded(Job("orders"), options, open_storage(options.root)), state, ())


def _loaded(job: Job, options: RunOptions, storage: Storage) -> LoadedRun:
    request = RunRequest(options, Location(options.root), lambda line: None)
    journal = Journal(storage, options.job_id)
    journal.replay()
    return LoadedRun(request, job, storage, journal)


class Prepared:
    """A job that is prepared for workers, and its journal. Its file is ``orders.py`` in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.storage = MemoryStorage("refusals")
        self.journal = Journal(self.storage, "orders")
        self.journal.claim("plans", Worker(), 1.0)
        definition = JobDefinition("streaming", {}, {}, {})
        self.journal.write(PlanRecorded(GRAPH, {}, 1.0, definition, code=self.load(FILE).code))
        self.journal.write(DeploymentPrepared(1, 2.0))

    def write(self, text: str, name: str = "orders") -> str:
        self.folder.mkdir(exist_ok=True)
        (self.folder / f"{name}.py").write_text(text)
        return f"{self.folder}/{name}.py:job"

    def load(self, text: str) -> Job:
        """Load the job as a process does whose file holds ``text``."""
        reference = self.write(text)
        loaded = load(reference)
        loaded.job.code = code_of(loaded, reference)
        return loaded.job

    def assign(self, **logic: str) -> None:
        """Record that ``large`` got another function while the job ran."""
        digests = {uid: load_version(reference).digest for uid, reference in logic.items()}
        self.journal.write(Reconfigured(1, {"large": VertexSettings(logic=logic, digests=digests)}, 3.0))

    def state(self) -> JobState:
        """Return the state that another process reads."""
        return Journal(self.storage, "orders").replay()

    def standby_plan(self, text: str) -> Any:
        """Return the plan of a standby worker whose file holds ``text``."""
        run = self.loaded(text)
        return SimpleNamespace(run=run, job=run.job, options=run.options, logic=self.logic())

    def loaded(self, text: str) -> LoadedRun:
        """Return the loaded run of a worker whose file holds ``text``."""
        options = RunOptions(job=f"{self.folder}/orders.py:job", root="memory://refusals", job_id="orders")
        return _loaded(self.load(text), options, self.storage)

    def check_logic(self, *subtasks: SubtaskId) -> None:
        check_logic(self.logic(), self.state(), subtasks)

    def logic(self) -> LogicLoader:
        places = CodePlaces(f"{self.folder}/orders.py:job")
        return LogicLoader({}, Location("memory://refusals"), places)

    def check_worker(self, text: str, *subtasks: SubtaskId) -> None:
        check_code(self.load(text), f"{self.folder}/orders.py:job", self.state(), subtasks)


@pytest.fixture
def prepared(tmp_path: Path) -> Iterator[Prepared]:
    path, modules = list(sys.path), set(sys.modules)
    yield Prepared(tmp_path / "job")
    sys.path[:] = path
    for name in sys.modules.keys() - modules:
        if name.startswith(("_ckpt_job_", "_ckpt_logic_")):
            del sys.modules[name]


def test_a_worker_with_an_edited_file_is_refused_before_any_write(prepared: Prepared) -> None:
    before = list(prepared.storage.files(""))
    with pytest.raises(WorkerDiffersError, match="apart from comments and layout, in:") as refused:
        prepare_again(prepared.loaded(OTHER), prepared.state(), (LIVE, LARGE))
    assert str(refused.value).startswith(
        f"{prepared.folder}/orders.py, of this worker, differs from the file that job 'orders' was prepared with "
        "(deployment 1), apart from comments and layout, in: the function of 'large'. "
    )
    assert list(prepared.storage.files("")) == before


def test_functions_that_a_worker_does_not_run_may_be_edited(prepared: Prepared) -> None:
    prepared.check_worker(OTHER, LIVE)
    with pytest.raises(WorkerDiffersError, match="apart from comments and layout, in:"):
        prepared.check_worker(OTHER, LARGE)


def test_comments_and_the_path_of_the_file_make_no_difference(prepared: Prepared) -> None:
    prepared.folder = prepared.folder.parent / "elsewhere"
    prepared.check_worker(f"# the second one\n{FILE}", LIVE, LARGE)


def test_a_journal_without_code_digests_refuses_no_worker(prepared: Prepared) -> None:
    prepared.journal.write(PlanRecorded(GRAPH, {}, 4.0, JobDefinition("streaming", {}, {}, {})))
    prepared.check_worker(OTHER, LARGE)


@pytest.mark.slow
def test_workers_follow_the_code_of_the_last_plan(prepared: Prepared) -> None:
    definition, code = JobDefinition("streaming", {}, {}, {}), prepared.load(OTHER).code
    prepared.journal.write(PlanRecorded(GRAPH, {}, 4.0, definition, code=code))
    prepared.check_worker(OTHER, LARGE)
    with pytest.raises(WorkerDiffersError, match="apart from comments and layout, in:"):
        prepared.check_worker(FILE, LARGE)


def test_r21_the_comparison_of_code_uses_the_assigned_function(prepared: Prepared) -> None:
    """The assigned function counts, whether or not the job's own file also has it."""
    prepared.assign(large=prepared.write(OTHER, "two"))
    prepared.check_worker(FILE, LIVE, LARGE)
    prepared.check_worker(OTHER, LIVE, LARGE)
    prepared.check_logic(LARGE)
    with pytest.raises(WorkerDiffersError, match="layout, in: the function of 'live'"):
        prepared.check_worker(OTHER.replace('json("in")', 'json("other")'), LIVE, LARGE)


def test_r21_assigned_functions_do_not_change_the_sinks(
    prepared: Prepared,
) -> None:
    prepared.assign(large=prepared.write(OTHER, "two"))
    prepared.check_worker(OTHER, LARGE)
    with pytest.raises(WorkerDiffersError, match="the code outside the functions of its operators"):
        prepared.check_worker(FILE.replace('FileSink("out")', 'FileSink("there")'), LARGE)


def test_r21_a_worker_with_another_file_of_the_function_is_refused(prepared: Prepared) -> None:
    prepared.assign(large=prepared.write(OTHER, "two"))
    prepared.write(f"{OTHER}\n# 200\n", "two")
    prepared.check_logic(LARGE)
    prepared.write(OTHER.replace("200", "300"), "two")
    prepared.check_logic(LIVE)
    with pytest.raises(
        WorkerDiffersError,
        match=r"two\.py, of this worker, differs from the file that 'large' of job 'orders' was given",
    ):
        prepared.check_logic(LARGE)


def test_r21_a_worker_is_refused_before_any_function_is_called(prepared: Prepared) -> None:
    prepared.assign(large=prepared.write(OTHER, "two"))
    prepared.write(OTHER.replace("200", "300"), "two")
    loaded = prepared.loaded(FILE)
    with pytest.MonkeyPatch.context() as without_spark:
        without_spark.setattr(
            "airflow_provider_ckpt.spark.preparation.run_preparation.reach_root", lambda *arguments: None
        )
        without_spark.setattr(
            "airflow_provider_ckpt.spark.preparation.run_preparation.build_session", lambda *arguments: None
        )
        with pytest.raises(WorkerDiffersError, match="was given while the job ran"):
            prepare_again(loaded, prepared.state(), (LARGE,))


def test_r21_a_standby_worker_checks_a_newly_assigned_function(prepared: Prepared) -> None:
    """When the standby worker planned, the operator had the function of the job's file."""
    prepared.assign(large=prepared.write(OTHER, "two"))
    prepared.write(OTHER.replace("200", "300"), "two")
    before = list(prepared.storage.files(""))
    planned = prepared.standby_plan(FILE)
    run = WorkerRun(("large",), Timing(0.1), standby=True)
    with pytest.raises(WorkerDiffersError, match="was given while the job ran"):
        run._run(planned, (LARGE,), lambda worker: None)
    assert list(prepared.storage.files("")) == before


def test_r21_a_standby_worker_checks_a_restored_function(prepared: Prepared) -> None:
    """When the standby worker planned, the operator had another function.

    So the function in its file was not checked.
    """
    prepared.assign(large=prepared.write(OTHER, "two"))
    planned = prepared.standby_plan(OTHER)
    check_code(planned.job, planned.options.job, prepared.state(), (LARGE,))
    prepared.journal.write(Reconfigured(2, {}, 4.0))
    planned.run.journal.refresh()
    run = WorkerRun(("large",), Timing(0.1), standby=True)
    with pytest.raises(WorkerDiffersError, match="the function of 'large'"):
        run._run(planned, (LARGE,), lambda worker: None)


def test_r21_a_worker_without_the_file_of_the_function_is_refused(prepared: Prepared) -> None:
    prepared.assign(large=prepared.write(OTHER, "two"))
    (prepared.folder / "two.py").unlink()
    with pytest.raises(WorkerDiffersError, match="it cannot be loaded, and large was given it while the job ran"):
        prepared.check_logic(LARGE)


def test_r21_a_new_plan_records_the_function_files_it_read(prepared: Prepared) -> None:
    """The function's file was edited before a new run. The new run and its workers use the edited file."""
    reference = prepared.write(OTHER, "two")
    prepared.assign(large=reference)
    prepared.write(OTHER.replace("200", "300"), "two")
    logic = prepared.logic()
    logic(reference, prepared.state().settings["large"].digests["large"])
    settings = logic.with_read_digests(prepared.state().settings)
    assert settings["large"].digests == {"large": load_version(reference).digest}
    prepared.journal.write(Reconfigured(2, settings, 4.0))
    prepared.check_logic(LARGE)
