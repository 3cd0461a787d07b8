"""Files in ``requests/`` that are not valid requests, and a driver that continues."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.client.reconfiguration_preview import Reconfiguration
from airflow_provider_ckpt.journal.events import Reconfigured
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.request_files import MOST_FILES, write_request
from airflow_provider_ckpt.journal.worker_process import identify
from airflow_provider_ckpt.model.job_request import ReconfigureRequest
from airflow_provider_ckpt.model.request_outcome import RequestResult
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.storage.errors import StorageDeniedError
from airflow_provider_ckpt.testing.crash import WrappedStorage
from tests.spark.counting_job import UserScript, check_counting, counting, state_partitions
from tests.spark.harness import Line, Run, World
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

HEAD = '{"format": "airflow-provider-ckpt/request", "version": 1'


class NotReadable(WrappedStorage):
    """A root in which one request belongs to another user, with mode 0600. (A test that runs as root reads it.)"""

    def read_range(self, path: str, start: int, end: int) -> bytes:
        if path.endswith("denied.json"):
            raise StorageDeniedError(uri=self.full_uri(path), reason="Permission denied")
        return self.inner.read_range(path, start, end)


def folder_of(world: World) -> Path:
    folder = world.root / world.job_id / "requests"
    folder.mkdir(exist_ok=True)
    return folder


def put_hostile(world: World) -> set[str]:
    """Write a file of each kind; return their names."""
    folder = folder_of(world)
    stop = f'{HEAD}, "kind": "stop", "at": 1.0, "epoch": '
    (folder / "lists.json").write_text("[" * 100_000 + "]" * 100_000)
    (folder / "objects.json").write_text('{"a":' * 8_000 + "1" + "}" * 8_000)
    (folder / "digits.json").write_text(stop + "1" * 400 + "}")
    (folder / "denied.json").write_text(stop + "1}")
    (folder / "text.json").write_bytes(b"\xff\xfe stop!")
    (folder / "itself.json").symlink_to(folder / "itself.json")
    os.mkfifo(folder / "pipe.json")
    (folder / "huge.json").touch()
    os.truncate(folder / "huge.json", 1 << 40)
    (folder / "two\nlines.json").write_text(stop + "1}")
    return {"lists", "objects", "digits", "denied", "text", "itself", "pipe", "huge", "two\\nlines"}


def named(run_lines: list[Line], names: set[str]) -> list[str]:
    """Return the names in the warnings, one for each warning."""
    warnings = [line["message"] for line in run_lines if line["kind"] == "warning"]
    return [
        name
        for message in warnings
        for name in names
        if message.startswith(f"'{name}' in requests/ is not taken as a request: ")
    ]


def test_foreign_files_neither_end_nor_delay_a_driver(world: World) -> None:
    """The files appear while the driver runs, and exist when the next driver begins."""
    world.put_ids("live", 1, 10)
    names, lines = set[str](), list[Line]()

    def work(script: UserScript) -> None:
        names.update(put_hostile(world))
        script.put(10)
        wait_until(lambda: len(named(lines, names)) == len(names), "a warning for each file")
        script.put(20)

    with UserScript(world, work):
        run = world.run(counting(world), lines.append, NotReadable(world.storage))
    assert (run.status, run.cause) == ("STOPPED", None)
    assert sorted(named(run.lines, names)) == sorted(names)
    check_counting(world, 30)

    lines.clear()
    world.put_ids("live", 1, 10, 30)

    def drain(line: Line) -> None:
        lines.append(line)
        if line["kind"] == "running":
            world.request("drain")

    run = world.run(counting(world), drain, NotReadable(world.storage))
    assert (run.status, run.cause) == ("FINISHED", None)
    check_counting(world, 40)
    assert not (world.root / world.job_id / "requests").exists()


def test_many_files_are_read_in_portions_and_requests_for_no_epoch_go(world: World) -> None:
    """A request for a later epoch than the journal has belongs to no driver."""
    world.put_ids("live", 1, 10)
    lines: list[Line] = []

    def is_cleared() -> bool:
        return not any(name.startswith("later-") for name in os.listdir(folder_of(world)))

    def work(script: UserScript) -> None:
        for number in range(300):
            later = f'{HEAD}, "kind": "stop", "at": 1.0, "epoch": {10**6 + number}}}'
            (folder_of(world) / f"later-{number}.json").write_text(later)
        wait_until(is_cleared, "a folder without requests for later epochs")
        for number in range(3 * MOST_FILES):
            (folder_of(world) / f"junk-{number}.json").touch()
        script.put(10)
        wait_until(lambda: any("files or more" in line["message"] for line in lines), "a warning of very many files")
        for path in folder_of(world).glob("junk-*"):
            path.unlink()

    with UserScript(world, work):
        run = world.run(counting(world), lines.append)
    assert (run.status, run.cause) == ("STOPPED", None)
    check_counting(world, 20)


OUT_OF_RANGE: list[tuple[str, Mapping[str, Any]]] = [
    ("max_files_per_batch", {"kind": "reconfigure", "changes": {"live": {"max_files_per_batch": 0}}}),
    ("state_partitions", {"kind": "reconfigure", "changes": {"counts": {"state_partitions": -5}}}),
    ("pool_weight", {"kind": "reconfigure", "changes": {"counts": {"pool_weight": 0}}}),
    ("trigger_interval", {"kind": "reconfigure", "changes": {"counts": {"trigger_interval": -1}}}),
    ("executors", {"kind": "reconfigure", "changes": {"counts": {"executors": -1}}}),
    ("parallelism", {"kind": "reconfigure", "changes": {"live": {"parallelism": 0}}}),
    ("epoch True", {"kind": "stop", "epoch": True}),
    ("exit_if_it_fails", {"kind": "stop", "exit_if_it_fails": 1}),
]


def test_a_value_out_of_range_is_refused_and_the_job_continues(world: World) -> None:
    world.put_ids("live", 1, 10)

    def ask(number: int, fields: Mapping[str, Any]) -> None:
        body = {"epoch": 1, "at": float(number), **fields}
        path = folder_of(world) / f"asked-{number}.json"
        path.with_name("hidden").write_text(f"{HEAD}, {json.dumps(body)[1:]}")
        path.with_name("hidden").rename(path)

    def work(script: UserScript) -> None:
        for number, (_, fields) in enumerate(OUT_OF_RANGE):
            ask(number, fields)
        # the driver also checks changes in the journal that a client of another release accepted
        changes = {"live": VertexSettings(logic={"live": "\0:job"})}
        past = write_request(world.storage, "job", ReconfigureRequest(changes, epoch=1)).name
        asked = {past, *(f"asked-{number}" for number in range(len(OUT_OF_RANGE)))}
        wait_until(lambda: asked <= script.client.read_state().outcomes.keys(), "the last answers")
        script.put(10)
        wait_until(
            lambda: not [name for name in os.listdir(folder_of(world)) if name.startswith("asked")], "a clean folder"
        )

    with UserScript(world, work):
        run = world.run(counting(world))
    assert (run.status, run.cause) == ("STOPPED", None)
    check_counting(world, 20)
    state = world.state()
    assert state.settings == {}
    for number, (problem, _) in enumerate(OUT_OF_RANGE):
        outcome = state.outcomes[f"asked-{number}"]
        assert outcome.result is RequestResult.REFUSED
        assert problem in outcome.detail


def decide(world: World, settings: Mapping[str, VertexSettings]) -> None:
    """Write a decision that only a driver without the check would write."""
    journal = Journal(world.storage, world.job_id)
    journal.claim("t", identify(), time.time(), releases_only=True)
    journal.write(Reconfigured(journal.state.reconfigured + 1, settings, time.time()))


def runs(world: World, start: int) -> Run:
    with UserScript(world, lambda script: script.put(start)):
        return world.run(counting(world), restart_attempts=1, restart_delay=0.1)


def test_a_setting_that_fails_every_run_can_be_reset(world: World) -> None:
    world.put_ids("live", 1, 10)
    assert runs(world, 10).status == "STOPPED"
    decide(world, {"live": VertexSettings(max_files_per_batch=0, pool_weight=2)})
    for _ in range(2):
        run = world.run(counting(world), restart_attempts=1, restart_delay=0.1)
        assert run.status in ("FAILED", "RESTARTING")
    client = JobClient(str(world.root), world.job_id)
    state = client.assign_for_next_run(Reconfiguration().take_back("live", "max_files_per_batch"))
    assert state.settings == {"live": VertexSettings(pool_weight=2)}
    parts = state_partitions(world)
    assert parts != 3
    with UserScript(world, lambda script: script.put(20)):
        run = world.run(counting(world), resume_failed=state.status == "FAILED")
    assert (run.status, run.cause) == ("STOPPED", None)
    client.assign_for_next_run(Reconfiguration().assign_workload("counts", state_partitions=3))
    assert runs(world, 30).status == "STOPPED"
    check_counting(world, 40)
    assert state_partitions(world) == 3
