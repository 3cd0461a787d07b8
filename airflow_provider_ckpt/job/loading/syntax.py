"""Digests of Python code without comments, docstrings and layout, which do not matter at run time.

Empty fields of the syntax tree are omitted, because later versions of Python add fields. So the digests are the same in
all versions.
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
    hasher = hashlib.sha256()
    stack: list[Any] = [*nodes][::-1]
    while stack:  # no recursion, because a long chain of calls is a deep tree
        node = stack.pop()
        if node is _END:
            hasher.update(b")")
        elif isinstance(node, (ast.AST, list)):
            hasher.update(f"{type(node).__name__}(".encode())
            stack.append(_END)
            stack += _children(node)[::-1]
        else:
            text = repr(node).encode("utf-8", "surrogatepass")
            hasher.update(b"%s %d " % (type(node).__name__.encode(), len(text)) + text)
    return hasher.hexdigest()[:16]


def _children(node: ast.AST | list[Any]) -> list[Any]:
    if isinstance(node, list):
        return node
    parts: list[Any] = []
    for name, value in ast.iter_fields(node):
        if name == "body" and isinstance(node, _WITH_DOCSTRING):
            value = without_docstring(value)
        if value is not None and value != [] and name not in _UNUSED:
            parts += [name, value]
    if isinstance(node, ast.Constant) and node.value is None:
        parts.append(None)
    return parts


def without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0] if body else None
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and type(first.value.value) is str
    return body[1:] if is_text else body
