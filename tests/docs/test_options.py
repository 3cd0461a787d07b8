"""Options of a run on the pages match their declaration."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ckpt.job.options import OPTIONS
from tests.docs import options
from tests.docs.examples import ROOT


@pytest.mark.parametrize("page", options.pages(), ids=lambda page: page.name)
def test_the_tables_of_a_page_are_those_of_the_declaration(page: Path) -> None:
    text = page.read_text("utf-8")
    assert text == options.renewed(text), "run `python -m tests.docs.options`"


def test_each_table_is_on_a_page() -> None:
    assert sorted(name for page in options.pages() for name in options.names(page.read_text("utf-8"))) == sorted(
        options.TABLES
    )


def test_a_table_that_says_something_else_is_noticed() -> None:
    page = "a\n<!-- options: operator -->\n| `checkpoint_interval` | 31s |\n<!-- end of options -->\nb\n"
    renewed = options.renewed(page)
    assert "31s" not in renewed
    assert renewed.startswith("a\n<!-- options: operator -->\n| argument |")
    assert renewed.endswith("|\n<!-- end of options -->\nb\n")
    assert options.renewed(renewed) == renewed


def test_every_option_has_its_line_about_what_a_change_of_it_does() -> None:
    page = (ROOT / "docs" / "changes.md").read_text("utf-8")
    said = {"conf": "`--conf`", "params": "`--param`"}
    assert not [option.name for option in OPTIONS if said.get(option.name, f"`{option.name}`") not in page]
