"""Files of an append log: its entries, its head records and its packs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.model.errors import DamagedFormError, UnknownFormError
from airflow_provider_ckpt.model.json_form import read_field, reader, shown
from airflow_provider_ckpt.model.limits import Count
from airflow_provider_ckpt.storage.envelope import PREFIX, decode_document, encode_document, sealed
from airflow_provider_ckpt.storage.errors import (
    CorruptLogError,
    MalformedDocumentError,
    ObjectNotFoundError,
    StorageTransientError,
)
from airflow_provider_ckpt.storage.log.log_listing import Entry, Listing, Pack
from airflow_provider_ckpt.storage.paths import join
from airflow_provider_ckpt.storage.refusal import UNREADABLE, described, refused_as
from airflow_provider_ckpt.storage.storage import Storage

_ENTRY = re.compile(r"(\d{8,})\.json")
_HEAD = re.compile(r"head-(\d{8,})\.json")
_PACK = re.compile(r"pack-(\d{8,})-(\d{8,})\.json")
_LISTS = 20
_COUNT = reader(Count)
_COUNTS = reader(tuple[Count, ...])


class LogFiles:
    """Access to the files of a log, one at a time. It has no state."""

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
        """Create an entry. ``body`` is JSON text. Raises AlreadyExistsError."""
        start = json.dumps(
            {"format": PREFIX + self._kind, "version": self._version, "number": number, "writer": writer}
        )
        self._storage.create(self._entry_path(number), sealed(f'{start[:-1]}, "body": {body}}}'))

    def read(self, number: int, *, kept: bool = False) -> Entry | None:
        """Return an entry; None if it is absent.

        Raises CorruptLogError (with an empty ``intact``), NewerFormatError, and the errors of ``parse``.
        """
        try:
            data = self._storage.read(self._entry_path(number))
        except ObjectNotFoundError:
            return None
        try:
            document = decode_document(data, self._kind, self._version, uri=self.entry_uri(number))
            number_in_entry, writer, body = (document[name] for name in ("number", "writer", "body"))
        except KeyError as error:
            raise self.corrupt(number, f"it has no {error.args[0]!r}") from None
        except MalformedDocumentError as error:
            raise self.corrupt(number, error.data["reason"]) from None
        if type(number_in_entry) is not int or number_in_entry != number:
            raise self.corrupt(number, f"its own number is {shown(number_in_entry)}")
        return self._entry(number, str(writer), body, kept)

    def _entry(self, number: int, writer: str, body: Any, kept: bool = False) -> Entry:
        try:
            return Entry(number, writer, body, kept, self._parse(body))
        except DamagedFormError as error:
            raise self.corrupt(number, error.data["what"]) from None
        except UnknownFormError as error:
            raise UnknownFormError(what=f"{self.entry_uri(number)}: {error.data['what']}") from None
        except UNREADABLE as error:
            raise self.corrupt(number, described(error)) from None
        except CkptError as error:
            if "where" not in error.data:
                raise
            raise type(error)(error.template, **{**error.data, "where": self.entry_uri(number)}) from None

    def create_pack(self, pack: Pack, lines: list[str]) -> None:
        """Create a pack of copies of entries, unless it exists. ``lines``: results of :meth:`packed`.

        An existing pack has the same content, or readers ignore it.
        """
        start = json.dumps({"format": f"{PREFIX}{self._kind}-pack", "version": self._version})
        entries = ",\n".join(lines)
        self._storage.create_if_absent(self._pack_path(pack), sealed(f'{start[:-1]}, "entries": [\n{entries}\n]}}'))

    @staticmethod
    def packed(entry: Entry) -> str:
        return json.dumps({"number": entry.number, "writer": entry.writer, "body": entry.body}, allow_nan=False)

    def read_pack(self, pack: Pack) -> Callable[[int], Entry] | None:
        """Return a function from an entry's number to its copy in the pack; None if the pack cannot be used.

        A pack is not used if it is missing, unreadable, damaged, of a later release, or different from the log. Only
        the last entry is compared, because a log that has lost its end uses all numbers from there on again.

        The function raises CorruptLogError and the errors of ``parse``.
        """
        path = self._pack_path(pack)
        try:
            data = self._storage.read(path)
            document = decode_document(data, f"{self._kind}-pack", self._version, uri=self._storage.full_uri(path))
            packed = {int(item["number"]): (str(item["writer"]), item["body"]) for item in document["entries"]}
            last = self.read(pack.last)
        except (CkptError, *UNREADABLE):
            return None
        if [*packed] != [*range(pack.first, pack.last + 1)]:
            return None
        if last is None or last.writer != packed[pack.last][0]:
            return None
        return lambda number: self._entry(number, *packed[number])

    @property
    def requests_at_once(self) -> int:
        return self._storage.requests_at_once

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
        """Return a list of the folder; None if the head moved meanwhile.

        No storage lists a large folder at a single moment. A list may show the newest head record, but not the entry at
        the head. Such a list is not used, because the beginning of the log would seem to be missing.
        """
        names = self._storage.list(self._path)
        numbers = sorted(int(match[1]) for name in names if (match := _ENTRY.fullmatch(name)))
        heads = sorted(int(match[1]) for name in names if (match := _HEAD.fullmatch(name)))
        packs = tuple(Pack(int(match[1]), int(match[2])) for name in names if (match := _PACK.fullmatch(name)))
        head, kept = (heads[-1], self._kept_below(heads[-1])) if heads else (0, ())
        if kept is None or (heads and numbers[-1:] < heads[-1:] and self.exists(head)):
            return None
        return Listing(head, kept, tuple(numbers), tuple(heads), packs)

    def newest_head(self) -> int:
        matches = (_HEAD.fullmatch(name) for name in self._storage.list(self._path))
        return max((int(match[1]) for match in matches if match), default=0)

    def has_moved(self, head: int) -> bool:
        """Return whether the head is no longer at ``head``.

        The head is read twice, because a list during a truncation may show neither the new nor the deleted names.
        """
        return any(self.newest_head() != head for _ in range(2))

    def head_above(self, number: int) -> int | None:
        """Return the newest head if it is above ``number``, or if that entry exists; None if the entry is lost."""
        head = self.newest_head()
        if head > number or self.exists(number):
            return head
        # The log may have been truncated since the list. The head record was then written before the deletion.
        head = self.newest_head()
        return head if head > number else None

    def write_head(self, head: int, kept: tuple[int, ...]) -> bool:
        """Create a head record. Return False if it exists, because of a crash or another truncation."""
        data = encode_document(f"{self._kind}-head", self._version, head=head, kept=[*kept])
        return self._storage.create_if_absent(self._head_path(head), data)

    def delete_below_head(self, listing: Listing) -> None:
        """Delete entries, head records and packs below the head, in ascending order, except ``listing.kept``."""
        kept = frozenset(listing.kept)  # a set, because there may be thousands
        for number in listing.numbers:
            if number < listing.head and number not in kept:
                self._storage.delete(self._entry_path(number))
        for number in listing.head_records:
            if number < listing.head:
                self._storage.delete(self._head_path(number))
        for pack in listing.packs:
            if pack.last < listing.head:
                self._storage.delete(self._pack_path(pack))

    def _kept_below(self, head: int) -> tuple[int, ...] | None:
        path = self._head_path(head)
        uri = self._storage.full_uri(path)
        try:
            data = self._storage.read(path)
        except ObjectNotFoundError:
            return None
        with refused_as(lambda problem: self._corrupt_head(uri, head, problem)):
            record = decode_document(data, f"{self._kind}-head", self._version, uri=uri)
            if read_field(record, "head", _COUNT) != head:
                raise DamagedFormError(what=f"it says that the head is {record['head']}")
            kept: tuple[int, ...] = read_field(record, "kept", _COUNTS)
            return kept

    @staticmethod
    def _corrupt_head(uri: str, head: int, problem: str) -> CorruptLogError:
        reason = f"the head record cannot be read ({problem})"
        return CorruptLogError(uri=uri, number=head, reason=reason, intact=[], last=False)

    def _entry_path(self, number: int) -> str:
        return join(self._path, f"{number:08d}.json")

    def _head_path(self, number: int) -> str:
        return join(self._path, f"head-{number:08d}.json")

    def _pack_path(self, pack: Pack) -> str:
        return join(self._path, f"pack-{pack.first:08d}-{pack.last:08d}.json")
