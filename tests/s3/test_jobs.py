"""Whole jobs whose input, checkpoint root and outputs are in an object store. Spark uses S3A."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.chaos.world import Driver, Variant
from tests.s3.store import KEY, SECRET, Bucket
from tests.s3.world import World
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.s3, pytest.mark.spark, pytest.mark.timeout(900)]

CHAINED = Variant("chained", "mixed.py", ("out", "copy"))
APART = Variant("apart", "mixed.py", ("out", "copy"), chain=False)
COUNTS = Variant("counts", "counts.py", ("out",), counts=True)


@pytest.mark.parametrize("variant", [CHAINED, APART], ids=lambda variant: variant.name)
def test_a_job_on_s3_releases_every_row_once_and_shows_no_secret(
    variant: Variant, bucket: Bucket, jars: Path, tmp_path: Path
) -> None:
    with World(tmp_path, bucket, variant, jars) as world:
        world.add_history(4)
        world.add_live()
        driver = world.start()
        driver.wait_for("source_dropped" if variant.chain else "operator_finished")
        world.add_live()
        _check_command_lines(driver)
        _finish(world, driver)
        assert not bucket.storage.files(f"data/_ckpt-{variant.sinks[0]}/job/{variant.sinks[0]}/staging")


@pytest.mark.parametrize("variant", [CHAINED, APART, COUNTS], ids=lambda variant: variant.name)
def test_a_killed_driver_does_not_change_the_output(
    variant: Variant, bucket: Bucket, jars: Path, tmp_path: Path
) -> None:
    """R1, R5, R8, R9: the next driver copies the dead attempt's folder, object by object, and the job resumes."""
    with World(tmp_path, bucket, variant, jars) as world:
        world.add_history(6)
        world.add_live()
        first = world.start()
        _wait_for_rows(world, first, 40)
        first.signal(signal.SIGKILL)
        first.wait()
        assert world.missing() > 0, "it was to be killed before the end"
        world.add_live()
        second = world.start()
        _finish(world, second)
        assert world.state().epoch == 2
        assert second.lines("resumed", "started")[0]["checkpoint"] > 0


def _wait_for_rows(world: World, driver: Driver, rows: int) -> None:
    def look() -> bool:
        assert driver.exit_code is None, driver.tail()
        return len(world.ids) - world.missing() >= rows

    wait_until(look, lambda: f"{rows} released rows\n{driver.tail()}", seconds=300)


def _finish(world: World, driver: Driver) -> None:
    _wait_for_rows(world, driver, len(world.ids))
    world.drain()
    assert driver.wait() == 0, driver.tail()
    assert world.state().status == "FINISHED"
    world.check_exactly_once()
    world.check_nothing_tells(KEY, SECRET)


def _check_command_lines(driver: Driver) -> None:
    assert driver.jvms()
    for pid in driver.session():
        assert SECRET.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
