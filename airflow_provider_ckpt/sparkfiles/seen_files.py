"""The files that a file source has read, from the log that Spark keeps of them (``<checkpoint>/sources/<name>``).

Spark writes an entry when it plans a batch. Only files of a committed batch count as read, so callers pass the offset
of a committed batch to :meth:`SeenFiles.advance` (R2).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from urllib.parse import unquote

from airflow_provider_ckpt.sparkfiles import checksum
from airflow_provider_ckpt.sparkfiles.errors import SparkFolderLostError
from airflow_provider_ckpt.sparkfiles.source_log import (
    COMPACT,
    COMPACT_EVERY,
    LogLine,
    entry_number,
    read_line,
    read_lines,
)
from airflow_provider_ckpt.sparkfiles.spark_json import offset_object
from airflow_provider_ckpt.storage.errors import ObjectNotFoundError
from airflow_provider_ckpt.storage.redaction import redact_uri
from airflow_provider_ckpt.storage.refusal import UNREADABLE, refused_as
from airflow_provider_ckpt.storage.storage import Storage

GROWN = 4 << 20
"""Size in bytes from which a compacted entry counts as large. Such an entry has about twenty thousand files."""
_GROWN_TIMES = 4
_TAIL = 1 << 16
"""Bytes at the end of a compacted entry that are read first. They name about three hundred files."""
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:/*")
_GLOB = re.compile(r"[{}\[\]*?\\]")
"""Pattern of characters that make Hadoop treat a path as a pattern (``SparkHadoopUtil.isGlobPath``)."""
_LOCAL = re.compile(r"file:(?!//[^/])")
"""Pattern of local URIs except ``file://host/x``, which may contain a user and a password."""
_COLON = re.compile(r"file:/(.*/)?[^/]*:[^/]*")
"""Pattern of URIs that Hadoop cannot read from a local disk. It takes the text before the colon for a scheme."""


def glob_name(paths: Iterable[str]) -> str | None:
    """Return the first of the normal paths that Spark would treat as a pattern; None without such a path."""
    return min((path for path in paths if _GLOB.search(path)), default=None)


def escaped_glob(path: str) -> str:
    """Return the pattern that matches only ``path``."""
    return _GLOB.sub(r"\\\g<0>", path)


def colon_name(uris: Iterable[str]) -> str | None:
    """Return the normal path of the first URI that Spark cannot read because its name has a colon; None without one."""
    return min((normal_path(uri) for uri in uris if _COLON.fullmatch(uri)), default=None)


def normal_path(path: str) -> str:
    """Return the normal path of a path or URI: without scheme, leading slash and escapes."""
    if _SCHEME.match(path):
        return unquote(without_scheme(path)).lstrip("/")
    return path.lstrip("/")


def shown_path(uri: str) -> str:
    """Return a file's path as users write it: a local path without scheme. ``uri`` must not be escaped."""
    return f"/{uri[5:].lstrip('/')}" if _LOCAL.match(uri) else redact_uri(uri)


def without_scheme(uri: str) -> str:
    """Return ``uri`` without its scheme. An authority stays: ``nn:8020/in`` of ``hdfs://nn:8020/in``."""
    return _SCHEME.sub("", uri)


class SeenFiles:
    """An incremental reader of one source's log. ``path`` is the folder of the log."""

    def __init__(self, storage: Storage, path: str) -> None:
        self._storage = storage
        self._path = path
        self._read_up_to = -1
        self._planned: tuple[int, list[str]] | None = None
        """(offset, URIs): argument and result of the last :meth:`planned`; None after :meth:`advance`."""
        self._sizes: list[int] = []
        """Sizes in bytes of the first and of the last compacted entry that was read."""
        self._is_reported = True

    def has_grown(self) -> bool:
        """Return True if the last compacted entry is large, and several times as large as the first one that was read.

        Return False if no compacted entry was read since the previous call.
        """
        is_reported, self._is_reported = self._is_reported, True
        return not is_reported and self._sizes[-1] >= max(GROWN, _GROWN_TIMES * self._sizes[0])

    def planned(self, offset: int) -> list[str]:
        """Return the URIs of the files in batches after the last :meth:`advance`, up to ``offset``.

        The URIs have Spark's form, and a file may be repeated. The next :meth:`advance` to ``offset`` needs no read.
        """
        if offset <= self._read_up_to:
            return []
        if self._planned is None or self._planned[0] != offset:
            self._planned = (offset, list(self._read_taken(offset)))
        return self._planned[1]

    def skip_to(self, offset: int) -> None:
        """Skip the files of batches up to ``offset`` without reading the log."""
        self._read_up_to = max(self._read_up_to, offset)

    def advance(self, offset: int) -> set[str]:
        """Return the normal paths of files in batches after the previous call, up to ``offset``."""
        paths = set(map(normal_path, self.planned(offset)))
        self.skip_to(offset)
        self._planned = None
        return paths

    def _read_taken(self, offset: int) -> Iterator[str]:
        names = self._entries_to_read(offset)
        for number in sorted(names):
            yield from self._parse(names[number], self._read_up_to, offset)

    def _entries_to_read(self, offset: int) -> dict[int, str]:
        """Return number → file name of each log entry to read. A compacted entry includes all earlier entries."""
        if self._read_up_to == offset - 1:
            for name in (f"{offset}", f"{offset}{COMPACT}"):
                if self._storage.exists(f"{self._path}/{name}"):
                    return {offset: name}
        names: dict[int, str] = {}
        compact = -1
        for name in self._storage.list(self._path):
            number = entry_number(name)
            if number < 0:
                continue
            if name.endswith(COMPACT):  # one after the offset counts, too, because Spark deletes the entries it covers
                compact = max(compact, number)
                names[number] = name
            elif number <= offset:
                names.setdefault(number, name)
        return {n: name for n, name in names.items() if n >= compact and (n > self._read_up_to or n == compact)}

    def _parse(self, name: str, after: int, up_to: int) -> list[str]:
        path = f"{self._path}/{name}"
        try:
            if after >= 0 and name.endswith(COMPACT):
                return self._read_new_files(path, after, up_to)
            entry = self._storage.read(path)
            if name.endswith(COMPACT):
                self._note_size(len(entry))
            return _uris_between(entry, after, up_to)[0]
        except UNREADABLE:
            uri = self._storage.full_uri(path)
            raise SparkFolderLostError(uri=uri, problem="is not what Spark wrote") from None

    def _note_size(self, size: int) -> None:
        self._sizes, self._is_reported = [*self._sizes[:1], size], False

    def _read_new_files(self, path: str, after: int, up_to: int) -> list[str]:
        """Return the URIs that a compacted entry has for batches after ``after`` up to ``up_to``.

        The entry is read from its end, because its last lines are the newest.
        """
        size, span = self._storage.size(path), _TAIL
        self._note_size(size)
        while span < size:
            uris, is_complete = _uris_between(self._storage.read_range(path, size - span, size), after, up_to)
            if is_complete:
                return uris
            span *= 8
        return _uris_between(self._storage.read(path), after, up_to)[0]


def planned_times(storage: Storage, path: str, up_to: int) -> dict[str, int]:
    """Return normal path → modification time, for the files that a source's log names up to the offset ``up_to``.

    The time is in milliseconds since 1970, as of the plan of the batch. Unreadable entries are omitted, such as those
    of another kind of source.
    """
    times: dict[str, int] = {}
    for name in storage.list(path):
        if entry_number(name) < 0:
            continue
        try:
            lines = read_lines(storage.read(f"{path}/{name}"))
            times |= {normal_path(line.uri): int(line.time) for line in lines if line.batch <= up_to}
        except (*UNREADABLE, ObjectNotFoundError):  # Spark deletes entries that a compacted one includes
            continue
    return times


def taken_after(storage: Storage, path: str, offset: int) -> list[tuple[int, str]]:
    """Return (batch number in the log, URI) for each file that a file source's log names after ``offset``."""
    files: list[tuple[int, str]] = []
    for name in storage.list(path):
        if entry_number(name) > offset:
            entry = storage.read(f"{path}/{name}")
            with suppress(*UNREADABLE):
                files += [(line.batch, line.uri) for line in read_lines(entry)]
    return [file for file in files if file[0] > offset]


def rewind_log(storage: Storage, path: str, offset: int) -> None:
    """Restore a source's log to ``offset``, because its later files are void (R4).

    The folder must belong to this attempt, and its query must not have started.
    """
    numbers = {name: entry_number(name) for name in storage.list(path)}
    later = [name for name, number in numbers.items() if number > offset]
    compact = max((name for name in later if name.endswith(COMPACT)), key=numbers.__getitem__, default=None)
    lines = [] if compact is None else _compacted_lines(storage, f"{path}/{compact}")
    for name in later:
        checksum.delete(storage, f"{path}/{name}")
    if compact is not None and offset >= 0:
        _write_log(storage, path, lines, offset)


def _compacted_lines(storage: Storage, path: str) -> list[LogLine]:
    """Read the lines of an entry. Raises SparkFolderLostError."""
    data = storage.read(path)
    with refused_as(lambda _: SparkFolderLostError(uri=storage.full_uri(path), problem="is not what Spark wrote")):
        return read_lines(data)


def _write_log(storage: Storage, path: str, lines: list[LogLine], offset: int) -> None:
    """Write the log up to ``offset`` again, because Spark deletes entries that a later compacted entry includes."""
    last_compact = (offset + 1) // COMPACT_EVERY * COMPACT_EVERY - 1
    names = {number: f"{number}" for number in range(last_compact + 1, offset + 1)}
    if last_compact >= 0:
        names[last_compact] = f"{last_compact}{COMPACT}"
    for number, name in names.items():
        entry_lines = [line.text for line in lines if line.batch == number or line.batch < number == last_compact]
        checksum.replace(storage, f"{path}/{name}", "\n".join(["v1", *entry_lines]).encode())


def _uris_between(end: bytes, after: int, up_to: int) -> tuple[list[str], bool]:
    """Return the URIs of batches after ``after`` up to ``up_to``, in order, and True if the search is complete.

    ``end`` is the end of an entry. Spark writes a compacted entry in the order of the batches, so the search is
    complete after a batch at or before ``after``.
    """
    uris: list[str] = []
    for line in map(read_line, _lines_backwards(end)):
        if line.batch <= after:
            return uris[::-1], True
        if line.batch <= up_to:
            uris.append(line.uri)
    return uris[::-1], False


def _lines_backwards(entry: bytes) -> Iterator[str]:
    """Yield the nonempty lines from the last to the second. The first line is the version, or is incomplete."""
    end = len(entry)
    while (start := entry.rfind(b"\n", 0, end)) >= 0:
        if start + 1 < end:
            yield entry[start + 1 : end].decode()
        end = start


def log_offset(offset: str | None) -> int:
    """Return the batch number in a file source's offset JSON; -1 for a source of another kind, or if it read nothing.

    Raises DamagedOffsetError.
    """
    body = offset_object(offset)
    number = -1 if body is None else body.get("logOffset", -1)
    return number if isinstance(number, int) else -1  # a Kafka topic may have this name, too


def is_file_offset(offset: str | None) -> bool:
    """Return True if ``offset`` may be a file source's: None, or an offset with a batch number."""
    return offset is None or log_offset(offset) >= 0
