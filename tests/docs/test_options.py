"""Options of a run on the pages match their declaration."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.options.run_options import OPTIONS
from tests.docs import options
from tests.docs.examples import ROOT

_ROW = re.compile(r"^\| `(\w+)` \| (.*?) \|", re.MULTILINE)


@pytest.mark.parametrize("page", options.TABLES.pages(), ids=lambda page: page.name)
def test_the_tables_of_a_page_match_the_declaration(page: Path) -> None:
    text = page.read_text("utf-8")
    assert text == options.TABLES.renewed(text), "run `python -m tests.docs.options`"


def test_every_cost_table_is_shown_in_the_docs() -> None:
    assert options.TABLES.shown() == sorted(options.TABLES.made)


def test_an_outdated_table_is_renewed() -> None:
    page = "a\n<!-- options: operator -->\n| `checkpoint_interval` | 31s |\n<!-- end of options -->\nb\n"
    renewed = options.TABLES.renewed(page)
    assert "31s" not in renewed
    assert renewed.startswith("a\n<!-- options: operator -->\n| argument |")
    assert renewed.endswith("|\n<!-- end of options -->\nb\n")
    assert options.TABLES.renewed(renewed) == renewed


def test_every_option_is_on_the_page_about_changes() -> None:
    page = (ROOT / "docs" / "changes.md").read_text("utf-8")
    flags = {"conf": "`--conf`", "params": "`--param`"}
    assert not [option.name for option in OPTIONS if flags.get(option.name, f"`{option.name}`") not in page]


@pytest.mark.parametrize(
    ("heading", "decorator"),
    [("## Sources", Job.source), ("## Transforms", Job.transform)],
    ids=["source", "transform"],
)
def test_the_table_of_a_decorator_has_its_options_with_defaults(heading: str, decorator: Any) -> None:
    section = (ROOT / "docs" / "job.md").read_text("utf-8").partition(f"\n{heading}\n")[2]
    table = section.partition("\n| option |")[2].partition("\n\n")[0]
    shown = {match[1]: match[2] for match in _ROW.finditer(table)}
    parameters = [
        parameter
        for parameter in inspect.signature(decorator).parameters.values()
        if parameter.kind is not parameter.VAR_KEYWORD
    ]
    wanted = {
        parameter.name: parameter.default for parameter in parameters if parameter.name not in ("self", "function")
    }
    assert sorted(shown) == sorted(wanted)
    literal = {
        name: json.dumps(default) if isinstance(default, str) else str(default) for name, default in wanted.items()
    }
    literal["max_ahead"] = '"1 day"'
    for name, default in wanted.items():
        assert default is None or shown[name] == f"`{literal[name]}`", name
