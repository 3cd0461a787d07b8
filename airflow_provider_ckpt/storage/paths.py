"""Paths inside a storage: relative, with slashes, and never leading out of it."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_ckpt.storage.errors import InvalidPathError

Sizes = list[tuple[str, int]]
"""(path, bytes) of objects. Annotations in Storage need this name, because its method ``list`` hides the builtin."""
Names = list[str]
"""Names of objects and folders."""
Pairs = Sequence[tuple[str, str]]
"""(from, to) pairs of paths."""


def check_path(path: str, *, root: bool = False) -> str:
    """Return ``path``. ``root`` allows the empty path. Raises InvalidPathError."""
    if not path and root:
        return path
    if "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
        raise InvalidPathError(path=path)
    return path


def join(*parts: str) -> str:
    return "/".join(part for part in parts if part)


LEFT_BEHIND = 3600.0
"""Age in seconds from which a temporary file counts as having no writer, if the writer cannot be checked from here.

A living writer has such a file only while it writes one object.
"""


def is_temporary(path: str) -> bool:
    """Return whether a name starts with a dot, as temporary files and Hadoop's checksums do. They are never listed."""
    return path.startswith(".") or "/." in path
