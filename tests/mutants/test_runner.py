"""The runner distinguishes defects that were noticed, were not noticed, or could not be tried."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.mutants import record
from tests.mutants.mutant import PACKAGE, Mutant, StaleMutantError
from tests.mutants.runner import Record, Scratch, Session, Verdict, judged, unsound

CODE = """
def double(number: int) -> int:
    return number * 2


def unused() -> int:
    return 1
"""
TESTS = f"""
from {PACKAGE}.one import double


def test_double() -> None:
    assert double(2) == 4


def test_that_fails_anyway() -> None:
    assert False
"""


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    """A copy of a package with one module, which one test imports."""
    source = tmp_path / "source"
    for name, text in {
        f"{PACKAGE}/__init__.py": "",
        f"{PACKAGE}/one.py": CODE,
        "tests/__init__.py": "",
        "tests/mutants/__init__.py": "",
        "tests/test_one.py": TESTS,
    }.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text)
    shutil.copy(record.__file__, source / "tests/mutants/record.py")
    return Scratch(tmp_path / "copy", source=source).make()


def mutant(old: str, new: str, *tests: str, symbol: str = "one:") -> Mutant:
    return Mutant("m", "R1", symbol, old, new, tests or ("tests/test_one.py::test_double",), "why")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ("number * 2", "number * 3", Verdict.KILLED),
        ("return 1", "return 2", Verdict.SURVIVED),
        ("number * 2", "nunber * 2", Verdict.BROKEN),
        ("def double(", "def twice(", Verdict.BROKEN),
        ("def unused() -> int:", "def unused() ->", Verdict.BROKEN),
    ],
    ids=["noticed", "unnoticed", "unknown name", "import fails", "no syntax"],
)
def test_a_mutant_is_judged_by_its_tests_and_reverted(scratch: Scratch, old: str, new: str, verdict: Verdict) -> None:
    assert scratch.judge(mutant(old, new)).verdict is verdict
    assert (scratch.folder / PACKAGE / "one.py").read_text() == CODE


def test_tests_import_the_copied_package(scratch: Scratch) -> None:
    scratch.check_imported()


@pytest.mark.parametrize("old", ["return numbers", "def "], ids=["gone", "twice"])
def test_a_text_that_does_not_occur_once_is_refused(scratch: Scratch, old: str) -> None:
    with pytest.raises(StaleMutantError, match="not once"):
        scratch.judge(mutant(old, "x"))


@pytest.mark.parametrize("folder", [".", "moved/elsewhere"])
def test_a_mutant_finds_its_symbol_in_a_moved_file(tmp_path: Path, folder: str) -> None:
    package = tmp_path / PACKAGE / folder
    package.mkdir(parents=True)
    (package / "one.py").write_text(CODE)
    changed = mutant("return number", "return -number", symbol="double").mutated(tmp_path)
    assert changed == CODE.replace("return number", "return -number")


METHODS = """
class First:
    @property
    def value(self) -> int:
        if self:
            return 1
        return 1


class Second:
    def value(self) -> int:
        return 1
"""


def written(tmp_path: Path, *modules: str) -> Path:
    for module in modules:
        path = tmp_path / PACKAGE / f"{module}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(METHODS)
    return tmp_path


def test_a_text_is_searched_in_its_symbol_without_indentation(tmp_path: Path) -> None:
    root = written(tmp_path, "some")
    assert mutant("return 1", "return 2", symbol="Second.value").mutated(root) == METHODS[:-2] + "2\n"
    old, new = "    if self:\n        return 1\n    return 1", "    return 2"
    changed = mutant(old, new, symbol="First.value").mutated(root)
    assert "-> int:\n        return 2\n\n\nclass Second" in changed
    assert mutant("@property\n", "", symbol="First.value").mutated(root) == METHODS.replace("    @property\n", "")


def test_a_name_in_two_modules_needs_the_module(tmp_path: Path) -> None:
    root = written(tmp_path, "this/some", "that/some")
    with pytest.raises(StaleMutantError, match=r"that\.some, this\.some"):
        mutant("return 1", "return 2", symbol="Second.value").mutated(root)
    place = mutant("return 1", "return 2", symbol="this.some:Second.value").place(root)
    assert (place.symbol.file, list(place.lines)) == (root / PACKAGE / "this/some.py", [12])


def test_a_missing_symbol_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StaleMutantError, match=r"Third\.value"):
        mutant("return 1", "return 2", symbol="Third.value").mutated(written(tmp_path, "some"))


@pytest.mark.slow
def test_a_test_that_fails_without_the_mutant_is_unsound(scratch: Scratch) -> None:
    good, failing, absent = (
        mutant("number * 2", "0", f"tests/test_one.py::{name}")
        for name in ("test_double", "test_that_fails_anyway", "test_gone")
    )
    session = scratch.test(["tests/test_one.py"])
    assert unsound([good], session) == {}
    assert unsound([failing], session) == {"m": "tests/test_one.py::test_that_fails_anyway fails without the mutant"}
    assert unsound([absent], session) == {"m": "no test tests/test_one.py::test_gone ran"}


def test_a_timeout_kills_only_mutants_that_hang() -> None:
    hung = Session(1, (record_of("Failed", "Timeout (>60.0s) from pytest-timeout."),), "")
    assert judged(hung)[0] is Verdict.TIMED_OUT
    assert judged(hung, hangs=True)[0] is Verdict.KILLED
    assert judged(Session(None, (), ""))[0] is Verdict.TIMED_OUT


def test_a_run_without_tests_kills_no_mutant() -> None:
    assert judged(Session(5, (), "no tests ran"))[0] is Verdict.BROKEN
    assert judged(Session(4, (), "file not found"))[0] is Verdict.BROKEN


def record_of(error: str, message: str) -> Record:
    return Record("tests/test_one.py::test", "call", "failed", error, message)
