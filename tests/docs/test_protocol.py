"""docs/protocol.md lists the rules that code and tests cite, the files that keep each rule, and tests that prove it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.examples import ROOT
from tests.docs.protocol import (
    PACKAGE,
    PAGE,
    TESTS,
    Citation,
    Rule,
    citations,
    cited_by,
    named_tests,
    numbers_of,
    rules,
    shown_texts,
    sources,
)
from tests.mutants.catalogue import MUTANTS

RULES = rules(PAGE.read_text("utf-8"))
KNOWN = frozenset(rule.number for rule in RULES)
OF_WORKERS = frozenset(re.findall(r"^\| (W\d+) \|", (ROOT / "docs" / "workers.md").read_text("utf-8"), re.MULTILINE))
"""Rules of processes that fail one by one."""
MUTANT_RULES = {mutant.id: mutant.rule for mutant in MUTANTS}


@cache
def all_tests() -> frozenset[tuple[Path, str]]:
    files = (*sources(TESTS), *sources(PACKAGE / "testing"))
    return frozenset((path, name) for path in files for name in named_tests(path))


@cache
def carried() -> frozenset[int]:
    """Return the numbers of the rules that tests carry in their names."""
    return frozenset(number for _, name in all_tests() for number in numbers_of(name))


each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"R{rule.number}")


def problems(rule: Rule) -> list[str]:
    """Return the faults of the page's entry for the rule."""
    return [*_form(rule), *_keepers(rule), *_proofs(rule), *_mutants(rule)]


def _form(rule: Rule) -> list[str]:
    faults = []
    if not rule.statement.endswith("."):
        faults.append("the heading is one sentence")
    if "\n**Without it.** " not in rule.text:
        faults.append("it does not say what goes wrong without it")
    if not rule.is_open and not (rule.kept and rule.proved):
        faults.append("no file keeps it or no test proves it, and it is not marked as not built")
    if bool(rule.kept) != bool(rule.proved):
        faults.append("it is kept and not proved, or proved and not kept")
    if rule.kept and rule.number not in carried():
        faults.append("no test carries its number")
    return faults


def _keepers(rule: Rule) -> list[str]:
    faults = []
    for name in rule.kept:
        path = PACKAGE / name
        if not path.is_file():
            faults.append(f"there is no file {name}")
        elif rule.number not in cited_by(path.read_text("utf-8")):
            faults.append(f"{name} does not cite it")
    return faults


def _proofs(rule: Rule) -> list[str]:
    faults = []
    for name in rule.proved:
        path, _, function = name.partition("::")
        if (ROOT / path, function) not in all_tests():
            faults.append(f"there is no test {name}")
        elif numbers_of(function) - {rule.number} and rule.number not in numbers_of(function):
            faults.append(f"{name} carries the number of another rule")
    if rule.proved and not any(rule.number in numbers_of(name.rpartition("::")[2]) for name in rule.proved):
        faults.append("no test that is named for it carries its number")
    return faults


def _mutants(rule: Rule) -> list[str]:
    wrong = {name: MUTANT_RULES.get(name, "no mutant") for name in rule.mutants}
    return [f"mutant {name}: {cited}" for name, cited in wrong.items() if cited != f"R{rule.number}"]


def unknown(cited: list[Citation], known: frozenset[int] = KNOWN) -> list[str]:
    return [f"{citation.where} cites R{citation.number}" for citation in cited if citation.number not in known]


def _citations(path: Path) -> list[Citation]:
    return citations(path.read_text("utf-8"), str(path.relative_to(ROOT)))


@each_rule
def test_each_rule_has_existing_keepers_proofs_and_mutants(rule: Rule) -> None:
    assert problems(rule) == []


def test_the_rules_are_numbered_without_gaps() -> None:
    assert [rule.number for rule in RULES] == list(range(1, len(RULES) + 1))


def test_every_cited_rule_is_on_the_page() -> None:
    pages = [*sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("*.md"))]
    here = Path(__file__)  # cites rules that do not exist
    files = [path for path in (*sources(PACKAGE), *sources(TESTS), *pages) if path != here]
    cited = [citation for path in files for citation in _citations(path)]
    assert len(cited) > 100
    assert unknown(cited) == []


def test_every_test_with_a_number_belongs_to_a_rule() -> None:
    assert len(carried()) > 20
    assert [name for _, name in sorted(all_tests()) if numbers_of(name) - KNOWN] == []


def test_every_mutant_belongs_to_a_rule() -> None:
    strays = {
        name: rule
        for name, rule in MUTANT_RULES.items()
        if rule not in {*(f"R{number}" for number in KNOWN), *OF_WORKERS, "-"}
    }
    assert strays == {}


def test_every_cited_worker_rule_is_on_the_workers_page() -> None:
    cited = {rule for path in sources(PACKAGE) for rule in re.findall(r"\bW\d+\b", path.read_text("utf-8"))}
    assert cited
    assert cited <= OF_WORKERS


def test_no_message_cites_a_rule() -> None:
    """A message states the rule itself, because its reader does not have this page."""
    messages = [
        f"{path}:{line}: {text!r}" for path in sources(PACKAGE) for line, text in shown_texts(path.read_text("utf-8"))
    ]
    assert len(messages) > 1000
    assert [message for message in messages if cited_by(message)] == []


# ---- each of these can fail

_SOUND = """# Rules

## R3. A number is not freed.

**Without it.** Rows are lost.

Kept by: `storage/log/append_log.py`, `journal/journal.py`

Proved by: `tests/storage/test_append_log.py::test_r3_take_over_entries_survive_every_truncation`,
`mutant:claims-truncated`
"""


def _problems_with(old: str, new: str) -> list[str]:
    page = _SOUND.replace(old, new)
    assert page != _SOUND
    (rule,) = rules(page)
    return problems(rule)


def test_a_sound_rule_has_no_problems() -> None:
    (rule,) = rules(_SOUND)
    assert problems(rule) == []
    assert len(rule.kept) == 2
    assert len(rule.proved) == len(rule.mutants) == 1


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("is not freed.", "is not freed", "one sentence"),
        ("**Without it.** Rows are lost.", "Rows are lost.", "what goes wrong"),
        ("journal/journal.py", "journal/journals.py", "no file"),
        ("journal/journal.py", "journal/buffer.py", "no file"),
        ("journal/journal.py", "journal/event_codec.py", "does not cite"),
        ("test_r3_take_over_entries_survive_every_truncation", "test_r3_with_no_such_name", "no test tests"),
        (
            "test_r3_take_over_entries_survive_every_truncation",
            "test_r17_an_append_whose_reply_was_lost_succeeds",
            "another",
        ),
        (
            "test_r3_take_over_entries_survive_every_truncation",
            "test_r17_an_append_whose_reply_was_lost_succeeds",
            "is named",
        ),
        ("mutant:claims-truncated", "mutant:claims-cut", "no mutant"),
        ("mutant:claims-truncated", "mutant:creation-overwrites", "R17"),
        ("Proved by: ", "Shown by: ", "no test proves"),
        ("Kept by: ", "Not built yet: ", "proved and not kept"),
        ("## R3.", "## R99.", "no test carries"),
    ],
)
def test_a_wrong_entry_of_a_rule_is_noticed(old: str, new: str, problem: str) -> None:
    assert any(problem in fault for fault in _problems_with(old, new))


def test_a_list_of_keepers_with_words_is_refused() -> None:
    with pytest.raises(AssertionError, match="backquotes"):
        rules(_SOUND.replace("`, `journal", "` and `journal"))


def test_a_rule_that_is_not_built_needs_no_keeper() -> None:
    (rule,) = rules("## R14. A split belongs once.\n\n**Without it.** Twice.\n\nNot built yet: there are none.\n")
    assert problems(rule) == []


def test_a_citation_of_an_unknown_rule_is_noticed() -> None:
    text = '"""Kept (R3, R98)."""\nx = 1  # R99: see there\nPAIR4, R2D2, AR7 = 1, 2, 3\n'
    assert unknown(citations(text, "f.py")) == ["f.py:1 cites R98", "f.py:2 cites R99"]


def test_every_rule_number_in_a_test_name_counts() -> None:
    assert numbers_of("test_r9_r12_the_coordinator_goes_on") == {9, 12}
    assert numbers_of("test_rows_r4_are_read") == frozenset()


def test_a_message_that_cites_a_rule_is_noticed() -> None:
    source = '"""R1."""\nclass E:\n    """R2."""\n    template = "full (R3)"\n    x = f"{1} (R4)"\n    """R5."""\n'
    assert [text for _, text in shown_texts(source) if re.search(r"R\d", text)] == ["full (R3)", " (R4)"]
