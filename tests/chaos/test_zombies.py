"""Two drivers of one job: the first was stopped or orphaned, or both started together.

A single driver wins, the other reports it, and nothing is lost.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from airflow_provider_ckpt.packaging import PACKAGE, package_zip
from tests.chaos.data import Feeder
from tests.chaos.ending import finish
from tests.chaos.released import check_no_duplicates
from tests.chaos.world import Driver, Variant, World
from tests.support.processes import is_alive, session_members
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900)]

MIXED = Variant("mixed", "mixed.py", ("out", "copy"))
COUNTS = Variant("counts", "counts.py", ("out",), counts=True)
FENCED = 4
ELSEWHERE = Path(__file__).parent / "elsewhere.py"
TASK = Path(__file__).parent / "task.py"


def pause(driver: Driver) -> None:
    """Send SIGSTOP to the driver.

    The driver does not notice the time that passes, as on a paused virtual machine or a swapping host.
    """
    driver.signal(signal.SIGSTOP)


def wake(driver: Driver) -> None:
    driver.signal(signal.SIGCONT)


def check_fenced(driver: Driver, by_epoch: int) -> None:
    """Check that the driver ended with 4 and names the job's current driver."""
    assert driver.wait() == FENCED, driver.tail()
    message = driver.lines("fenced")[-1]["message"]
    assert f"epoch {by_epoch}" in message, message


@pytest.mark.parametrize("variant", [MIXED, COUNTS], ids=["mixed", "counts"])
def test_r8_a_paused_driver_on_another_host_is_fenced_when_it_resumes(variant: Variant, tmp_path: Path) -> None:
    """The driver is paused within a batch while its successor publishes and releases hundreds of rows (R3, R8, R9)."""
    with World(tmp_path, variant) as world:
        with Feeder(world.data):
            command = [sys.executable, str(ELSEWHERE), "another-host", "--options", world.options()]
            zombie = world.start(command)
            zombie.wait_for("released", count=3)
            pause(zombie)
            successor = world.start()
            assert successor.wait_for("resumed")["driver_before"] == "unreachable"
            successor.wait_for("released", count=6)
            wake(zombie)
            check_fenced(zombie, by_epoch=2)
            check_no_duplicates(world)
            successor.wait_for("released", count=10)
        finish(world, successor)


def test_r8_a_paused_driver_on_this_host_is_killed_after_its_grace(tmp_path: Path) -> None:
    """Its JVM was not killed, wakes up next to the successor, and ends (R8)."""
    with World(tmp_path, COUNTS) as world:
        with Feeder(world.data):
            zombie = world.start()
            zombie.wait_for("released", count=3)
            pause(zombie)
            successor = world.start()
            assert "killed" in successor.wait_for("resumed")["message"]
            assert zombie.wait() == -signal.SIGKILL
            successor.wait_for("released", count=3)
            wake(zombie)
            wait_until(lambda: not zombie.session(), "the end of the zombie's JVM")
            successor.wait_for("released", count=6)
        finish(world, successor)


def test_a_second_run_takes_the_job_over_and_both_runs_report_it(tmp_path: Path) -> None:
    """The first run leaves by itself within its grace period (R8)."""
    with World(tmp_path, MIXED) as world:
        with Feeder(world.data):
            first = world.start()
            first.wait_for("released", count=2)
            second = world.start(attempt="the second run")
            resumed = second.wait_for("resumed")
            check_fenced(first, by_epoch=2)
            assert "the second run" in first.lines("fenced")[-1]["message"]
            assert resumed["epoch"] == 2
            assert resumed["driver_before"] == "left"
            second.wait_for("released", count=3)
        finish(world, second)


def test_one_of_two_simultaneous_runs_wins(tmp_path: Path) -> None:
    """Both runs race for the first entries of a new root (R3, R17)."""
    with World(tmp_path, MIXED) as world:
        with Feeder(world.data):
            both = [world.start(), world.start()]
            wait_until(
                lambda: any(driver.exit_code is not None for driver in both),
                lambda: "the end of one of the two\n" + "\n".join(driver.tail() for driver in both),
            )
            loser, winner = sorted(both, key=lambda driver: driver.exit_code is None)
            check_fenced(loser, by_epoch=world.state().epoch)
            winner.wait_for("released", count=3)
        finish(world, winner)


def test_an_orphaned_driver_is_fenced_by_the_retry(tmp_path: Path) -> None:
    """SIGKILL of the task process leaves spark-submit's JVM and its Python driver alive (R8)."""
    with World(tmp_path, MIXED) as world:
        with Feeder(world.data):
            task = world.start([sys.executable, str(TASK), *_spark_submit(world)])
            task.wait_for("released", count=2)
            orphans = task.session()
            task.signal(signal.SIGKILL, [task.pid])
            task.wait()
            seen = len(task.lines("checkpoint"))
            wait_until(lambda: len(task.lines("checkpoint")) > seen, lambda: f"the orphan continues\n{task.tail()}")
            retry = world.start(_spark_submit(world))
            retry.wait_for("released", count=2)
            wait_until(lambda: not session_members(task.pid), lambda: f"the end of the orphans\n{task.tail()}")
            assert task.lines("fenced"), task.tail()
            assert not any(map(is_alive, orphans))
        finish(world, retry)


def _spark_submit(world: World) -> list[str]:
    submit = Path(sys.executable).with_name("spark-submit")
    driver = str(PACKAGE / "spark" / "main.py")
    return [str(submit), "--py-files", str(package_zip()), driver, "--options", world.options()]
