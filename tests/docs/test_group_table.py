"""Each row of the table of a group in docs/airflow.md (retry, clear, new run) is covered by tests, task by task."""

from __future__ import annotations

import re

from tests.docs.examples import ROOT

TASKS = ("`plan`", "a subtask", "`coordinate`")
_LINES = re.compile(r"^### Retry, clear, new run\n\n(\|.*?)\n\n", re.DOTALL | re.MULTILINE)
_TESTS = re.compile(r"<!-- group tests -->\n(.*?)<!-- end of group tests -->", re.DOTALL)
_NAMED = re.compile(r"`tests/[\w/]+\.py::test_\w+`")


def rows(table: str) -> list[list[str]]:
    """Return the cells of each row, without the header."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().splitlines()[2:]]


def lines(page: str) -> list[str]:
    """Return the first cells of the table of a group, without emphasis."""
    (table,) = _LINES.findall(page)
    return [cells[0].replace("**", "") for cells in rows(table)]


def shown(page: str) -> dict[tuple[str, str], list[str]]:
    """Return the tests that the page names for each (line, task). test_flinks_tests.py checks that they exist."""
    (table,) = _TESTS.findall(page)
    return {(line, task): _NAMED.findall(tests) for line, task, tests in rows(table)}


def test_each_group_line_has_tests_for_each_task() -> None:
    page = (ROOT / "docs" / "airflow.md").read_text("utf-8")
    tests_of = shown(page)
    assert list(tests_of) == [(line, task) for line in lines(page) for task in TASKS]
    assert [place for place, tests in tests_of.items() if not tests] == []


def test_a_group_line_without_a_test_is_noticed() -> None:
    page = """
### Retry, clear, new run

| | `plan` | a subtask | `coordinate` |
|---|---|---|---|
| **retry**, at night | x | y | z |
| **clear** | x | y | z |

text
<!-- group tests -->
| line | task | tests |
|---|---|---|
| retry, at night | `plan` | `tests/docs/test_group_table.py::test_each_group_line_has_tests_for_each_task` |
| retry, at night | a subtask | somewhere |
<!-- end of group tests -->
"""
    assert lines(page) == ["retry, at night", "clear"]
    tests_of = shown(page)
    assert [len(tests) for tests in tests_of.values()] == [1, 0]
    assert ("clear", "`plan`") not in tests_of
