"""Applies mutants, one at a time, to copies of the tree, and sees whether a test notices."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import pytest

from tests.mutants.mutant import PACKAGE, ROOT, Mutant
from tests.mutants.warm_jvm import WarmJvm

_COPIED = (PACKAGE, "tests", "dags_examples", "docs", "pyproject.toml", "setup.cfg", "README.md")
_BROKEN = {"CollectError", "ImportError", "ModuleNotFoundError", "NameError", "SyntaxError", "UnboundLocalError"}
SECONDS_A_TEST = 150
"""More than a test waits for a condition (120 s, tests/support/waiting.py), which then fails by itself."""
SECONDS_A_MUTANT = 900
_ON_BROKER = "tests/kafka/"
JVM_FOR = 30
"""Runs in one JVM. Their remains in it must not add up."""


class Verdict(Enum):
    KILLED = "killed"
    SURVIVED = "survived"
    BROKEN = "broken"
    """It breaks an import, or the like: no test has noticed the defect that it stands for."""
    TIMED_OUT = "timed out"
    """A test ran out of time, but the mutant should not hang. The machine is slow, or the mutant needs a check."""
    UNSOUND = "unsound"
    """A test it names fails without it, or there is no such test."""

    @property
    def is_good(self) -> bool:
        return self is Verdict.KILLED


@dataclass(frozen=True)
class Record:
    """One line of :mod:`tests.mutants.record`."""

    test: str
    when: str
    outcome: str
    error: str
    message: str


@dataclass(frozen=True)
class Result:
    mutant: Mutant
    verdict: Verdict
    by: str
    """The test that decided, or what is wrong."""
    seconds: float


@dataclass(frozen=True)
class Session:
    """How one pytest run ended. ``code``: None if it was killed after its time."""

    code: int | None
    records: tuple[Record, ...]
    output: str

    @property
    def failed(self) -> list[Record]:
        return [record for record in self.records if record.outcome == "failed"]


@dataclass
class Scratch:
    """A copy of the tree in ``folder``.

    Python writes no bytecode there. It would match bytecode to its source by time and size, and two mutants may have
    the same time and size.
    """

    folder: Path
    source: Path = ROOT
    copied: Sequence[str] = _COPIED
    jvm: WarmJvm | None = None
    fast: bool = False
    """True if only the tests of ``make test`` run."""
    _number: int = field(default=0, init=False)

    def make(self) -> Scratch:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        for name in self.copied:
            origin = self.source / name
            if origin.is_dir():
                shutil.copytree(origin, self.folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            elif origin.exists():
                shutil.copy2(origin, self.folder / name)
        return self

    def check_imported(self) -> None:
        """The package that tests import is the one in the copy, and not the installed one."""
        code = f"import {PACKAGE}; print({PACKAGE}.__file__)"
        command = [sys.executable, "-c", code]
        completed = subprocess.run(
            command, cwd=self.folder, env=self._env(), capture_output=True, text=True, check=True
        )
        if not Path(completed.stdout.strip()).resolve().is_relative_to(self.folder.resolve()):
            raise AssertionError(f"tests would import {completed.stdout.strip()}, not what is in {self.folder}")

    def test(self, tests: Iterable[str], *more: str, seconds: float = SECONDS_A_MUTANT, each: int = 150) -> Session:
        """Run the tests here; ``each``: the limit of a test in seconds."""
        self._number += 1
        if self.jvm is not None and self._number % JVM_FOR == 0:
            self.jvm.restart()
        record = self.folder / f"record-{self._number}.jsonl"
        log = self.folder / f"output-{self._number}.txt"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.mutants.record", "-p", "no:cacheprovider"]
        tests = list(tests)
        on_broker = all(test.startswith(_ON_BROKER) for test in tests)  # with a Spark that has the connector
        command += [*more, f"--timeout={each}", f"--basetemp={self.folder / 'tmp'}", *tests]
        command += ["-m", "kafka"] if on_broker else []
        jvm = {} if on_broker or self.jvm is None else self.jvm.env()
        env = {**self._env(), "CKPT_MUTANTS_RECORD": str(record), "CKPT_SLOW": self._slow, **jvm}
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            code = _wait(process, seconds)
        lines = record.read_text().splitlines() if record.exists() else []
        records = tuple(Record(**json.loads(line)) for line in lines)
        return Session(code, records, log.read_text(errors="replace"))

    def collect(self, files: Iterable[str], *arguments: str, slow: str = "none") -> frozenset[str]:
        """Return the ids of the tests in the files that pytest would run with ``CKPT_SLOW`` as given."""
        command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", *arguments, *files]
        env = {**self._env(), "CKPT_SLOW": slow}
        completed = subprocess.run(command, cwd=self.folder, env=env, capture_output=True, text=True, check=False)
        assert completed.returncode in (0, pytest.ExitCode.NO_TESTS_COLLECTED), (
            completed.stdout[-2000:] + completed.stderr[-2000:]
        )
        return frozenset(line for line in completed.stdout.splitlines() if "::" in line)

    def baseline(self, tests: Iterable[str]) -> Session:
        """Run the tests without a mutant. Those with a broker run apart, because they need another Spark."""
        ordered = sorted(tests)
        groups = [[test for test in ordered if test.startswith(_ON_BROKER) is on_broker] for on_broker in (False, True)]
        sessions = [self.test(group, seconds=3600) for group in groups if group]
        records = tuple(record for session in sessions for record in session.records)
        return Session(sessions[-1].code, records, sessions[-1].output)

    def judge(self, mutant: Mutant) -> Result:
        """Apply the mutant, run its tests until one fails, and restore the source."""
        started = time.monotonic()
        path = mutant.path(self.folder)
        whole = path.read_text()
        path.write_text(mutant.mutated(self.folder))
        try:
            session = self.test(mutant.tests, "-x", each=SECONDS_A_TEST)
        finally:
            path.write_text(whole)
        verdict, by = judged(session, hangs=mutant.hangs)
        if self.jvm is not None and (session.code not in (0, 1) or "out of time" in by):
            self.jvm.restart()  # else the tests have stopped their Spark, and every query in it
        return Result(mutant, verdict, by, time.monotonic() - started)

    @property
    def _slow(self) -> str:
        return "none" if self.fast else "all"

    def _env(self) -> dict[str, str]:
        # a budget or an order of this run is not for the runs of single mutants
        own = {name: value for name, value in os.environ.items() if not name.startswith("CKPT_")}
        return {**own, "PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}


def judged(session: Session, *, hangs: bool = False) -> tuple[Verdict, str]:
    """Return the verdict on a mutant from the run of its tests, and the reason."""
    timed_out = [record for record in session.failed if "Timeout" in record.message or record.error == "Timeout"]
    if session.code is None or timed_out or "Timeout (0:" in session.output:  # the last one comes from faulthandler
        by = timed_out[0].test if timed_out else "the whole run"
        return (Verdict.KILLED if hangs else Verdict.TIMED_OUT), f"{by} (out of time)"
    for record in session.failed:
        if record.error in _BROKEN:
            return Verdict.BROKEN, f"{record.test}: {record.error}: {record.message[-200:]}"
    if session.code == 1 and session.failed:
        first = session.failed[0]
        return Verdict.KILLED, f"{first.test} ({' '.join(first.message.split())[:100]})"
    if session.code == 0 and any(one.outcome == "passed" for one in session.records):
        return Verdict.SURVIVED, f"{len(session.records)} tests pass"
    return Verdict.BROKEN, f"pytest ended with {session.code}: {session.output[-300:].strip()}"


def unsound(mutants: Iterable[Mutant], session: Session) -> dict[str, str]:
    """Return mutant id -> why its tests prove nothing, from a run of all tests without any mutant."""
    ran = {record.test for record in session.records if record.when == "call"}
    failed = [record.test for record in session.failed]
    problems: dict[str, str] = {}
    for mutant in mutants:
        for test in mutant.tests:
            if not any(belongs(record, test) for record in ran):
                problems[mutant.id] = f"no test {test} ran"
            for failing in failed:
                if belongs(failing, test):
                    problems[mutant.id] = f"{failing} fails without the mutant"
    return problems


def belongs(test: str, selected: str) -> bool:
    """Return whether a path or an id selects the test."""
    return test == selected or test.startswith((f"{selected}::", f"{selected}[", f"{selected}/"))


def _wait(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)  # a JVM may outlive its tests
        except ProcessLookupError:
            pass
        process.wait()
