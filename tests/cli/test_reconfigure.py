"""``ckpt reconfigure``, and its effect on ``ckpt show``."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from airflow_provider_ckpt.cli import main
from airflow_provider_ckpt.journal.events import PlanRecorded, ReconfigurationEnded, Reconfigured, StatusChanged
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.kinds.reconfiguration import PhaseTimes
from airflow_provider_ckpt.journal.request_files import pending_requests
from airflow_provider_ckpt.model.graph import JobEdge, JobGraph, JobVertex
from airflow_provider_ckpt.model.job_request import ReconfigureRequest, UpgradeRequest
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.request_outcome import RequestOutcome
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from tests.cli.conftest import NOON
from tests.support.definitions import STREAMING
from tests.support.journals import write_events


@pytest.fixture
def storage(empty_root: str) -> Storage:
    return open_storage(empty_root)


DAILY = JobVertex("daily", ("live", "daily"), ("live",), (), (), bounded=False)
OTHER = JobVertex("other", ("other",), (), (), (), bounded=False)


def streaming(journal: Journal) -> None:
    write_events(journal, PlanRecorded(JobGraph((DAILY, OTHER), ()), {}, NOON, STREAMING))


def test_a_reconfiguration_reaches_the_driver(
    running: Journal, empty_root: str, storage: Storage, capsys: pytest.CaptureFixture[str]
) -> None:
    streaming(running)
    changes = ["daily.state_partitions=16", "live.trigger_interval=2s", "daily.logic=a.b/v2.py:job"]
    assert main(["reconfigure", "orders", *changes, "other.pool_weight=3", "--root", empty_root]) == 0
    (request,) = pending_requests(storage, "orders", 1, ())
    assert isinstance(request, ReconfigureRequest)
    assert request.changes == {
        "daily": VertexSettings(state_partitions=16, logic={"daily": "a.b/v2.py:job"}),
        "live": VertexSettings(trigger_interval=2.0),
        "other": VertexSettings(pool_weight=3),
    }
    assert f"asked epoch 1 of job orders to reconfigure (request {request.name})" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["daily.pool_weight=2", "daily.pool_weight=3"], "daily: pool_weight is given twice"),
        (["daily.logic=a.py:job", "daily.logic=b.py:job"], "daily: logic is given twice"),
        (["daily.max_files_per_batch=2", "daily.max_bytes_per_batch=1m"], "daily: a limit of a micro-batch is given"),
        (["live.max_files_per_batch=2", "daily.max_bytes_per_batch=1m"], "Spark takes only one of them"),
    ],
)
def test_contradicting_changes_are_refused(
    running: Journal,
    empty_root: str,
    storage: Storage,
    capsys: pytest.CaptureFixture[str],
    changes: list[str],
    message: str,
) -> None:
    streaming(running)
    for more in ([], ["--plan"]):
        assert main(["reconfigure", "orders", *changes, *more, "--root", empty_root]) == 2
        assert message in capsys.readouterr().err
    assert pending_requests(storage, "orders", 1, ()) == []


def test_a_plan_names_the_paused_vertices_without_a_request(
    running: Journal, empty_root: str, storage: Storage, capsys: pytest.CaptureFixture[str]
) -> None:
    streaming(running)
    write_events(running, Reconfigured(1, {"daily": VertexSettings(trigger_interval=5.0)}, NOON))
    changes = ["daily.state_partitions=16", "daily.trigger_interval=2s"]
    assert main(["reconfigure", "orders", *changes, "--plan", "--root", empty_root]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "paused        daily",
        "              trigger_interval: 5.0 -> 2.0",
        "              state_partitions: as declared -> 16",
        "              its state is repartitioned: an unknown number -> 16",
        "unaffected    other",
    ]
    assert pending_requests(storage, "orders", 1, ()) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("daily.max_bytes_per_batch=1000", ["no difference: it has these settings"]),
        (
            "daily.max_files_per_batch=10",
            ["max_bytes_per_batch: 1000 -> as declared", "max_files_per_batch: as declared -> 10"],
        ),
        ("daily.state_partitions=8", ["no difference: it has these settings"]),
        ("live.logic=/b.py:job", ["live.logic: declared -> /b.py:job"]),
        ("daily.logic=/a.py:job", ["daily.logic: /a.py:job -> /a.py:job"]),
    ],
)
def test_a_plan_lists_the_differences(
    change: str, expected: list[str], running: Journal, empty_root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One limit replaces the other. The file of a function is read again if the function is requested again."""
    streaming(running)
    settings = VertexSettings(max_bytes_per_batch=1000, state_partitions=8, logic={"daily": "/a.py:job"})
    write_events(running, Reconfigured(1, {"daily": settings}, NOON))
    assert main(["reconfigure", "orders", change, "--plan", "--root", empty_root]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert [line for line in lines if not line.startswith("its state")] == expected


@pytest.mark.parametrize(
    "change",
    [
        *("daily", "daily=8", "=8", "daily.=8", "daily.logic=", "daily.colour=red", "daily.state_partitions=many"),
        *("nobody.pool_weight=2", "daily.executor_memory=4g", "daily.trigger_interval=soon", "daily.parallelism=2"),
    ],
)
def test_an_empty_or_impossible_reconfiguration_is_refused(
    change: str, running: Journal, empty_root: str, storage: Storage
) -> None:
    streaming(running)
    assert main(["reconfigure", "orders", change, "--root", empty_root]) == 2
    assert pending_requests(storage, "orders", 1, ()) == []


def test_show_prints_the_changed_settings(
    running: Journal, empty_root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    streaming(running)
    settings = VertexSettings(state_partitions=16, trigger_interval=2.0, logic={"daily": "v2.py:job"})
    took = {"daily": PhaseTimes(1.0, 0.5, 0.0, 1.5)}
    done = RequestOutcome.completed("daily was paused for 1.5 s")
    write_events(running, Reconfigured(1, {"daily": settings}, NOON), ReconfigurationEnded(1, "r", done, took, NOON))
    running.flush()
    assert main(["show", "orders", "--root", empty_root]) == 0
    assert "daily: trigger_interval=2, state_partitions=16, logic of daily from v2.py:job" in capsys.readouterr().out
    assert main(["show", "orders", "--json", "--root", empty_root]) == 0
    view = json.loads(capsys.readouterr().out)
    assert view["settings"]["daily"]["state_partitions"] == 16
    (reconfiguration,) = view["reconfigurations"]
    assert (reconfiguration["number"], reconfiguration["took"]["daily"]["resume"]) == (1, 1.5)


def test_functions_can_be_assigned_for_the_next_run(
    running: Journal, empty_root: str, storage: Storage, capsys: pytest.CaptureFixture[str]
) -> None:
    streaming(running)
    write_events(running, Reconfigured(1, {"daily": VertexSettings(logic={"daily": "bad.py:job"})}, NOON))
    command = ["reconfigure", "orders", "daily.logic=declared", "live.logic=v2.py:job", "--root", empty_root]
    assert main([*command, "--plan"]) == 0
    shown = capsys.readouterr().out
    assert "  daily.logic: bad.py:job -> declared\n" in shown
    assert "  live.logic: declared -> v2.py:job\n" in shown
    write_events(running, StatusChanged(JobStatus.STOPPED, NOON))
    assert main([*command, "--next-run"]) == 0
    assert "job orders is STOPPED; its next run applies the change" in capsys.readouterr().out
    assert Journal(storage, "orders").refresh().settings == {"daily": VertexSettings(logic={"live": "v2.py:job"})}
    assert main(["show", "orders", "--root", empty_root]) == 0
    assert ", for the next run: accepted: decided" in capsys.readouterr().out, "not what a driver changed before"


def test_plan_and_next_run_exclude_each_other(running: Journal, empty_root: str) -> None:
    streaming(running)
    with pytest.raises(SystemExit) as ended:
        main(["reconfigure", "orders", "daily.logic=declared", "--root", empty_root, "--plan", "--next-run"])
    assert ended.value.code == 2


PARTS = JobVertex("parts", ("parts",), ("parts",), ("parts",), (), bounded=True, parallelism=2, splits=True)


def test_a_plan_names_paused_vertices_and_rescaled_sources(
    running: Journal, empty_root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = JobGraph((PARTS, DAILY, OTHER), (JobEdge("parts__other", "parts", "other", "other"),))
    write_events(running, PlanRecorded(graph, {}, NOON, STREAMING))
    changes = ["parts.parallelism=4", "daily.pool_weight=2"]
    assert main(["reconfigure", "orders", *changes, "--plan", "--root", empty_root]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "paused        daily",
        "              pool_weight: as declared -> 2",
        "rescaled      parts: read by an unknown number -> 4",
        "paused        other, to read from the new subtasks, too",
        "unaffected    nothing else",
    ]


def test_show_prints_the_author_and_reason_of_the_last_change(
    running: Journal, empty_root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    streaming(running)
    settings = {"daily": VertexSettings(max_files_per_batch=4)}
    write_events(running, Reconfigured(1, settings, NOON, by="Autoscaler(daily)"))
    done = RequestOutcome.completed("daily was paused for 0.4 s")
    why = "each micro-batch is as large as it may be"
    write_events(running, ReconfigurationEnded(1, None, done, {}, NOON, "Autoscaler(daily)", why))
    assert main(["show", "orders", "--root", empty_root]) == 0
    shown = capsys.readouterr().out
    assert (
        "by Autoscaler(daily), because each micro-batch is as large as it may be: completed: daily was paused" in shown
    )
    assert main(["show", "orders", "--json", "--root", empty_root]) == 0
    (reconfiguration,) = json.loads(capsys.readouterr().out)["reconfigurations"]
    assert (reconfiguration["by"], reconfiguration["why"], reconfiguration["request"]) == (
        "Autoscaler(daily)",
        why,
        None,
    )


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        ([], UpgradeRequest()),
        (["v2.py:job"], UpgradeRequest("v2.py:job")),
        (["v2.py:job", "--allow-non-restored-state"], UpgradeRequest("v2.py:job", allow_non_restored_state=True)),
    ],
)
def test_an_upgrade_reaches_the_driver(
    running: Journal,
    empty_root: str,
    storage: Storage,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    asked: UpgradeRequest,
) -> None:
    streaming(running)
    assert main(["upgrade", "orders", *arguments, "--root", empty_root]) == 0
    (request,) = pending_requests(storage, "orders", 1, ())
    assert request == replace(asked, name=request.name, epoch=1, at=request.at)
    assert f"asked epoch 1 of job orders to upgrade (request {request.name})" in capsys.readouterr().out


def test_settings_can_be_undone_for_the_next_run(
    running: Journal, empty_root: str, storage: Storage, capsys: pytest.CaptureFixture[str]
) -> None:
    streaming(running)
    bad = VertexSettings(executors=900, trigger_interval=5.0)
    write_events(running, Reconfigured(1, {"daily": bad}, NOON))
    command = ["reconfigure", "orders", "daily.executors=declared", "--root", empty_root]
    assert main(command) == 2
    assert "executors can be taken back at the next run only" in capsys.readouterr().err
    assert pending_requests(storage, "orders", 1, ()) == []
    write_events(running, StatusChanged(JobStatus.STOPPED, NOON))
    assert main([*command, "--next-run"]) == 0
    assert Journal(storage, "orders").refresh().settings == {"daily": VertexSettings(trigger_interval=5.0)}
