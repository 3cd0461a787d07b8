"""An append-only log in a folder, with one numbered object for each entry."""

from __future__ import annotations

import functools
import re
import secrets
import threading
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from airflow_provider_ckpt.model.errors import DamagedFormError
from airflow_provider_ckpt.model.json_form import read_field, reader
from airflow_provider_ckpt.model.limits import Count
from airflow_provider_ckpt.sinks.errors import ReleaseRecordLostError
from airflow_provider_ckpt.storage.envelope import decode_document, encode_document
from airflow_provider_ckpt.storage.errors import AlreadyExistsError, ObjectNotFoundError
from airflow_provider_ckpt.storage.refusal import refused_as
from airflow_provider_ckpt.storage.storage import Storage

T = TypeVar("T")
_NAME = re.compile(r"(\d{8,})\.json")
_REMEMBERED = 64
"""Maximum number of entries in memory. A release needs only entries that are newer than its staged batches."""


class NumberedLog(Generic[T]):
    """An append-only log without gaps that is never truncated. Thread-safe.

    One listing finds the end of the log (one request per thousand entries, R17), and shows whether entries were
    deleted. Later entries are found by a request for the next number. A missing or unreadable entry raises
    ReleaseRecordLostError. It is never taken for the log's end, because then rows would be released or replaced twice.
    A process appends only after it has read the previous entry.

    Args:
        version: version of written entries, and the newest that can be read.
        parse: returns the value of an entry's body. Raises UnknownFormError for a damaged body.
        write: returns the body of an entry for a value.
    """

    def __init__(
        self,
        storage: Storage,
        folder: str,
        kind: str,
        version: int,
        parse: Callable[[Mapping[str, Any]], T],
        write: Callable[[T], dict[str, Any]],
    ) -> None:
        self._storage = storage
        self._folder = folder
        self._kind = kind
        self._version = version
        self._parse = parse
        self._body = write
        self._length: int | None = None
        self._recent: dict[int, T] = {}
        self.lock = threading.RLock()

    def length(self) -> int:
        """Return the number of entries that this process knows. Other processes may have appended more entries."""
        with self.lock:
            if self._length is None:
                self._length = self._count_listed()
            return self._length

    def catch_up(self) -> int:
        """Read the entries that other processes have appended, and return the number of entries."""
        with self.lock:
            while True:
                try:
                    self._advance(self._value(self.length()))
                except ObjectNotFoundError:
                    return self.length()

    def append(self, value: T) -> bool:
        """Append after the last known entry. Return False if another process was first; then call :meth:`catch_up`."""
        with self.lock:
            number, writer = self.length(), secrets.token_hex(8)
            body = self._body(value)
            data = encode_document(self._kind, self._version, number=number, writer=writer, body=body)
            try:
                self._storage.create(self._path(number), data)
            except AlreadyExistsError:
                if self._read(number).get("writer") != writer:  # if the entry is ours, only the reply was lost (R17)
                    return False
            self._advance(value)
            return True

    def entry(self, number: int) -> T:
        """Return entry ``number``, which must be below :meth:`length`."""
        with self.lock:
            if number not in self._recent:
                try:
                    self._remember(number, self._value(number))
                except ObjectNotFoundError:
                    raise self._damaged(f"entry {number} is gone, and there are {self.length()}") from None
            return self._recent[number]

    def refuse_shorter(self, entries: int, observer: str) -> None:
        """Raise ReleaseRecordLostError if the log has fewer than ``entries`` entries.

        ``observer``: the batch or process that recorded this number earlier, for the message.
        """
        if entries > self.length():
            raise self._damaged(f"{observer} has seen {entries}, and there are {self.length()}")

    def _advance(self, value: T) -> None:
        number = self.length()
        self._remember(number, value)
        self._length = number + 1

    def _remember(self, number: int, value: T) -> None:
        while len(self._recent) >= _REMEMBERED:
            del self._recent[next(iter(self._recent))]
        self._recent[number] = value

    def _count_listed(self) -> int:
        numbers = {int(match[1]) for match in map(_NAME.fullmatch, self._storage.list(self._folder)) if match}
        end = max(numbers, default=-1) + 1
        for number in range(end):
            # A listing may miss an entry and show a later one, if both are created while it runs.
            if number not in numbers and not self._storage.exists(self._path(number)):
                raise self._damaged(f"entry {number} is gone, and the newest is {end - 1}")
        return end

    def _damaged(self, problem: str) -> ReleaseRecordLostError:
        return ReleaseRecordLostError(uri=self._storage.full_uri(self._folder), problem=problem)

    def _value(self, number: int) -> T:
        document = self._read(number)
        with refused_as(functools.partial(self._changed, number)):
            return self._parse(read_field(document, "body", reader(Mapping[str, Any])))

    def _read(self, number: int) -> dict[str, Any]:
        path = self._path(number)
        data = self._storage.read(path)
        with refused_as(functools.partial(self._changed, number)):
            document = decode_document(data, self._kind, self._version, uri=self._storage.full_uri(path))
            if read_field(document, "number", reader(Count)) != number:
                raise DamagedFormError(what=f"its own number is {document['number']}")
            return document

    def _changed(self, number: int, problem: str) -> ReleaseRecordLostError:
        return self._damaged(f"entry {number} is not what was written ({problem})")

    def _path(self, number: int) -> str:
        return f"{self._folder}/{number:08d}.json"
