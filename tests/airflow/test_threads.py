"""Threads of a triggerer, with an event loop and a root that does not answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.triggers.checkpoint import CheckpointTrigger
from airflow_provider_ckpt.triggers.release import CheckpointReleaseTrigger
from airflow_provider_ckpt.triggers.threads import THREADS_OF_A_ROOT
from tests.airflow.driver_journal import complete, end, start_driver
from tests.support.silent_server import SilentServer, silent_server

HUNG = "s3://hung/ckpt"


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[SilentServer]:
    """Yield the server of the root HUNG, which the connection "hung" leads to."""
    pytest.importorskip("s3fs")
    with silent_server() as server:
        client = {"region_name": "us-east-1"}
        options = {"key": "k", "secret": "s", "endpoint_url": server.uri, "client_kwargs": client}
        extra = {"storage_options": options}
        connection = {"conn_type": "ckpt", "host": HUNG, "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_HUNG", json.dumps(connection))
        yield server


async def first(events: AsyncIterator[Any]) -> dict[str, Any]:
    async for event in events:
        payload: dict[str, Any] = event.payload
        return payload
    raise AssertionError("the trigger ended without an event")


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(3000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen within 30 s")


def test_d20_forty_triggers_on_a_hung_root_do_not_block_another_trigger(
    silent: SilentServer, root: Storage, journal: Callable[[str], Journal]
) -> None:
    writer = start_driver(journal("orders"))
    complete(writer, 1)
    end(writer, "FINISHED")

    async def scene() -> tuple[int, dict[str, Any]]:
        sensors: list[Any] = [CheckpointTrigger(condition={"job_id": "x"}, ckpt_conn_id="hung") for _ in range(20)]
        sensors += [CheckpointReleaseTrigger(job_id="x", ckpt_conn_id="hung") for _ in range(20)]
        waiting = [asyncio.create_task(first(sensor.run())) for sensor in sensors]
        try:
            await until(lambda: silent.connections >= THREADS_OF_A_ROOT)
            # of others in this triggerer: each way to run what blocks
            answer = await asyncio.wait_for(asyncio.to_thread(lambda: 42), 20)
            own = CheckpointTrigger(condition={"job_id": "orders"}, root=root.uri, poll_interval=0.01)
            event = await asyncio.wait_for(first(own.run()), 20)
            assert silent.connections == THREADS_OF_A_ROOT
            assert not any(task.done() for task in waiting)
            return answer, event
        finally:
            for task in waiting:
                task.cancel()
            silent.close()  # ends the threads, which nothing can interrupt

    answer, event = asyncio.run(scene())
    assert answer == 42
    assert event["outcome"] == "reached"
