"""The package's metadata declares exactly the imported distributions."""

from __future__ import annotations

import ast
import configparser
import re
import sys
from collections import defaultdict
from importlib.metadata import packages_distributions
from pathlib import Path

import airflow_provider_ckpt

PACKAGE = Path(airflow_provider_ckpt.__file__).parent
ROOT = PACKAGE.parent
NOT_OF_USERS = ("dev", "demo")
BROUGHT = {"botocore": "s3fs", "py4j": "pyspark"}
"""Module -> the distribution that pins the version of it that it works with."""
NOT_IMPORTED = {
    "pyspark-client": "the Spark provider installs it, and its version must be PySpark's",
    "pandas": "its version must suit PySpark",
    "s3fs": "fsspec imports it by the scheme of a URI",
}
"""Declared distributions that the package does not import, and the reason."""


def declared() -> dict[str, str]:
    """Return the requirements of users: the normalised name of each distribution -> its requirement."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    texts = [setup["options"]["install_requires"]]
    texts += [text for extra, text in setup["options.extras_require"].items() if extra not in NOT_OF_USERS]
    lines = [line.strip() for text in texts for line in text.splitlines()]
    requirements = [line.partition(";")[0].strip() for line in lines if line and not line.startswith("#")]
    return {normalised(re.split(r"[\[<>=!~ ]", line)[0]): line for line in requirements}


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imported() -> dict[str, set[str]]:
    """Return the modules of others that the package imports -> the files that do."""
    files_of = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            for name in names:
                files_of[_module(name)].add(str(path.relative_to(ROOT)))
    own = {*sys.stdlib_module_names, PACKAGE.name, "__future__"}
    return {name: files for name, files in files_of.items() if name.partition(".")[0] not in own}


def _module(name: str) -> str:
    """Return the part of a module's name that identifies its distribution: providers share the module ``airflow``."""
    parts = name.split(".")
    return ".".join(parts[:4]) if parts[:2] == ["airflow", "providers"] else parts[0]


def distributions(module: str) -> set[str]:
    """Return the distributions that bring a module; for a missing distribution the module's name."""
    if module.startswith("airflow.providers."):
        return {normalised(f"apache-{module}")}
    if module == "airflow":
        return {"apache-airflow"}
    return {normalised(name) for name in packages_distributions().get(module, [BROUGHT.get(module, module)])}


def test_d24_every_imported_distribution_is_declared() -> None:
    available = declared()
    undeclared = {
        module: sorted(files)
        for module, files in imported().items()
        if not (distributions(module) | {BROUGHT.get(module, module)}) & available.keys()
    }
    assert undeclared == {}


def test_d24_every_declared_distribution_is_imported_or_has_a_reason() -> None:
    needed = {name for module in imported() for name in distributions(module)}
    assert set(declared()) - needed - {*NOT_IMPORTED} == set()


def test_d24_no_lower_bound_has_a_known_vulnerability() -> None:
    """CVE-2024-36039 of PyMySQL is in 1.1.0."""
    assert declared()["pymysql"] == "PyMySQL>=1.1.1"
