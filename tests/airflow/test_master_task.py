"""Task that runs the JobMaster: when it prepares the job, how it ends, and its reaction to kills.

The JobMaster is fake in all tests but one.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import BaseHook, Connection
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferralTimeout

from airflow_provider_ckpt import FileSink
from airflow_provider_ckpt.connections import environment
from airflow_provider_ckpt.connections.environment import read_connection
from airflow_provider_ckpt.hooks.job_of_task import JOB_ID_XCOM
from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.request_files import pending_requests, write_request
from airflow_provider_ckpt.model.job_request import StopRequest, asks_to_exit
from airflow_provider_ckpt.operators import master_task
from airflow_provider_ckpt.operators.master_task import MasterTaskOperator
from airflow_provider_ckpt.remote import master as masters
from airflow_provider_ckpt.status.exit_code import ExitCode
from airflow_provider_ckpt.status.status_line import StatusLine, parse_line
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import open_root
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.triggers.master_verdict import MasterVerdict
from tests.airflow.group_journal import (
    JOB_ID,
    SUBTASKS,
    FakeTaskStates,
    coordinated,
    ended,
    finished,
    prepared,
    rescaled,
)
from tests.airflow.support import FakeSparkSubmit, StateStore, context, deferral_of, status

JOB = """
from airflow_provider_ckpt import FileSink, Job

job = Job("orders")


@job.source()
def live(read):
    raise AssertionError("a JobMaster reads nothing")


job.sink("out", live, FileSink({out!r}))
"""


class PlayedMaster:
    """Fake of ``run_master``.

    ``plays``: functions for the next runs. Each gets ``on_status`` and returns an exit code.
    """

    def __init__(self) -> None:
        self.plays: list[Callable[[Callable[[StatusLine], None]], ExitCode]] = []
        self.jobs: list[Any] = []
        self.abandoned: list[str] = []
        self.is_hopeless = threading.Event()

    def end_early(self, cause: str) -> None:
        self.abandoned.append(cause)
        self.is_hopeless.set()

    def __call__(self, remote: Any, on_status: Any, on_master: Any) -> ExitCode:
        self.jobs.append(remote)
        on_master(self)
        return self.plays.pop(0)(on_status)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> PlayedMaster:
    made = PlayedMaster()
    monkeypatch.setattr(masters, "run_master", made)
    monkeypatch.setattr(master_task, "WATCH", 0.01)
    return made


@pytest.fixture
def orders(journal: Callable[[str], Journal]) -> Journal:
    return journal(JOB_ID)


@pytest.fixture
def coordinate(
    spark_submit: FakeSparkSubmit, root: Storage, tmp_path: Path, task_states: FakeTaskStates
) -> Callable[..., MasterTaskOperator]:
    (tmp_path / "orders.py").write_text(JOB.format(out=str(tmp_path / "out")))
    given = {
        "job": f"{tmp_path}/orders.py:job",
        "root": root.uri,
        "spark_binary": spark_submit.path,
        "ckpt_group": "orders",
        "subtasks": SUBTASKS,
        "subtask_tasks": "orders.subtask",
        "deferrable": False,
    }
    return lambda **more: MasterTaskOperator(task_id="coordinate", **{**given, **more})


def plays(orders: Journal, end: str, code: ExitCode, message: str = "") -> Callable[[Any], ExitCode]:
    """Return a play of a JobMaster that claims, runs and ends with this status."""
    kind = {"FINISHED": "finished", "STOPPED": "stopped"}.get(end, "failed")

    def play(on_status: Callable[[StatusLine], None]) -> ExitCode:
        ended(coordinated(orders), end)
        line = parse_line(status(kind, message or end, status=end, epoch=orders.state.epoch))
        assert line is not None
        on_status(line)
        return code

    return play


def test_the_task_runs_the_jobmaster_and_ends_as_the_job_does(
    coordinate: Any, played: PlayedMaster, orders: Journal, spark_submit: FakeSparkSubmit, tmp_path: Path
) -> None:
    prepared(orders)
    played.plays = [plays(orders, "FINISHED", ExitCode.FINISHED)]
    run = context(StateStore())
    result = coordinate().execute(run)
    assert (result["job_id"], result["status"], result["epoch"]) == (JOB_ID, "FINISHED", 2)
    (remote,) = played.jobs
    assert (remote.options.job_id, remote.options.attempt) == (JOB_ID, f"{JOB_ID}~t1.coordinate")
    assert remote.options.restart_attempts == 0, "what fails leaves: Airflow counts the tries"
    assert [sink.uid for sink in remote.job.sinks] == ["out"]
    assert spark_submit.calls == []
    assert run["ti"].pushed[JOB_ID_XCOM] == JOB_ID


def test_the_jobmaster_gets_the_connections_of_its_sinks(
    coordinate: Any, played: PlayedMaster, orders: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "_IN_MEMORY", {})
    shop, before = (
        Connection(conn_id="shop_db", conn_type="postgres", host="h", password="s3cr3t"),
        BaseHook.get_connection,
    )
    monkeypatch.setattr(
        BaseHook, "get_connection", staticmethod(lambda conn_id: shop if conn_id == "shop_db" else before(conn_id))
    )
    prepared(orders)
    passwords: list[str | None] = []
    ends = plays(orders, "FINISHED", ExitCode.FINISHED, "it said s3cr3t")

    def play(on_status: Callable[[StatusLine], None]) -> ExitCode:
        passwords.append(read_connection("shop_db").password)
        return ends(on_status)

    played.plays = [play]
    store = StateStore()
    coordinate(conn_ids=["shop_db"]).execute(context(store))
    assert passwords == ["s3cr3t"]
    assert "s3cr3t" not in json.dumps(store.writes)


@pytest.mark.parametrize("cleared", [True, False], ids=["cleared", "retried"])
def test_a_clear_drops_the_stop_request_of_a_killed_try(
    coordinate: Any, played: PlayedMaster, orders: Journal, root: Storage, cleared: bool
) -> None:
    """The JobMaster died before it handled the request."""
    store, ends = StateStore(), plays(prepared(orders), "FINISHED", ExitCode.FINISHED)
    pending: list[int] = []

    def dies(on_status: Callable[[StatusLine], None]) -> ExitCode:
        epoch = coordinated(orders).state.epoch
        write_request(root, JOB_ID, StopRequest(exit_if_it_fails=True, epoch=epoch))
        write_request(root, JOB_ID, StopRequest(epoch=epoch))  # request of another client
        return ExitCode.FAILED

    def resumes(on_status: Callable[[StatusLine], None]) -> ExitCode:
        pending.extend(map(asks_to_exit, pending_requests(root, JOB_ID, orders.refresh().epoch, ())))
        return ends(on_status)

    played.plays = [dies, resumes]
    operator = coordinate()
    with pytest.raises(AirflowException):
        operator.execute(context(store, max_tries=2))
    operator.execute(context(store, try_number=2, max_tries=3 if cleared else 2))
    assert sorted(pending) == ([False] if cleared else [False, True])


@pytest.mark.parametrize(
    ("end", "code", "retried"),
    [("FAILED", ExitCode.TERMINAL, False), ("RESTARTING", ExitCode.FAILED, True)],
)
def test_a_failed_run_is_retried_unless_the_failure_is_permanent(
    coordinate: Any, played: PlayedMaster, orders: Journal, end: str, code: ExitCode, retried: bool
) -> None:
    prepared(orders)
    played.plays = [plays(orders, end, code, "rows/0: disk full")]
    with pytest.raises(AirflowException, match="rows/0: disk full") as caught:
        coordinate().execute(context(StateStore()))
    assert isinstance(caught.value, AirflowFailException) is not retried


def test_the_trigger_has_all_arguments_that_a_jobmaster_needs(
    coordinate: Any, played: PlayedMaster, orders: Journal, root: Storage, tmp_path: Path
) -> None:
    prepared(orders, sink=FileSink(str(tmp_path / "out")))
    task = coordinate(deferrable=True, execution_timeout=timedelta(hours=1))
    store = StateStore()
    waits = deferral_of(task, context(store))
    assert store.values["ckpt"]["outputs"] == {"out": str(tmp_path / "out")}, "the link, before the job has ended"
    assert not {"checkpoint", "released", "finished_operators"} & set(store.values["ckpt"]), "nobody would keep them"
    show = f"`ckpt show {JOB_ID} --root {store.values['ckpt']['root'].removeprefix('file://')}`"
    assert store.values["ckpt"]["progress"] == f"the task is deferred; {show} shows how far the job is"
    assert (waits.method_name, waits.timeout) == ("execute_complete", timedelta(hours=1))
    _, given = waits.trigger.serialize()
    assert given == json.loads(json.dumps(given)), "it is kept in Airflow's database"
    assert (given["job_id"], given["root"], given["group_id"]) == (JOB_ID, root.uri, "orders")
    assert given["tasks"] == {f"orders.subtask_{number}": name for number, name in enumerate(SUBTASKS)}
    options = RunOptions.from_json(given["options"])
    assert (options.attempt, options.restart_attempts) == (f"{JOB_ID}~t1.coordinate", 0)
    assert played.jobs == []


@pytest.mark.parametrize("sink", ["FileSink({out!r}, storage_options={{'key': 'mine'}})", "Own({out!r})"])
def test_a_job_with_sinks_that_the_journal_cannot_rebuild_keeps_its_slot(
    coordinate: Any,
    played: PlayedMaster,
    orders: Journal,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    sink: str,
) -> None:
    own = "class Own(FileSink):\n    pass\n\n\n@job.source()"
    text = JOB.replace("@job.source()", own).replace("FileSink({out!r})", sink)
    (tmp_path / "orders.py").write_text(text.format(out=str(tmp_path / "out")))
    prepared(orders, sink=FileSink(str(tmp_path / "out")))
    played.plays = [plays(orders, "FINISHED", ExitCode.FINISHED)]
    assert coordinate(deferrable=True).execute(context(StateStore()))["status"] == "FINISHED"
    assert "keeps its worker slot: the journal does not say how to reach out" in capsys.readouterr().out


@pytest.mark.parametrize(
    "sink",
    [
        "FileSink({out!r}, format='json')",
        "FileSink({out!r} + '-elsewhere')",
        "FileSink({out!r}), release='final'",
        "FileSink('s3://lake/orders')",
    ],
)
def test_a_job_whose_sink_has_changed_or_is_elsewhere_keeps_its_slot(
    coordinate: Any, played: PlayedMaster, orders: Journal, tmp_path: Path, capsys: Any, sink: str
) -> None:
    text = JOB.replace("FileSink({out!r})", sink)
    (tmp_path / "orders.py").write_text(text.format(out=str(tmp_path / "out")))
    planned = FileSink("s3://lake/orders" if "s3" in sink else str(tmp_path / "out"))
    prepared(orders, sink=planned)
    played.plays = [plays(orders, "FINISHED", ExitCode.FINISHED)]
    assert coordinate(deferrable=True).execute(context(StateStore()))["status"] == "FINISHED"
    assert "keeps its worker slot: the journal does not say how to reach out" in capsys.readouterr().out


def test_a_job_with_controllers_keeps_its_slot(
    coordinate: Any, played: PlayedMaster, orders: Journal, tmp_path: Path, capsys: Any
) -> None:
    """Controllers are code, which the triggerer does not have."""
    text = JOB.replace('Job("orders")', 'Job("orders", controllers=[Autoscaler("live", max_files_per_batch=(1, 2))])')
    text = text.replace("import FileSink, Job", "import FileSink, Job, Autoscaler")
    (tmp_path / "orders.py").write_text(text.format(out=str(tmp_path / "out")))
    prepared(orders, sink=FileSink(str(tmp_path / "out")))
    played.plays = [plays(orders, "FINISHED", ExitCode.FINISHED)]
    assert coordinate(deferrable=True).execute(context(StateStore()))["status"] == "FINISHED"
    message = (
        "keeps its worker slot: the JobMaster runs its controllers (Autoscaler(live)), which are in the job's file"
    )
    assert message in capsys.readouterr().out
    assert played.jobs[0].job is not None
    assert [controller.name for controller in played.jobs[0].job.controllers] == ["Autoscaler(live)"]


def test_a_job_without_sinks_in_its_journal_keeps_its_slot(
    coordinate: Any, played: PlayedMaster, orders: Journal
) -> None:
    prepared(orders)
    played.plays = [plays(orders, "FINISHED", ExitCode.FINISHED)]
    assert coordinate(deferrable=True).execute(context(StateStore()))["status"] == "FINISHED"


@pytest.mark.parametrize(
    ("verdict", "error"),
    [
        (MasterVerdict("FINISHED", "finished", "all sources have ended"), None),
        (MasterVerdict("TERMINAL", "failed", "no such column"), AirflowFailException),
        (MasterVerdict("FAILED", "failed", "disk full"), AirflowException),
        (MasterVerdict("FENCED", "fenced", "epoch 9 has the job"), AirflowFailException),
        (MasterVerdict("FAILED", "failed", "RESTARTING", abandoned="nobody runs rows/0"), AirflowFailException),
        (None, AirflowFailException),
    ],
)
def test_the_task_ends_as_the_jobmaster_of_its_trigger_did(
    coordinate: Any, orders: Journal, verdict: MasterVerdict | None, error: type[Exception] | None
) -> None:
    ended(coordinated(prepared(orders)), "FINISHED" if error is None else "RESTARTING")
    task, event = coordinate(deferrable=True), None if verdict is None else verdict.to_json()
    if error is None:
        result = task.execute_complete(context(StateStore()), event)
        assert (result["job_id"], result["status"]) == (JOB_ID, "FINISHED")
        return
    with pytest.raises(error) as caught:
        task.execute_complete(context(StateStore()), event)
    assert type(caught.value) is error
    assert verdict is None or (verdict.abandoned or verdict.message) in str(caught.value)


def test_a_deferral_timeout_sends_no_request(coordinate: Any, orders: Journal, root: Storage, tmp_path: Path) -> None:
    coordinated(prepared(orders, sink=FileSink(str(tmp_path / "out"))))
    store = StateStore()
    deferral_of(coordinate(deferrable=True), context(store))
    with pytest.raises(TaskDeferralTimeout):
        coordinate(deferrable=True).resume_execution("__fail__", {"error": "Trigger timeout"}, context(store))
    assert pending_requests(root, JOB_ID, 2, {}, 1) == []


def test_a_fenced_jobmaster_is_not_retried(coordinate: Any, played: PlayedMaster, orders: Journal) -> None:
    prepared(orders)

    def fenced(on_status: Callable[[StatusLine], None]) -> ExitCode:
        on_status(StatusLine("fenced", "epoch 9 has the job"))
        return ExitCode.FENCED

    played.plays = [fenced]
    with pytest.raises(AirflowFailException, match="epoch 9 has the job"):
        coordinate().execute(context(StateStore()))


def test_a_retry_coordinates_the_existing_workers(
    coordinate: Any, played: PlayedMaster, orders: Journal, spark_submit: FakeSparkSubmit
) -> None:
    """The previous try's process was killed, so the journal still shows RUNNING."""
    coordinated(prepared(orders))
    played.plays = [plays(orders, "FINISHED", ExitCode.FINISHED)]
    assert coordinate().execute(context(StateStore(), try_number=2))["epoch"] == 3
    assert spark_submit.calls == []


def restarting(orders: Journal, root: Storage, tmp_path: Path, spark_submit: FakeSparkSubmit, end: str) -> None:
    """End the run with a status, and let the next submitted planner prepare the job again."""
    ended(coordinated(prepared(orders)), end)
    made = Journal(open_root(open_storage(tmp_path / "made")), JOB_ID)
    ended(coordinated(prepared(made)), end)
    prepared(made, f"{JOB_ID}~t2.coordinate")
    target = Path(root.uri.removeprefix("file://"))
    spark_submit.play(status("prepared", epoch=3), copy=(tmp_path / "made", target))


def test_a_retry_after_a_failed_run_prepares_the_job_again_in_its_slot(
    coordinate: Any, played: PlayedMaster, orders: Journal, spark_submit: FakeSparkSubmit, root: Storage, tmp_path: Path
) -> None:
    restarting(orders, root, tmp_path, spark_submit, "RESTARTING")
    played.plays = [plays(orders, "FINISHED", ExitCode.FINISHED)]
    result = coordinate(restore="/x/chk-4").execute(context(StateStore(), try_number=2))
    assert result["epoch"] == 4
    (call,) = spark_submit.calls
    assert call.argv[-1] == "--plan"
    assert call.options["attempt"] == f"{JOB_ID}~t2.coordinate"
    assert call.options["restore"] == "latest", "the plan has carried the restore out"
    assert call.options["resume_failed"] is False


def test_a_planner_that_prepares_nothing_fails_its_task(
    coordinate: Any, played: PlayedMaster, orders: Journal, spark_submit: FakeSparkSubmit
) -> None:
    ended(coordinated(prepared(orders)), "RESTARTING")
    spark_submit.play()
    with pytest.raises(AirflowException, match="is not prepared") as caught:
        coordinate().execute(context(StateStore(), try_number=2))
    assert not isinstance(caught.value, AirflowFailException)
    assert played.jobs == []


@pytest.mark.parametrize("end", ["STOPPED", "FAILED"])
def test_only_a_clear_resumes_a_job_that_is_stopped_or_failed(
    coordinate: Any,
    played: PlayedMaster,
    orders: Journal,
    spark_submit: FakeSparkSubmit,
    root: Storage,
    tmp_path: Path,
    end: str,
) -> None:
    restarting(orders, root, tmp_path, spark_submit, end)
    store = StateStore()
    if end == "STOPPED":
        assert coordinate().execute(context(store, try_number=2))["status"] == "STOPPED"
    else:
        with pytest.raises(AirflowFailException, match="no such column: shop"):
            coordinate().execute(context(store, try_number=2))
    assert spark_submit.calls == []
    played.plays = [plays(orders, "FINISHED", ExitCode.FINISHED)]
    coordinate().execute(context(store, try_number=3, max_tries=5))
    assert spark_submit.calls[0].options["resume_failed"] is (end == "FAILED")


def test_clearing_only_the_coordinate_task_of_an_ended_job_fails_permanently(
    coordinate: Any,
    played: PlayedMaster,
    orders: Journal,
    spark_submit: FakeSparkSubmit,
    root: Storage,
    tmp_path: Path,
    task_states: FakeTaskStates,
) -> None:
    """The subtasks' tasks are successful, because the STOPPED job left them so."""
    restarting(orders, root, tmp_path, spark_submit, "STOPPED")
    store = StateStore()
    coordinate().execute(context(store))
    task_states.states = {f"orders.subtask_{number}": "success" for number in range(len(SUBTASKS))}

    def play(on_status: Callable[[StatusLine], None]) -> ExitCode:
        coordinated(orders)
        assert played.is_hopeless.wait(60)
        return ExitCode.FAILED

    played.plays = [play]
    with pytest.raises(AirflowFailException, match="the job needs them again: clear the whole group"):
        coordinate().execute(context(store, try_number=2, max_tries=3))


def test_clearing_only_the_coordinate_task_of_a_running_job_resumes_it(
    coordinate: Any, played: PlayedMaster, orders: Journal, spark_submit: FakeSparkSubmit
) -> None:
    """The running workers are not affected."""
    store, ends = StateStore(), plays(prepared(orders), "FINISHED", ExitCode.FINISHED)

    def dies(on_status: Callable[[StatusLine], None]) -> ExitCode:
        coordinated(orders)
        return ExitCode.FAILED

    played.plays = [dies, ends]
    with pytest.raises(AirflowException):
        coordinate().execute(context(store))
    result = coordinate().execute(context(store, try_number=2, max_tries=4))
    assert (result["status"], result["epoch"]) == ("FINISHED", 3)
    assert spark_submit.calls == []


def test_a_finished_job_is_not_run_again(
    coordinate: Any, played: PlayedMaster, orders: Journal, spark_submit: FakeSparkSubmit
) -> None:
    ended(coordinated(prepared(orders)), "FINISHED")
    assert coordinate().execute(context(StateStore(), try_number=2, max_tries=3))["status"] == "FINISHED"
    assert (played.jobs, spark_submit.calls) == ([], [])


def test_a_job_that_another_dag_run_has_taken_over_is_not_taken_back(
    coordinate: Any, played: PlayedMaster, journal: Callable[[str], Journal]
) -> None:
    prepared(journal("feed"), "shop.orders.r2~t1.plan")
    with pytest.raises(AirflowFailException, match=r"shop\.orders\.r2~t1\.plan has taken it over"):
        coordinate(job_id="feed").execute(context(StateStore(), try_number=2))
    assert played.jobs == []


def test_a_job_that_is_not_found_fails_the_task_retryably(
    coordinate: Any, played: PlayedMaster, task_states: FakeTaskStates
) -> None:
    """A share that is not mounted on this worker used to fail the group permanently."""
    with pytest.raises(AirflowException, match="there is nothing of it under") as raised:
        coordinate().execute(context(StateStore(), try_number=2))
    assert not isinstance(raised.value, AirflowFailException)
    assert played.jobs == []


def test_unfinished_subtasks_without_a_task_are_refused(coordinate: Any, played: PlayedMaster, orders: Journal) -> None:
    prepared(orders)
    listed = {"subtasks": ["history/1"], "subtask_tasks": ["orders.history-1"]}
    with pytest.raises(AirflowFailException, match="no task of this group runs: history/0, rows/0"):
        coordinate(**listed).execute(context(StateStore()))
    finished(coordinated(orders), "history/0")
    named = {"subtasks": ["history/1", "rows"], "subtask_tasks": ["orders.history-1", "orders.rows"]}
    played.plays = [plays(orders, "FINISHED", ExitCode.FINISHED)]
    coordinate(**named).execute(context(StateStore()))


@pytest.mark.parametrize("subtasks", [["history/0", "history/1", "rows/0"], ["history", "rows"]])
def test_r21_a_retry_during_a_rescale_accepts_the_subtask_still_to_be_added(
    coordinate: Any, played: PlayedMaster, orders: Journal, subtasks: list[str]
) -> None:
    """The previous JobMaster died after the graph had changed, before the new subtask was added."""
    rescaled(coordinated(prepared(orders)), begins=False)
    listed = {"subtasks": subtasks, "subtask_tasks": [f"orders.{number}" for number in range(len(subtasks))]}
    played.plays = [plays(orders, "FINISHED", ExitCode.FINISHED)]
    assert coordinate(**listed).execute(context(StateStore()))["status"] == "FINISHED"


def test_a_subtask_without_tries_left_fails_the_task_permanently(
    coordinate: Any, played: PlayedMaster, orders: Journal, task_states: FakeTaskStates
) -> None:
    prepared(orders)
    task_states.states = {"orders.subtask_1": "failed", "orders.subtask_2": "running"}

    def play(on_status: Callable[[StatusLine], None]) -> ExitCode:
        assert played.is_hopeless.wait(60)
        return plays(orders, "RESTARTING", ExitCode.FAILED)(on_status)

    played.plays = [play]
    with pytest.raises(AirflowFailException, match=r"history/1 \(failed\)"):
        coordinate().execute(context(StateStore()))
    assert len(played.abandoned) == 1, "said once"


def test_an_unloadable_job_file_fails_the_task_permanently(
    coordinate: Any, orders: Journal, tmp_path: Path, task_states: FakeTaskStates
) -> None:
    (tmp_path / "orders.py").write_text("import no_such_module_anywhere")
    prepared(orders)
    with pytest.raises(AirflowFailException, match="no_such_module_anywhere"):
        coordinate().execute(context(StateStore()))


def test_a_real_jobmaster_refuses_a_job_that_differs_from_the_journal(
    coordinate: Any, orders: Journal, task_states: FakeTaskStates
) -> None:
    """Only the plan is fake here. It has recorded another folder for the sink."""
    prepared(orders, sink=FileSink("/lake/out"))
    with pytest.raises(AirflowFailException, match="sink 'out' has another path than when the job began"):
        coordinate().execute(context(StateStore()))


# ---- a kill


class Running:
    """Task that executes in a thread, with a JobMaster that runs until it is released or sees a request."""

    def __init__(self, operator: MasterTaskOperator, played: PlayedMaster, orders: Journal, root: Storage) -> None:
        self.release, self.raised = threading.Event(), list[BaseException]()
        self._begun = threading.Event()

        def play(on_status: Callable[[StatusLine], None]) -> ExitCode:
            coordinated(orders)
            line = parse_line(status("started", epoch=orders.state.epoch))
            assert line is not None
            on_status(line)
            self._begun.set()
            while not self.release.wait(0.01):
                if pending_requests(root, JOB_ID, orders.state.epoch, (), orders.state.epoch):
                    return plays(orders, "STOPPED", ExitCode.FINISHED)(on_status)
            return ExitCode.FAILED

        played.plays = [play]
        self._thread = threading.Thread(target=self._run, args=(operator,), daemon=True)
        self._thread.start()
        assert self._begun.wait(60)

    def _run(self, operator: MasterTaskOperator) -> None:
        try:
            operator.execute(context(StateStore()))
        except AirflowException as error:
            self.raised.append(error)

    def end(self) -> BaseException | None:
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.raised[0] if self.raised else None


def test_a_task_marked_failed_stops_its_job(
    coordinate: Any, played: PlayedMaster, orders: Journal, task_states: FakeTaskStates, root: Storage
) -> None:
    prepared(orders)
    operator = coordinate(stop_grace=60)
    running = Running(operator, played, orders, root)
    task_states.states = {operator.task_id: "failed"}
    operator.on_kill()
    assert running.end() is None, "the journal tells how the job ended"
    assert orders.refresh().status == "STOPPED"


@pytest.mark.parametrize("state", ["running", "up_for_retry", "queued", None])
def test_a_cleared_or_shut_down_task_leaves_the_job_running(
    coordinate: Any,
    played: PlayedMaster,
    orders: Journal,
    task_states: FakeTaskStates,
    root: Storage,
    state: str | None,
) -> None:
    prepared(orders)
    operator = coordinate(stop_grace=60)
    running = Running(operator, played, orders, root)
    task_states.states = {operator.task_id: state} if state else {}
    operator.on_kill()
    error = running.end()
    running.release.set()
    assert "The workers continue" in str(error)
    assert not isinstance(error, AirflowFailException)
    assert root.list(f"{JOB_ID}/requests") == []
    assert orders.refresh().status == "RUNNING"
