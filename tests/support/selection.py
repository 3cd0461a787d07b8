"""Which tests run, in which order, and for how long.

``CKPT_SLOW``
    "none" (default): the tests without the marker ``slow``. "only": those with it. "all": both. A test that the command
    line names by its id always runs.
``CKPT_ORDER``
    A seed. Files, and the tests of each file, run in an order drawn from it. Default: the order of the source.
``CKPT_MINUTES``
    A time budget. Tests start until the minutes are used; the others are skipped, and the summary lists which ran.
    Tests are drawn one by one (``CKPT_ORDER``, default 1), so that every kind has its turn. Tests with a time limit of
    more than an hour are left out.
"""

from __future__ import annotations

import os
import re
import time
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping

import pytest

_DEADLINE = "CKPT_DEADLINE"
"""Set by the first process of a run, so that all workers of xdist share one deadline (seconds since the epoch)."""
_HOUR = 3600.0
"""Seconds. A test may run for its whole time limit, so one with a longer limit fits into no budget."""


class Selection:
    """The pytest plugin that applies the environment's choice."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.slow = environ.get("CKPT_SLOW") or "none"
        self.minutes = float(environ.get("CKPT_MINUTES") or 0)
        self.order = environ.get("CKPT_ORDER") or ("1" if self.minutes else "")
        self.deadline = float(environ.get(_DEADLINE, "inf"))
        self._ran: list[str] = []
        self._left = 0
        if self.slow not in ("none", "only", "all"):
            raise pytest.UsageError(f"CKPT_SLOW is {self.slow!r}: set it to none, only or all")
        if self.minutes < 0:
            raise pytest.UsageError(f"CKPT_MINUTES is {self.minutes:g}: set it to more than 0, or leave it out")

    @pytest.hookimpl(trylast=True)  # after the folders' own hooks have added their markers
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        named = tuple(argument for argument in config.args if "::" in argument)
        chosen = [item for item in items if _is_named(item, named) or self._is_chosen(item)]
        kept = set(map(id, chosen))
        left = [item for item in items if id(item) not in kept]
        if left:
            config.hook.pytest_deselected(items=left)
        if self.order:
            chosen.sort(key=lambda item: order_key(self.order, item.nodeid, by_file=not self.minutes))
        items[:] = chosen

    def _is_chosen(self, item: pytest.Item) -> bool:
        if self.minutes and _limit(item) > _HOUR:
            return False
        return self.slow == "all" or (item.get_closest_marker("slow") is not None) == (self.slow == "only")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        if time.time() > self.deadline:
            pytest.skip(f"the {self.minutes:g} minutes of CKPT_MINUTES are used")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and "CKPT_MINUTES" in str(report.longrepr):
            self._left += 1
        elif report.when == "call" or not report.passed:
            self._ran.append(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a run whose budget was used before its first test."""
        if self.minutes and self._left and not self._ran and not hasattr(session.config, "workerinput"):
            session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.minutes:
            ran = list(dict.fromkeys(self._ran))
            terminalreporter.section(f"{len(ran)} of {len(ran) + self._left} tests in {self.minutes:g} minutes")
            terminalreporter.write_line(f"drawn with CKPT_ORDER={self.order}; these ran:")
            for line in by_function(ran):
                terminalreporter.write_line(line)


def install(config: pytest.Config) -> None:
    """Register the plugin, and start the budget in the first process of the run."""
    minutes = float(os.environ.get("CKPT_MINUTES") or 0)
    if minutes and not hasattr(config, "workerinput"):
        os.environ[_DEADLINE] = str(time.time() + 60 * minutes)
    config.pluginmanager.register(Selection(os.environ), "ckpt-selection")


def order_key(seed: str, nodeid: str, *, by_file: bool) -> tuple[int, int]:
    """Return a sort key that depends on the seed and the test's id only, so that a new test moves no other one."""
    file = nodeid.partition("::")[0]
    return (_hash(seed, file) if by_file else 0, _hash(seed, nodeid))


def by_function(ids: Iterable[str]) -> list[str]:
    """Return one line a test function, with the parameters that ran."""
    parameters: dict[str, list[str]] = defaultdict(list)
    for name in ids:
        function, _, rest = name.partition("[")
        parameters[function] += [rest.removesuffix("]")] if rest else []
    return [
        f"{name} [{', '.join(sorted(value, key=_numbers))}]" if value else name
        for name, value in sorted(parameters.items())
    ]


def _numbers(parameter: str) -> tuple[tuple[int, str], ...]:
    """Sort 2 before 10."""
    return tuple((int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", parameter))


def _limit(item: pytest.Item) -> float:
    """Return the test's own time limit in seconds, or 0."""
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0]) if marker is not None and marker.args else 0.0


def _hash(seed: str, text: str) -> int:
    return zlib.crc32(f"{seed} {text}".encode())


def _is_named(item: pytest.Item, named: tuple[str, ...]) -> bool:
    names = item.nodeid, item.nodeid.split("[")[0]
    return any(argument.endswith(names) for argument in named)
