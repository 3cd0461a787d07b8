"""Digests of Python code without comments, docstrings and layout, which do not matter at run time.

Each version of Python gives the same digests, because empty fields of the tree are left out, which later versions add.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from typing import Any

_END = object()
_UNUSED = frozenset({"kind", "type_comment", "type_ignores"})
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def digest_of(nodes: Iterable[ast.AST]) -> str:
    """Return a digest of the nodes in their order, 16 hexadecimal digits."""
    found = hashlib.sha256()
    stack: list[Any] = [*nodes][::-1]
    while stack:  # no recursion, because a long chain of calls is a deep tree
        one = stack.pop()
        if one is _END:
            found.update(b")")
        elif isinstance(one, (ast.AST, list)):
            found.update(f"{type(one).__name__}(".encode())
            stack.append(_END)
            stack += _parts(one)[::-1]
        else:
            text = repr(one).encode("utf-8", "surrogatepass")
            found.update(b"%s %d " % (type(one).__name__.encode(), len(text)) + text)
    return found.hexdigest()[:16]


def _parts(one: ast.AST | list[Any]) -> list[Any]:
    if isinstance(one, list):
        return one
    parts: list[Any] = []
    for name, value in ast.iter_fields(one):
        if name == "body" and isinstance(one, _WITH_DOCSTRING):
            value = without_docstring(value)
        if value is not None and value != [] and name not in _UNUSED:
            parts += [name, value]
    if isinstance(one, ast.Constant) and one.value is None:
        parts.append(None)
    return parts


def without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0] if body else None
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and type(first.value.value) is str
    return body[1:] if is_text else body
