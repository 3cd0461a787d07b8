"""Kafka in and out with a JobMaster and workers in separate processes, which are killed.

Each row is released once. Passwords reach each process by its environment, and are in no file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kafka.broker import Broker
from tests.kafka.parted import SINKS, Parted
from tests.support.postgres import PostgreSQL, initdb
from tests.support.waiting import wait_until
from tests.workers.world import PATIENCE

HISTORY = 800


@pytest.fixture
def shop() -> Iterator[dict[str, str]]:
    """Start a PostgreSQL server for a table of the job, if PostgreSQL is installed. Yield the variable with its URL."""
    if initdb() is None:
        yield {}
        return
    with PostgreSQL() as server:
        yield {"SHOP_URL": f"postgresql://airflow:s3cr3tOfUrl@127.0.0.1:{server.port}/postgres"}


def feed_and_wait(world: Parted, first: int) -> None:
    """Write live rows, and wait until some of them are released."""
    world.put(world.live, first, 20)
    wait_until(
        lambda: all(not {*range(first, first + 20)}.isdisjoint(world.released(sink)) for sink in SINKS),
        lambda: f"row {first}\n{world.tails()}",
        seconds=PATIENCE,
        every=0.3,
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_each_row_is_once_in_each_topic_after_any_kill(
    secured: tuple[Broker, Path], shop: dict[str, str], tmp_path: Path
) -> None:
    with Parted(tmp_path, secured, shop) as world:
        world.put(world.history, 0, HISTORY)
        world.put(world.live, 10_000, 20)
        master = world.master()
        history, rows = world.worker("history"), world.worker("rows", "records")
        master.wait_for("running")
        world.topics.put(world.history, range(HISTORY, HISTORY + 20))  # after the frozen end
        spare = world.start("worker", "--subtask", "history", "--standby")
        spare.wait_for("waiting")
        world.wait_for_rows(30)

        history.kill()
        spare.wait_for("started")
        released = len(world.released())
        assert released < HISTORY, "history was over before its worker was killed"
        world.wait_for_rows(released + 10)

        rows.kill()
        rows = world.worker("rows", "records")
        feed_and_wait(world, 20_000)

        for first in (30_000, 40_000):
            world.put(world.live, first, 20)
            master.kill()
            master = world.master()
            feed_and_wait(world, first + 5_000)

        master.freeze()
        successor = world.master()
        feed_and_wait(world, 50_000)
        master.thaw()
        assert master.wait(PATIENCE) != 0, "it goes on beside its successor"
        world.wait_for_rows(len(world.ids))

        world.client.drain()
        for member in (successor, rows, spare):
            assert member.wait(PATIENCE) == 0, member.tail()
        assert world.state().status == "FINISHED"
        for sink in SINKS:
            assert world.released(sink) == sorted(world.ids), sink
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in written if "s3cr3t" in path.read_text("latin1")]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_process_without_a_secret_is_refused_and_the_error_names_it(
    secured: tuple[Broker, Path], tmp_path: Path
) -> None:
    with Parted(tmp_path, secured, {}) as world:
        world.plan()
        for command, *flags, lacking in (
            ["master", "SHOP_KAFKA_PASSWORD"],
            ["worker", "--subtask", "history", "AIRFLOW_CONN_SHOP_KAFKA"],
            ["worker", "--subtask", "history", "SHOP_KAFKA_PASSWORD"],
        ):
            member = world.start(command, *flags, lacking=lacking)
            assert member.wait(PATIENCE) == 2, member.tail()
            [refused] = member.lines("refused")
            assert lacking in refused["message"]
