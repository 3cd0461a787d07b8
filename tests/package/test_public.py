"""Public names: the two packages export them, the pages use them, and docs/public.md lists them."""

from __future__ import annotations

import ast
import configparser
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import airflow_provider_ckpt
from airflow_provider_ckpt import testing
from tests.docs.examples import ROOT, blocks, pages

PUBLIC = {"airflow_provider_ckpt": airflow_provider_ckpt.__all__, "airflow_provider_ckpt.testing": testing.__all__}
AIRFLOW_SIDE = {"CheckpointHook", "CheckpointSensor", "CheckpointedSparkJobOperator"}
EXAMPLES = [*sorted((ROOT / "dags_examples" / "jobs").glob("*.py")), *(ROOT / "dags_examples").glob("[fr]*.py")]
"""Examples that users copy. The demo that runs them (demo.py, demo_support/) belongs to this project."""


def own_imports(code: str) -> Iterator[tuple[str, str]]:
    """Yield (module, name) of each import from this package."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("airflow_provider_ckpt"):
            yield from ((str(node.module), alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.startswith("airflow_provider_ckpt"))


def private(code: str) -> list[tuple[str, str]]:
    return [(module, name) for module, name in own_imports(code) if name not in PUBLIC.get(module, ())]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_a_page_imports_public_names_only(page: Path) -> None:
    code = [block.code for block in blocks(page.read_text("utf-8")) if block.language == "python"]
    assert [name for block in code for name in private(block)] == []


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_imports_public_names_only(example: Path) -> None:
    code = example.read_text("utf-8")
    assert list(own_imports(code))
    assert private(code) == []


def test_an_import_of_a_private_name_is_noticed() -> None:
    assert private("from airflow_provider_ckpt.job.job import Job") == [("airflow_provider_ckpt.job.job", "Job")]
    assert private("from airflow_provider_ckpt import Jobs") == [("airflow_provider_ckpt", "Jobs")]
    assert private("import airflow_provider_ckpt.cli") == [("airflow_provider_ckpt.cli", "")]
    assert private("from airflow_provider_ckpt import Job\nimport pytest") == []


def test_the_page_of_public_names_lists_all_exports() -> None:
    first, second = (ROOT / "docs" / "public.md").read_text("utf-8").split("From `airflow_provider_ckpt.testing`")
    for text, module in ((first, "airflow_provider_ckpt"), (second, "airflow_provider_ckpt.testing")):
        rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
        assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row)) == sorted(PUBLIC[module])


@pytest.mark.parametrize("module", PUBLIC)
def test_a_public_name_exists_has_a_docstring_and_is_in_order(module: str) -> None:
    package = importlib.import_module(module)
    assert PUBLIC[module] == sorted(PUBLIC[module])
    assert set(PUBLIC[module]) <= set(dir(package))
    for name in set(PUBLIC[module]) - AIRFLOW_SIDE - {"__version__", "Handle"}:  # Handle is the name of a type
        assert getattr(package, name).__doc__, name


def test_an_unknown_name_of_testing_raises_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'Suite'"):
        _ = testing.Suite


def test_type_hints_and_all_folders_are_shipped() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    assert "py.typed" in setup["options.package_data"]["airflow_provider_ckpt"].split()
    assert "airflow_provider_ckpt.*" in setup["options.packages.find"]["include"].split()
    package = ROOT / "airflow_provider_ckpt"
    assert (package / "py.typed").is_file()
    assert all((folder / "__init__.py").is_file() for folder in package.rglob("*") if any(folder.glob("*.py")))
