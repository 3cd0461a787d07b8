"""Which files a file source has taken, read off the log Spark keeps of it (``<checkpoint>/sources/<name>``)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote

from airflow_provider_ckpt.storage.storage import Storage

_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:/*")


def normal_path(path: str) -> str:
    """One spelling for a file's path, whoever names it: no scheme, no leading slash, nothing escaped."""
    if _SCHEME.match(path):
        return unquote(_SCHEME.sub("", path)).lstrip("/")
    return path.lstrip("/")


class SeenFiles:
    """Incremental reader of one source's log; ``path`` is the folder of the log."""

    def __init__(self, storage: Storage, path: str) -> None:
        self._storage = storage
        self._path = path
        self._read_up_to = -1

    def advance(self, offset: int) -> set[str]:
        """Normal paths taken by the source's own batches since the last call, up to ``offset``."""
        taken: set[str] = set()
        if offset <= self._read_up_to:
            return taken
        names = self._names(offset)
        for number in sorted(names):
            taken |= self._parse(names[number], self._read_up_to, offset)
        self._read_up_to = offset
        return taken

    def _names(self, offset: int) -> dict[int, str]:
        """Log entries to read: the newest compact one covers everything before it."""
        if self._read_up_to == offset - 1:
            for name in (f"{offset}", f"{offset}.compact"):
                if self._storage.exists(f"{self._path}/{name}"):
                    return {offset: name}
        found: dict[int, str] = {}
        compact = -1
        for name in self._storage.list(self._path):
            number, _, suffix = name.partition(".")
            if not number.isdigit():
                continue
            if suffix == "compact":  # one behind the offset counts too: Spark deletes what it covers
                compact = max(compact, int(number))
                found[int(number)] = name
            elif not suffix and int(number) <= offset:
                found.setdefault(int(number), name)
        return {n: name for n, name in found.items() if n >= compact and (n > self._read_up_to or n == compact)}

    def _parse(self, name: str, after: int, up_to: int) -> set[str]:
        lines = self._storage.read(f"{self._path}/{name}").decode().splitlines()[1:]
        return {normal_path(entry["path"]) for entry in _entries(lines) if after < entry["batchId"] <= up_to}


def _entries(lines: Iterable[str]) -> Iterable[dict[str, Any]]:
    return (json.loads(line) for line in lines if line)


def log_offset(offset: str | None) -> int:
    """The source's own batch number in a file source's offset JSON; -1 if it has taken nothing."""
    if offset is None:
        return -1
    return int(json.loads(offset).get("logOffset", -1))
