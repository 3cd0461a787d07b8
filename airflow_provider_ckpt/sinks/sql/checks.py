"""CHECKs of a table, as the catalog writes them. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection

_QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|`((?:[^`]|``)+)`", re.DOTALL)


def about(check: str, columns: Collection[str]) -> bool:
    """Whether all columns that it names are among these; of one that names none it is not known."""
    named = {found.replace("``", "`") for found in _QUOTED.findall(check) if found}
    return bool(named) and named <= set(columns)
