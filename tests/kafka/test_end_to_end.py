"""A job in processes that are killed (kill -9): files and a live topic in, a topic and files out, each row once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kafka.jars import connector_jars
from tests.kafka.topics import Topics
from tests.spark.harness import World
from tests.support.waiting import wait_until

JOB = Path(__file__).parent / "both_sinks.py"


class Driver:
    """``ckpt run`` in a session of its own, with its JVM."""

    def __init__(self, world: World, topics: Topics, live: str, out: str) -> None:
        named = {"BASE": str(world.base), "SERVERS": topics.servers, "LIVE": live, "OUT": out}
        conf = {
            "spark.master": "local[2]",
            "spark.driver.memory": "1g",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.jars": ",".join(map(str, connector_jars())),
        }
        command = [str(Path(sys.executable).parent / "ckpt"), "run", f"{JOB}:job", "--root", str(world.root)]
        command += [
            "--checkpoint-interval",
            "1s",
            *[word for item in conf.items() for word in ("--conf", "=".join(item))],
        ]
        self._log = world.base / "driver.log"
        environment = {**os.environ, **{f"KAFKA_JOB_{key}": value for key, value in named.items()}}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )

    def until(self, look: Callable[[], bool], description: str) -> None:
        def is_reached() -> bool:
            assert self._process.poll() is None, self._log.read_text()[-3000:]
            return look()

        wait_until(is_reached, description, seconds=240)

    def kill(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(60)

    def wait(self) -> int:
        return self._process.wait(240)


@pytest.mark.timeout(1200)
def test_each_row_is_once_in_topic_and_files_after_repeated_driver_kills(topics: Topics, tmp_path: Path) -> None:
    world = World(tmp_path, job_id="both")
    live, out = topics.make(2), topics.make(3)
    ids = world.put_ids("history", 12, 10) | topics.put(live, range(10_000, 10_100))
    driver = Driver(world, topics, live, out)
    try:
        driver.until(lambda: world.released_count() > 0, "a release in history")
        driver.kill()
        ids |= topics.put(live, range(10_100, 10_200))
        driver = Driver(world, topics, live, out)
        driver.until(lambda: bool(world.state().dropped), "the end of history")
        driver.kill()
        ids |= topics.put(live, range(10_200, 10_250))
        driver = Driver(world, topics, live, out)
        driver.until(lambda: world.released_count() >= len(ids), "every row in the files")
        world.request("drain")
        assert driver.wait() == 0, (world.base / "driver.log").read_text()[-3000:]
    finally:
        driver.kill()
    assert topics.ids(out) == sorted(ids)
    assert sorted(json.loads(row["value"])["id"] for row in world.released()) == sorted(ids)
