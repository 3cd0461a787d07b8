"""Paths inside a storage. They are relative, have slashes, and cannot lead out of the storage."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_ckpt.storage.errors import InvalidPathError

Sizes = list[tuple[str, int]]
"""(path, size in bytes) of each object. Storage's annotations need this name, because ``list`` is its method."""
Names = list[str]
"""Names of objects and folders."""
Pairs = Sequence[tuple[str, str]]
"""(from, to) pairs of paths."""


def check_path(path: str, *, root: bool = False) -> str:
    """Return ``path`` if it is valid. ``root``: True if it may be empty. Raises InvalidPathError."""
    if not path and root:
        return path
    if "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
        raise InvalidPathError(path=path)
    return path


def join(*parts: str) -> str:
    return "/".join(part for part in parts if part)


LEFT_BEHIND = 3600.0
"""Age in seconds from which a temporary file counts as abandoned, if its writer cannot be checked from this host.

A living writer has a temporary file only while it writes one object.
"""


def is_temporary(path: str) -> bool:
    """Return whether a name starts with a dot, like temporary files and Hadoop's checksums. Lists omit such names."""
    return path.startswith(".") or "/." in path
