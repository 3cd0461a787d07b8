"""A record of the time of each test, and tables of it.

``make test-times`` runs the suite with ``CKPT_TIMINGS=FILE``, which writes one JSON line a test, and prints the tables.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

_PROPERTY = "ckpt-timing"
_SERVERS = {"postgres", "mariadbd", "initdb", "mariadb-install-db", "moto_server"}


@dataclass(frozen=True)
class Timing:
    """The cost of one test with its fixtures. ``cpu``: seconds of this process and of its ended children. ``started``:
    number of processes by kind."""

    test: str
    seconds: float
    cpu: float
    started: dict[str, int]
    fixtures: tuple[str, ...]

    @property
    def file(self) -> str:
        return self.test.partition("::")[0]

    @property
    def folder(self) -> str:
        return "/".join(self.file.split("/")[:2])

    @property
    def kind(self) -> str:
        if "spark" in self.fixtures:
            return "Spark in the test's process"
        if {"server", "maria", "broker"}.intersection(self.fixtures) or "server" in self.started:
            return "database server or broker"
        if "jvm" in self.started and "spark_submit" not in self.fixtures:
            return "JVM of a process of its own"
        if self.started.keys() & {"driver", "python"}:
            return "other processes"
        if self.folder == "tests/airflow":
            return "Airflow in the test's process"
        return "simulation" if self.folder == "tests/simulation" else "no process"


def kind_of(arguments: Iterable[object]) -> str:
    """Return the kind of a process by its command line: jvm, server, driver, python or other."""
    words = [os.fsdecode(word) for word in arguments if isinstance(word, (str, bytes, os.PathLike))]
    names = {Path(word).name for word in words[:6]}
    if names & {"spark-submit", "java", "spark-class"}:
        return "jvm"
    if names & _SERVERS:
        return "server"
    if any("airflow_provider_ckpt" in word or word == "ckpt" for word in words):
        return "driver"
    return "python" if any(name.startswith("python") for name in names) else "other"


class Recorder:
    """The pytest plugin that measures, in every process that runs tests."""

    def __init__(self) -> None:
        self._started: Counter[str] = Counter()
        self._begun = (0.0, 0.0)
        sys.addaudithook(self._on_event)

    def _on_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen":
            command = arguments[1]
            self._started[kind_of([command] if isinstance(command, (str, bytes)) else command)] += 1

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        self._started.clear()
        self._begun = (time.perf_counter(), sum(os.times()[:4]))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        if call.when == "teardown":
            seconds, cpu = time.perf_counter() - self._begun[0], sum(os.times()[:4]) - self._begun[1]
            fixtures = tuple(getattr(item, "fixturenames", ()))
            timing = Timing(item.nodeid, round(seconds, 4), round(cpu, 4), dict(self._started), fixtures)
            item.user_properties.append((_PROPERTY, asdict(timing)))


class Writer:
    """The pytest plugin that writes the file, in the first process of the run."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            for name, value in report.user_properties:
                if name == _PROPERTY:
                    self._file.write(json.dumps(value) + "\n")
                    self._file.flush()


def install(config: pytest.Config) -> None:
    path = os.environ.get("CKPT_TIMINGS")
    if path:
        config.pluginmanager.register(Recorder(), "ckpt-timings-recorder")
        if not hasattr(config, "workerinput"):
            config.pluginmanager.register(Writer(Path(path)), "ckpt-timings-writer")


def table(timings: Iterable[Timing], key: Callable[[Timing], str], most: int = 100) -> str:
    """Return a Markdown table: the groups with the most seconds first, at most ``most`` of them."""
    groups: dict[str, list[Timing]] = defaultdict(list)
    for timing in timings:
        groups[key(timing)].append(timing)
    rows = ["| | tests | seconds | of it CPU | longest |", "|---|---|---|---|---|"]
    for name, members in sorted(groups.items(), key=lambda group: -sum(member.seconds for member in group[1]))[:most]:
        seconds, cpu = sum(member.seconds for member in members), sum(member.cpu for member in members)
        longest = max(member.seconds for member in members)
        rows.append(f"| {name} | {len(members)} | {seconds:.0f} | {cpu:.0f} | {longest:.1f} |")
    return "\n".join(rows)


def main(path: str) -> None:
    lines = [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]
    timings = [Timing(**{**line, "fixtures": tuple(line["fixtures"])}) for line in lines]
    print(table(timings, lambda timing: timing.kind))
    print()
    print(table(timings, lambda timing: timing.folder))
    print()
    print(table(timings, lambda timing: timing.file, 20))


if __name__ == "__main__":
    main(sys.argv[1])
