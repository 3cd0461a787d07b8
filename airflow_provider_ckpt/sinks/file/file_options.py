"""The options of Spark's file writers that a reader of the folder must know. Pure functions, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ALIASES = {"delimiter": "sep", "charset": "encoding", "codec": "compression", "orc.compress": "compression"}
_DATES = {"dateformat": None, "timestampformat": None, "timestampntzformat": None, "timezone": None, "locale": None}
_READ_BY: dict[str, dict[str, str | None]] = {
    # Option -> Spark's default, if that is a single text. Giving the default equals leaving the option out.
    "csv": {
        **_DATES,
        "header": "false",
        "sep": ",",
        "quote": '"',
        "escape": "\\",
        "chartoescapequoteescaping": None,
        "comment": None,
        "encoding": "UTF-8",
        "linesep": "\n",
        "nullvalue": "",
        "emptyvalue": '""',
    },
    "json": {**_DATES, "encoding": "UTF-8", "linesep": "\n", "pretty": "false"},
}
COMPRESSION = "compression"


def shape_of(file_format: str, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the options that decide how the files must be read, each as ``option.<name in lower case>``.

    ``compression`` is returned, too. Other options are left out: they may be secrets, and readers do not need them.
    """
    given = {_ALIASES.get(name.lower(), name.lower()): _text(value) for name, value in _canonical_last(options)}
    defaults = _READ_BY.get(file_format, {})
    told = [name for name in sorted(defaults) if given.get(name, defaults[name]) != defaults[name]]
    shape = {f"option.{name}": given[name] for name in told}
    if COMPRESSION in given:
        shape[COMPRESSION] = given[COMPRESSION].lower()
    return shape


def _canonical_last(options: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Sort the options so that an option follows its alias, because Spark prefers the option when both are given."""
    return sorted(options.items(), key=lambda item: item[0].lower() not in _ALIASES)


def _text(value: Any) -> str:
    """Return the text that PySpark hands to the writer for a value."""
    return str(value).lower() if isinstance(value, bool) or str(value).lower() in ("true", "false") else str(value)
