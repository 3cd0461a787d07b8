from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSensorTimeout, AirflowSkipException, TaskDeferred

from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.hooks.errors import InvalidTaskArgumentError
from airflow_provider_ckpt.job.errors import BadOptionError
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.sensors.checkpoint import CheckpointSensor
from airflow_provider_ckpt.storage.local_storage import LocalStorage
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.triggers.checkpoint import CheckpointTrigger
from tests.airflow.driver_journal import complete, end, start_driver
from tests.airflow.support import StateStore, context

Journals = Callable[[str], Journal]


@pytest.fixture
def make(root: Storage) -> Callable[..., CheckpointSensor]:
    return lambda **arguments: CheckpointSensor(
        **{"task_id": "wait", "job_id": "orders", "root": root.uri, **arguments}
    )


def sensor_with_rendered(make: Any, argument: str, value: object) -> CheckpointSensor:
    """Return a sensor whose argument is a template, rendered only when the task runs."""
    sensor: CheckpointSensor = make(**{argument: "{{ something }}"})
    setattr(sensor, argument, value)
    return sensor


def test_poke_succeeds_when_the_checkpoint_is_released(make: Any, journal: Journals) -> None:
    sensor = make(checkpoint=2)
    assert sensor.poke({}) is False
    writer = start_driver(journal("orders"))
    complete(writer, 1)
    assert sensor.poke({}) is False
    complete(writer, 2)
    assert sensor.poke({}).xcom_value == {
        "job_id": "orders",
        "status": "RUNNING",
        "checkpoint": 2,
        "released": 2,
    }


def test_a_rendered_checkpoint_number_is_accepted(make: Any, journal: Journals) -> None:
    complete(start_driver(journal("orders")), 1, 2)
    assert make(checkpoint="2").poke({})


@pytest.mark.parametrize("checkpoint", ["last", 0, -1, 2.7, 2.0, True, "2.7", "1_0"])
def test_an_invalid_rendered_checkpoint_fails_permanently(make: Any, checkpoint: Any) -> None:
    with pytest.raises(AirflowFailException, match="final"):
        sensor_with_rendered(make, "checkpoint", checkpoint).poke({})


def test_a_failed_job_fails_the_sensor_unless_it_waits_for_a_restart(make: Any, journal: Journals) -> None:
    end(start_driver(journal("orders")), "FAILED")
    with pytest.raises(AirflowFailException, match="FAILED"):
        make().poke({})
    assert make(wait_for_restart=True).poke({}) is False


def test_a_sensor_continues_to_wait_for_a_stopped_job(make: Any, journal: Journals) -> None:
    """The job's task may be retried, for example after its worker was lost, and would resume the job."""
    end(start_driver(journal("orders")), "STOPPED")
    assert make().poke({}) is False


def test_a_sensor_in_poke_mode_times_out(make: Any) -> None:
    with pytest.raises(AirflowSensorTimeout):
        make(timeout=0.0, poke_interval=0.01).execute({})


def test_a_deferrable_sensor_is_not_deferred_if_the_checkpoint_exists(make: Any, journal: Journals) -> None:
    complete(start_driver(journal("orders")), 1)
    assert make(checkpoint=1, deferrable=True).execute({})["checkpoint"] == 1


def test_a_deferrable_sensor_passes_all_arguments_to_its_trigger(make: Any, root: Storage) -> None:
    sensor = make(checkpoint="7", deferrable=True, timeout=60.0, poke_interval=3.0, released=False)
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute({})
    trigger = deferred.value.trigger
    assert isinstance(trigger, CheckpointTrigger)
    assert deferred.value.timeout == timedelta(seconds=60)
    assert trigger.serialize()[1] == {
        "condition": {
            "job_id": "orders",
            "checkpoint": 7,
            "released": False,
            "wait_for_restart": False,
            "since": None,
            "finished": None,
            "watermark": None,
        },
        "stalled_after": None,
        "max_checkpoint_age": None,
        "job_task": None,
        "ckpt_conn_id": "ckpt_default",
        "root": root.uri,
        "poll_interval": 3.0,
    }


def test_the_event_alone_decides_how_a_deferred_sensor_ends(make: Any) -> None:
    result = {"job_id": "orders"}
    assert make().execute_complete({}, {"outcome": "reached", "message": "", "result": result}) == result
    with pytest.raises(AirflowFailException, match="no such column"):
        make().execute_complete({}, {"outcome": "failed", "message": "no such column", "result": None})


def test_polling_reads_only_new_journal_entries(make: Any, journal: Journals, monkeypatch: pytest.MonkeyPatch) -> None:
    complete(start_driver(journal("orders")), *range(1, 30))
    sensor = make()
    sensor.poke({})
    reads: list[str] = []
    read = LocalStorage.read

    def counting(self: LocalStorage, path: str) -> bytes:
        reads.append(path)
        return read(self, path)

    monkeypatch.setattr(LocalStorage, "read", counting)
    for _ in range(10):
        sensor.poke({})
    assert len(reads) <= 10


@pytest.mark.parametrize("arguments", [{"job_id": None}, {"job_task_id": "orders"}])
def test_exactly_one_of_job_id_and_job_task_id_is_required(make: Any, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidTaskArgumentError, match="one of job_id and job_task_id"):
        make(**arguments)


@pytest.mark.parametrize("flag", ["soft_fail", "never_fail"])
@pytest.mark.parametrize("deferrable", [False, True])
def test_a_failed_sensor_with_soft_fail_is_skipped_in_every_mode(
    make: Any, journal: Journals, flag: str, deferrable: bool
) -> None:
    """A deferrable sensor used to fail at its first poll."""
    end(start_driver(journal("orders")), "FAILED")
    with pytest.raises(AirflowSkipException, match=flag):
        make(deferrable=deferrable, **{flag: True}).execute(context(StateStore()))
    with pytest.raises(AirflowSkipException, match=flag):
        make(deferrable=deferrable, root=None, ckpt_conn_id="there_is_none", **{flag: True}).execute(
            context(StateStore())
        )


@pytest.mark.parametrize("flag", ["released", "wait_for_restart", "deferrable"])
def test_a_flag_must_be_a_boolean(make: Any, flag: str) -> None:
    """A sensor with wait_for_restart="false" used to wait forever."""
    with pytest.raises(BadOptionError, match=f"{flag}='false'"):
        make(**{flag: "false"})


@pytest.mark.parametrize("instant", ["yesterday", "2026-01-01T00:00:00", "", datetime(2026, 1, 1)])  # noqa: DTZ001
@pytest.mark.parametrize("argument", ["since", "watermark"])
def test_an_instant_needs_a_time_zone(make: Any, argument: str, instant: Any) -> None:
    with pytest.raises(BadOptionError, match=f"{argument}="):
        make(**{argument: instant})
    with pytest.raises(AirflowFailException, match=f"{argument}="):
        sensor_with_rendered(make, argument, instant).poke({})


@pytest.mark.parametrize(
    ("argument", "value"),
    [("checkpoint", "first"), ("checkpoint", 0), ("checkpoint", ""), ("max_checkpoint_age", 0), ("job_id", "a/b")],
)
def test_invalid_sensor_arguments_are_refused_when_the_dag_is_parsed(make: Any, argument: str, value: object) -> None:
    with pytest.raises(InvalidInputError, match=r"cannot be used|is refused"):
        make(**{argument: value})
    make(checkpoint="{{ params.number }}")


@pytest.mark.parametrize("since", ["1970-01-01 00:00:01+00:00", "1970-01-01T00:00:01Z", "1970-01-01T01:00:01+01:00"])
def test_a_rendered_instant_is_accepted(make: Any, journal: Journals, since: str) -> None:
    complete(start_driver(journal("orders")), 1)  # triggered at second 1
    assert make(since=since).poke({})
    assert make(since="1970-01-01T00:00:02Z").poke({}) is False


def test_next_means_the_same_checkpoint_in_retries_but_not_after_a_clear(make: Any, journal: Journals) -> None:
    writer, store = start_driver(journal("orders")), StateStore()
    complete(writer, 1)
    assert make(checkpoint="next").poke(context(store)) is False
    complete(writer, 2)
    assert make(checkpoint="next").poke(context(store, try_number=2))
    assert make(checkpoint="next").poke(context(store, try_number=3, max_tries=5)) is False


def test_a_rescheduled_sensor_counts_its_polls_across_processes(make: Any, journal: Journals) -> None:
    journal("orders").claim("t1", Worker(host="elsewhere"), 1.0)
    store = StateStore()

    def poke() -> Any:
        return make(mode="reschedule", poke_interval=60, stalled_after=180).poke(context(store))

    assert [poke() for _ in range(3)] == [False] * 3
    with pytest.raises(AirflowFailException, match="nothing was journaled for 180 s"):
        poke()


def test_a_deferred_sensor_replaces_next_with_a_number(make: Any, journal: Journals) -> None:
    """Another triggerer starts the trigger from its arguments, and must not restart the wait."""
    complete(start_driver(journal("orders")), 1, 2)
    with pytest.raises(TaskDeferred) as deferred:
        make(checkpoint="next", deferrable=True).execute(context(StateStore()))
    assert deferred.value.trigger.serialize()[1]["condition"]["checkpoint"] == 3
