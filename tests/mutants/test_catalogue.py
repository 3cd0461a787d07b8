"""The list of mutants keeps step with the code: a mutant that no longer applies proves nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import PACKAGE, ROOT, Mutant, StaleMutantError

_GUARDS = re.compile(
    r"\b(?<!def )sync_(?:file|folder|tree|each)\(|\bos\.fsync\(|\.sync\(|\bcheck_fenced\(\)|\b_check_fenced\(\)"
)
"""Calls that make data durable, or check whether another driver owns the job."""


def test_every_mutant_applies_once_and_names_tests_that_exist() -> None:
    assert [problem for mutant in MUTANTS for problem in problems(mutant)] == []


def problems(mutant: Mutant) -> Iterator[str]:
    try:
        compile(mutant.mutated(), mutant.symbol, "exec")
    except (StaleMutantError, SyntaxError) as error:
        yield f"{mutant.id}: {error}"
    if mutant.new == mutant.old or not mutant.tests:
        yield f"{mutant.id}: it changes nothing or names no test"
    for test in mutant.tests:
        path, _, name = test.partition("::")
        function = name.rpartition("::")[2].partition("[")[0]
        if not (ROOT / path).exists():
            yield f"{mutant.id}: there is no {path}"
        elif f"def {function}" not in written_beside(path):
            yield f"{mutant.id}: there is no {function} in {path}"


@cache
def written_beside(path: str) -> str:
    """Return the sources that may define the tests of a path: a class may inherit tests of a public suite."""
    files = (*(ROOT / path).parent.glob("*.py"), *(ROOT / "airflow_provider_ckpt" / "testing").glob("*.py"))
    return "".join(file.read_text() for file in files)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"symbol": "Gone.method"}, "nothing in"),
        ({"new": "def ("}, "invalid syntax"),
        ({"old": "pass", "new": "pass"}, "changes nothing"),
        ({"tests": ("tests/gone.py",)}, "there is no tests/gone.py"),
        ({"tests": ("tests/storage/test_local.py::test_gone",)}, "there is no test_gone"),
    ],
    ids=["symbol", "syntax", "no change", "file", "test"],
)
def test_a_stale_mutant_is_noticed(changes: dict[str, Any], problem: str) -> None:
    assert any(problem in message for message in problems(replace(MUTANTS[0], **changes)))


def test_names_of_mutants_are_unique() -> None:
    assert [name for name, times in Counter(mutant.id for mutant in MUTANTS).items() if times > 1] == []


def test_no_mutant_uses_an_undefined_name(tmp_path: Path) -> None:
    """A NameError in a driver's thread fails tests as any error does, and proves nothing about the defect."""
    for mutant in MUTANTS:
        (tmp_path / f"{mutant.id}.py").write_text(mutant.mutated())
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821,F823,E9", str(tmp_path)]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stdout


def test_every_fsync_and_every_fence_check_has_a_mutant() -> None:
    """Each new fsync or fence needs a test, and a mutant that fails the test."""
    covered: dict[Path, set[int]] = defaultdict(set)
    for place in (mutant.place() for mutant in MUTANTS):
        covered[place.symbol.file] |= set(place.lines)
    guards = [
        (file, number, line)
        for file in sorted((ROOT / PACKAGE).rglob("*.py"))
        if file.parent.name != "testing"
        for number, line in _guards(file)
    ]
    assert len(guards) > 40
    bare = [f"{file}:{number}: {line.strip()}" for file, number, line in guards if number not in covered[file]]
    assert not bare, "no mutant in tests/mutants/catalogue takes these out:\n" + "\n".join(bare)


def _guards(file: Path) -> list[tuple[int, str]]:
    lines = enumerate(file.read_text().splitlines(), 1)
    return [(number, line) for number, line in lines if _GUARDS.search(line) and not line.lstrip().startswith("def ")]
