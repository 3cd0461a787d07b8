"""The place in the user's code where an operator is defined, as "file:line"."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from typing import Any

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def function_location(function: Callable[..., Any]) -> str | None:
    """Return the place of the function's first line (of its decorator). None for no Python function (a partial,
    say)."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return None if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def caller_location() -> str:
    """Return the place of the innermost call outside of this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
