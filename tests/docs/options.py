"""Tables of options in ``docs/``, generated from their declaration: ``python -m tests.docs.options`` writes them.

A table stands between ``<!-- options: <name> -->`` and ``<!-- end of options -->``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from airflow_provider_ckpt.job.options import kinds
from airflow_provider_ckpt.job.options.flink_options import KEYS
from airflow_provider_ckpt.job.options.option import Option
from airflow_provider_ckpt.job.options.run_options import OPTIONS
from tests.docs.examples import ROOT

_PLACE = re.compile(r"(<!-- options: (?P<name>.+?) -->\n).*?(<!-- end of options -->)", re.DOTALL)


def flags() -> str:
    """Return the table of the flags of ``ckpt run``."""
    rows = [(_flag(one), *_values(one), one.help) for one in OPTIONS if one.flag]
    return _table(("option", "values", "default", "meaning"), rows)


def arguments() -> str:
    """Return the table of the arguments of the Airflow operator."""
    rows = [
        (
            f"`{one.argument}`",
            one.kind.allowed,
            one.unset_argument or _default(one),
            "yes" if one.templated else "no",
            one.help,
        )
        for one in OPTIONS
        if one.argument
    ]
    return _table(("argument", "values", "default", "templated", "meaning"), rows)


def of_a_run() -> str:
    """Return the table of options that may change between two runs, a single row for all with the same effect."""
    free = [one for one in OPTIONS if not (one.fixed or one.is_identity or one.kind in (kinds.CONF, kinds.PARAMS))]
    names = ", ".join(f"`{one.name}`" for one in free)
    fixed = ", ".join(f"`{one.name}`" for one in OPTIONS if one.fixed)
    identity = ", ".join(f"`{one.name}`" for one in OPTIONS if one.is_identity)
    rows = [
        (names, "allowed", "From the next run on"),
        (fixed, "refused", "; ".join(str(one.fixed) for one in OPTIONS if one.fixed)),
        (identity, "another job", "It has nothing of the first job, and leaves that as it is"),
    ]
    return _table(("option", "what happens", "why, or how"), rows)


def _flag(one: Option) -> str:
    """Return the flag with its placeholder, if its value is a pair, or with its negation."""
    pairs = one.kind in (kinds.CONF, kinds.PARAMS)
    if one.kind is kinds.FLAG and one.default:
        return f"`{one.flag}`, `--no-{str(one.flag)[2:]}`"
    return f"`{one.flag} {one.kind.placeholder}`" if pairs else f"`{one.flag}`"


def _values(one: Option) -> tuple[str, str]:
    """Return the values of a flag and its default. Both are empty for a flag without a value."""
    if one.kind is kinds.FLAG:
        return "", _default(one) if one.default else ""
    return one.kind.allowed, one.unset or _default(one)


def _default(one: Option) -> str:
    return f"`{one.shown_default}`" if one.shown_default else ""


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def flink_keys() -> str:
    """Return the table of the options that have a Flink key."""
    rows = [(f"`{key}`", f"`{one.name}`", _default(one), one.help) for key, one in KEYS.items()]
    return _table(("key", "field of RunOptions", "default", "meaning"), rows)


TABLES: Mapping[str, Callable[[], str]] = {
    "ckpt run": flags,
    "operator": arguments,
    "between runs": of_a_run,
    "flink": flink_keys,
}


def names(page: str) -> list[str]:
    return [match["name"] for match in _PLACE.finditer(page)]


def renewed(page: str) -> str:
    """Return the text of a page with its tables generated again."""
    return _PLACE.sub(lambda match: f"{match[1]}{TABLES[match['name']]()}{match[3]}", page)


def pages() -> list[Path]:
    return [path for path in sorted((ROOT / "docs").glob("*.md")) if names(path.read_text("utf-8"))]


if __name__ == "__main__":
    for path in pages():
        path.write_text(renewed(path.read_text("utf-8")), encoding="utf-8")
