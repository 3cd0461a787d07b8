"""Selection, order and duration of tests (``tests/support/selection.py``), and the end of a test that hangs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.selection import by_function, order_key

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CONFTEST = """
import pytest
from tests.support import hangs, scheduling, selection

def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: one")
    selection.install(config)
    hangs.install(config)
    config.pluginmanager.register(scheduling)
"""
SUITE = """
import pytest

@pytest.mark.parametrize("number", range(5))
def test_quick(number): pass

@pytest.mark.slow
@pytest.mark.parametrize("number", range(5))
def test_slow(number): pass
"""


def run(folder: Path, suite: str, *arguments: str, target: str = "test_it.py", **environ: str) -> str:
    """Run the suite in a pytest of its own and return its output."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(suite)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-v",
        "-p",
        "no:cacheprovider",
        "-c",
        os.devnull,
        "--rootdir",
        str(folder),
    ]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CKPT_", "PYTEST_"))}
    env = {**kept, "PYTHONPATH": str(ROOT), **environ}
    done = subprocess.run(
        [*command, *arguments, target],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return f"{done.stdout}{done.stderr}exit code {done.returncode}"


@pytest.mark.parametrize(
    ("slow", "counts"), [("none", (5, 0)), ("only", (0, 5)), ("all", (5, 5))], ids=["none", "only", "all"]
)
def test_slow_tests_run_only_when_requested(tmp_path: Path, slow: str, counts: tuple[int, int]) -> None:
    output = run(tmp_path, SUITE, CKPT_SLOW=slow)
    assert (output.count("::test_quick["), output.count("::test_slow[")) == counts


def test_a_slow_test_that_is_named_runs(tmp_path: Path) -> None:
    assert "1 passed" in run(tmp_path, SUITE, target="test_it.py::test_slow[3]")


def test_an_unknown_choice_is_refused(tmp_path: Path) -> None:
    assert "CKPT_SLOW is 'some': set it to none, only or all" in run(tmp_path, SUITE, CKPT_SLOW="some")


def test_tests_run_in_the_order_of_the_seed(tmp_path: Path) -> None:
    def order(seed: str) -> list[str]:
        lines = run(tmp_path, SUITE, CKPT_ORDER=seed).splitlines()
        return [line.split()[0] for line in lines if " PASSED" in line]

    source, *drawn = (order(seed) for seed in ("", "1", "2", "1"))
    assert source == sorted(source)
    assert all(sorted(names) == source for names in drawn)
    assert drawn[0] == drawn[2] != drawn[1]


def test_tests_of_a_file_stay_together_unless_there_is_a_budget() -> None:
    ids = [f"tests/{file}.py::test_{number}" for file in "abc" for number in range(20)]
    files = [name.partition("::")[0] for name in sorted(ids, key=lambda name: order_key("7", name, by_file=True))]
    assert files == sorted(files, key=files.index)
    mixed = [name.partition("::")[0] for name in sorted(ids, key=lambda name: order_key("7", name, by_file=False))]
    assert mixed != sorted(mixed, key=mixed.index)


USES_THE_BUDGET = """
import pytest

ran = []

@pytest.mark.parametrize("number", range(10))
def test_any(number, request):
    ran.append(number)
    if len(ran) == 4:
        request.config.pluginmanager.get_plugin("ckpt-selection").deadline = 0
"""


def test_a_used_budget_skips_other_tests_and_names_finished_ones(tmp_path: Path) -> None:
    output = run(tmp_path, USES_THE_BUDGET, "-n", "1", CKPT_MINUTES="100", CKPT_ORDER="3")
    assert output.count(" PASSED ") == 4
    assert "4 passed, 6 skipped" in output
    assert " 4 of 10 tests in 100 minutes " in output
    assert "drawn with CKPT_ORDER=3; these ran:\ntest_it.py::test_any [" in output


TAKES_HOURS = """
import pytest

def test_quick(): pass

@pytest.mark.timeout(7200)
def test_for_hours(): pass
"""


def test_a_budget_deselects_tests_that_take_hours(tmp_path: Path) -> None:
    assert "1 passed, 1 deselected" in run(tmp_path, TAKES_HOURS, CKPT_MINUTES="100")
    assert "2 passed" in run(tmp_path, TAKES_HOURS)


def test_a_budget_that_is_used_before_the_first_test_fails_the_run(tmp_path: Path) -> None:
    output = run(tmp_path, "def test_any(): pass", CKPT_MINUTES="0.0000001")
    assert "0 of 1 tests" in output
    assert "exit code 5" in output


def test_a_negative_budget_is_refused(tmp_path: Path) -> None:
    assert "CKPT_MINUTES is -1: set it to more than 0" in run(tmp_path, SUITE, CKPT_MINUTES="-1")


def test_tests_that_ran_are_listed_by_function_and_parameters() -> None:
    ids = ["t.py::test_b[10-x]", "t.py::test_b[2-x]", "t.py::test_a"]
    assert by_function(ids) == ["t.py::test_a", "t.py::test_b [2-x, 10-x]"]


HANGING = """
import pytest, signal, threading

def test_before(): pass

@pytest.mark.timeout(1)
def test_hangs():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})  # like native code that never returns to Python
    threading.Event().wait()

def test_after(): pass
"""


@pytest.mark.parametrize("spread", ["-n1", "-n2 --dist loadfile --no-loadscope-reorder"])
def test_a_hanging_test_fails_alone_with_the_stacks_of_its_threads(tmp_path: Path, spread: str) -> None:
    output = run(tmp_path, HANGING, *spread.split(), "--timeout", "100", CKPT_HANG_GRACE="1")
    assert output.count("crashed while running 'test_it.py::test_hangs'") >= 1
    assert "1 failed, 2 passed" in output
    assert 'test_it.py", line 9 in test_hangs' in output
