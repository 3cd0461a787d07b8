"""Which options of Spark's file writers a reader of the folder has to know. Pure functions, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ALIASES = {"delimiter": "sep", "charset": "encoding", "codec": "compression", "orc.compress": "compression"}
_DATES = {"dateformat": None, "timestampformat": None, "timestampntzformat": None, "timezone": None, "locale": None}
_READ_BY: dict[str, dict[str, str | None]] = {
    # Option → Spark's default, as far as it is one text: giving it says the same as leaving it out.
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
    """The options that decide how the files are to be read, each as ``option.<name in lower case>``, and
    ``compression``. No other option is in it: it may be a secret, and none decides whether readers find the rows."""
    given = {_ALIASES.get(name.lower(), name.lower()): _text(value) for name, value in _canonical_last(options)}
    defaults = _READ_BY.get(file_format, {})
    told = [name for name in sorted(defaults) if given.get(name, defaults[name]) != defaults[name]]
    shape = {f"option.{name}": given[name] for name in told}
    if COMPRESSION in given:
        shape[COMPRESSION] = given[COMPRESSION].lower()
    return shape


def _canonical_last(options: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Where an option and its alias are both given, Spark takes the option."""
    return sorted(options.items(), key=lambda item: item[0].lower() not in _ALIASES)


def _text(value: Any) -> str:
    """As PySpark hands it to the writer."""
    return str(value).lower() if isinstance(value, bool) or str(value).lower() in ("true", "false") else str(value)
