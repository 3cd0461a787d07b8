"""The list of mutants keeps step with the code: a mutant that no longer applies proves nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import PACKAGE, ROOT, Mutant

_GUARDS = re.compile(
    r"\b(?<!def )sync_(?:file|folder|tree|each)\(|\bos\.fsync\(|\.sync\(|\bcheck_fenced\(\)|\b_check_fenced\(\)"
)
"""Calls that make something durable, or look whether somebody else owns the job by now."""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.id)
def test_a_mutant_applies_once_and_names_tests_that_exist(mutant: Mutant) -> None:
    """Raises StaleMutantError, which says what to look for; a killer that was renamed is told by its name."""
    assert mutant.new != mutant.old
    compile(mutant.mutated(), mutant.file, "exec")
    assert mutant.tests
    for test in mutant.tests:
        path, _, name = test.partition("::")
        assert (ROOT / path).exists(), f"{mutant.id}: there is no {path}"
        function = name.rpartition("::")[2].partition("[")[0]
        # the tests of a class may be those of a suite that it inherits
        files = (*(ROOT / path).parent.glob("*.py"), *(ROOT / "airflow_provider_ckpt" / "testing").glob("*.py"))
        written = "".join(file.read_text() for file in files)
        assert f"def {function}" in written, f"{mutant.id}: there is no {function} for {path}"


def test_no_mutant_has_the_name_of_another() -> None:
    assert [name for name, times in Counter(mutant.id for mutant in MUTANTS).items() if times > 1] == []


def test_no_mutant_names_what_its_file_does_not_know(tmp_path: Path) -> None:
    """A NameError in a driver's thread fails tests as any error does, and says nothing about the defect."""
    for mutant in MUTANTS:
        (tmp_path / f"{mutant.id}.py").write_text(mutant.mutated())
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821,F823,E9", str(tmp_path)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize("layer", ["storage", "sinks", "partitions", "journal", "launch", "spark"])
def test_every_fsync_and_every_look_at_a_fence_has_a_mutant(layer: str) -> None:
    """Whoever adds one writes a test that needs it, and the mutant that shows so."""
    bare = [
        f"{PACKAGE}/{file.relative_to(ROOT / PACKAGE)}:{number}: {line.strip()}"
        for file in sorted((ROOT / PACKAGE / layer).glob("*.py"))
        for number, line in _guards(file)
        if number not in _covered(file)
    ]
    assert not bare, "no mutant in tests/mutants/catalogue takes these out:\n" + "\n".join(bare)


def _guards(file: Path) -> list[tuple[int, str]]:
    lines = enumerate(file.read_text().splitlines(), 1)
    return [(number, line) for number, line in lines if _GUARDS.search(line) and not line.lstrip().startswith("def ")]


def _covered(file: Path) -> set[int]:
    """The lines of a file that some mutant changes."""
    name = str(file.relative_to(ROOT / PACKAGE))
    found: set[int] = set()
    for mutant in MUTANTS:
        if mutant.file == name:
            found |= set(range(mutant.line(), mutant.line() + mutant.old.rstrip("\n").count("\n") + 1))
    return found
