"""The objects of an append log: its entries and its head records."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from airflow_provider_ckpt.model.errors import DamagedFormError, UnknownFormError
from airflow_provider_ckpt.storage.envelope import PREFIX, decode_document, encode_document, sealed
from airflow_provider_ckpt.storage.errors import (
    AlreadyExistsError,
    CorruptLogError,
    MalformedDocumentError,
    ObjectNotFoundError,
    StorageTransientError,
)
from airflow_provider_ckpt.storage.paths import join
from airflow_provider_ckpt.storage.storage import Storage

_ENTRY = re.compile(r"(\d{8,})\.json")
_HEAD = re.compile(r"head-(\d{8,})\.json")
_LISTS = 20


@dataclass(frozen=True)
class Entry:
    """``writer`` is a nonce, unique to one append. ``kept``: it lies below the head, which jumped over it. ``value``:
    what the log's ``parse`` makes of the body of an entry that was read."""

    number: int
    writer: str
    body: Any
    kept: bool = False
    value: Any = None


@dataclass(frozen=True)
class Listing:
    """What one list of the folder shows."""

    head: int
    kept: tuple[int, ...]
    numbers: tuple[int, ...]
    head_records: tuple[int, ...]

    @property
    def end(self) -> int:
        """The number after the last entry."""
        return max((self.head, *(number + 1 for number in self.numbers)))


class LogFiles:
    """Reads and writes single objects; keeps no state."""

    def __init__(
        self, storage: Storage, path: str, kind: str, version: int, parse: Callable[[Any], Any] = lambda body: None
    ) -> None:
        self._storage = storage
        self._path = path
        self._kind = kind.removeprefix(PREFIX)
        self._version = version
        self._parse = parse

    @property
    def uri(self) -> str:
        return self._storage.full_uri(self._path)

    def entry_uri(self, number: int) -> str:
        return self._storage.full_uri(self._entry_path(number))

    def create(self, number: int, writer: str, body: str) -> None:
        """``body`` is JSON text. Raises AlreadyExistsError."""
        start = json.dumps(
            {"format": PREFIX + self._kind, "version": self._version, "number": number, "writer": writer}
        )
        self._storage.create(self._entry_path(number), sealed(f'{start[:-1]}, "body": {body}}}'))

    def read(self, number: int, *, kept: bool = False) -> Entry | None:
        """None if absent. Raises CorruptLogError (with nothing intact), NewerFormatError, what ``parse`` does."""
        try:
            data = self._storage.read(self._entry_path(number))
        except ObjectNotFoundError:
            return None
        try:
            document = decode_document(data, self._kind, self._version, uri=self.entry_uri(number))
            if document["number"] != number:
                raise ValueError(f"it says that it is number {document['number']!r}")
            writer, body = str(document["writer"]), document["body"]
        except KeyError as error:
            raise self.corrupt(number, f"it has no {error.args[0]!r}") from None
        except ValueError as error:
            raise self.corrupt(number, str(error)) from None
        except MalformedDocumentError as error:
            raise self.corrupt(number, error.data["reason"]) from None
        try:
            return Entry(number, writer, body, kept, self._parse(body))
        except DamagedFormError as error:
            raise self.corrupt(number, error.data["what"]) from None
        except UnknownFormError as error:
            raise UnknownFormError(what=f"{self.entry_uri(number)}: {error.data['what']}") from None

    @property
    def reads_at_once(self) -> int:
        return self._storage.reads_at_once

    def corrupt(self, number: int, reason: str) -> CorruptLogError:
        uri = self.entry_uri(number)
        return CorruptLogError(uri=uri, number=number, reason=reason, intact=[], last=False)

    def exists(self, number: int) -> bool:
        return self._storage.exists(self._entry_path(number))

    def list(self) -> Listing:
        for _ in range(_LISTS):
            listing = self._list_once()
            if listing is not None:
                return listing
        reason = "its head record is listed and cannot be read"
        raise StorageTransientError(verb="list", uri=self.uri, reason=reason)

    def _list_once(self) -> Listing | None:
        """None if the head moved between the list and the reading of its record."""
        names = self._storage.list(self._path)
        numbers = sorted(int(found[1]) for name in names if (found := _ENTRY.fullmatch(name)))
        heads = sorted(int(found[1]) for name in names if (found := _HEAD.fullmatch(name)))
        head, kept = (heads[-1], self._kept_below(heads[-1])) if heads else (0, ())
        if kept is None:
            return None
        return Listing(head, kept, tuple(numbers), tuple(heads))

    def newest_head(self) -> int:
        found = (_HEAD.fullmatch(name) for name in self._storage.list(self._path))
        return max((int(match[1]) for match in found if match), default=0)

    def head_above(self, number: int) -> int | None:
        """The newest head, if it lies above the entry ``number`` or the entry is there. None: the log is damaged."""
        head = self.newest_head()
        if head > number or self.exists(number):
            return head
        # It may have been truncated since the list, but the record of that is older than the deletion.
        head = self.newest_head()
        return head if head > number else None

    def write_head(self, head: int, kept: tuple[int, ...]) -> bool:
        """False if there is a record already: ours before a crash, or another truncation's, with what *it* keeps."""
        data = encode_document(f"{self._kind}-head", self._version, head=head, kept=[*kept])
        try:
            self._storage.create(self._head_path(head), data)
        except AlreadyExistsError:
            return False
        return True

    def delete_below_head(self, listing: Listing) -> None:
        """Delete the entries and head records that nobody has to read any more, upwards."""
        for number in listing.numbers:
            if number < listing.head and number not in listing.kept:
                self._storage.delete(self._entry_path(number))
        for number in listing.head_records:
            if number < listing.head:
                self._storage.delete(self._head_path(number))

    def _kept_below(self, head: int) -> tuple[int, ...] | None:
        path = self._head_path(head)
        uri = self._storage.full_uri(path)
        try:
            data = self._storage.read(path)
        except ObjectNotFoundError:
            return None
        try:
            record = decode_document(data, f"{self._kind}-head", self._version, uri=uri)
            return tuple(int(number) for number in record["kept"])
        except (MalformedDocumentError, KeyError, TypeError, ValueError) as error:
            reason = f"the head record cannot be read ({error})"
            raise CorruptLogError(uri=uri, number=head, reason=reason, intact=[], last=False) from error

    def _entry_path(self, number: int) -> str:
        return join(self._path, f"{number:08d}.json")

    def _head_path(self, number: int) -> str:
        return join(self._path, f"head-{number:08d}.json")
