"""Paths inside a storage: relative, posix, and never able to leave it."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_ckpt.storage.errors import InvalidPathError

Sizes = list[tuple[str, int]]
"""(path, bytes) of objects. (Storage has a verb named list, so the builtin has no annotation there.)"""
Names = list[str]
"""Of objects and folders."""
Pairs = Sequence[tuple[str, str]]
"""(from, to), of paths."""


def check_path(path: str, *, root: bool = False) -> str:
    """Return ``path``, or raise :class:`InvalidPathError`. ``root``: the empty path is allowed."""
    if not path and root:
        return path
    if "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
        raise InvalidPathError(path=path)
    return path


def join(*parts: str) -> str:
    return "/".join(part for part in parts if part)


LEFT_BEHIND = 3600.0
"""Seconds after which a temporary file is nobody's, not even a paused driver's: a living writer has one for as long as
it writes one object. It counts for a file whose writer cannot be judged from here."""


def is_temporary(path: str) -> bool:
    """Names that start with a dot are temporary (ours, Hadoop's checksums): no listing shows them."""
    return path.startswith(".") or "/." in path
