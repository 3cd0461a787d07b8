"""CHECKs of a table, as the catalog spells them. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Collection

_QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|`((?:[^`]|``)+)`", re.DOTALL)


def about(check: str, columns: Collection[str]) -> bool:
    """Return whether the CHECK names only these columns; False if it names none, because it is then not understood."""
    named = {found.replace("``", "`") for found in _QUOTED.findall(check) if found}
    return bool(named) and named <= set(columns)
