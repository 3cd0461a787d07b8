"""Errors of storages, their logs and the root."""

from __future__ import annotations

from typing import ClassVar

from airflow_provider_ckpt.errors import InvalidInputError, TerminalError, TransientError


class InvalidStorageUriError(InvalidInputError):
    template = "the storage URI {uri!r} is refused: {reason}"


class InvalidStorageOptionsError(InvalidInputError):
    """Error for refused storage options. It names only the options, because their values may be secrets."""

    template = "the storage options {names} are refused for {uri}: {reason}"


class InvalidPathError(TerminalError):
    template = (
        "the path {path!r} is refused: a path is relative to its storage, with '/' between its parts, "
        "and no part is empty, '.' or '..'"
    )


class InvalidJobIdError(InvalidInputError):
    template = (
        "the job id {job_id!r} is refused: use 1 to 200 characters out of A-Z a-z 0-9 _ . ~ -, the first of "
        "them a letter, a digit or _"
    )


class ObjectNotFoundError(TerminalError):
    template = "{uri} does not exist"


class AlreadyExistsError(TerminalError):
    """Error of a create-if-absent: the object exists. After a lost reply, the object may be the caller's own (R17)."""

    template = "{uri} exists already"


class MoveConflictError(TerminalError):
    template = (
        "{source} cannot be moved to {target}: another file with other content is there, and it is not "
        "overwritten; move it out of the way by hand"
    )


class StorageTransientError(TransientError):
    """Error that may be temporary. The operation may or may not have taken effect."""

    template = "the storage failed to {verb} {uri}: {reason}"


class StorageFullError(StorageTransientError):
    template = (
        "the storage has no room to {verb} {uri}: {reason}; make room there (bytes, files, quota) and run it again"
    )


class StorageUnreachableError(TransientError):
    template = "the storage {uri} cannot be reached: {reason}; check the address, the bucket and the network"


class StorageTokenExpiredError(StorageTransientError):
    """Error for expired credentials. The operation had no effect, and can succeed with new credentials."""

    template = (
        "the storage does not {verb} {uri}, because the credentials have expired: {reason}; renew them where they come "
        "from (storage options, profile, role), and run the job again"
    )


class _RefusedError(TerminalError):
    """Error for a missing right. Data: verb, uri, reason, right (that the job needs)."""

    template = "the storage refused to {verb} {uri}: {reason}; the job needs {right}"
    rights: ClassVar[str] = "the right to read and list there"

    def __init__(
        self, template: str | None = None, /, *, uri: str, reason: str, verb: str = "use", right: str = ""
    ) -> None:
        super().__init__(template, uri=uri, reason=reason, verb=verb, right=right or self.rights)


class StorageReadOnlyError(_RefusedError):
    """Error for a refused write or deletion."""

    rights = "the right to create, list and delete there"


class StorageDeniedError(_RefusedError):
    """Error for a refused read."""


class StorageFailedError(TerminalError):
    template = "the storage cannot {verb} {uri}: {reason}"


class StorageUnsuitableError(TerminalError):
    template = (
        "{uri} cannot hold checkpoints: {reason}; use a local or shared file system with hard links, "
        "or an object store with conditional writes (S3, GCS, Azure)"
    )


class FoldersApartError(InvalidInputError):
    """Error for two folders between which a file cannot be moved in one step."""

    template = (
        "{target} is on another file system than {source}, where rows are staged, so a release cannot move files from "
        "one to the other. Give a folder below, such as {target}/orders"
    )


class MalformedDocumentError(TerminalError):
    template = "{uri} is not a readable {what} file: {reason}"


class NewerFormatError(TerminalError):
    template = (
        "{uri} is a {what} file of version {found}, and this release reads up to version {known}; "
        "upgrade airflow_provider_ckpt to the release that wrote it, or a newer one"
    )


class ForeignRootError(TerminalError):
    """Error for a root's marker that another program wrote. The marker's content is not shown. Data: uri, marker."""

    template = "{uri} is not a checkpoint root: its {marker} was written by another program; choose another folder"


class RootRefusedError(InvalidInputError):
    """Error for a place that cannot be a root."""


class NoRootError(TerminalError):
    """Error for a URI under which no job has run. Data: uri, marker."""

    template = "{uri} is not a checkpoint root: there is no {marker}; check the URI (nothing has run there yet)"


class CorruptLogError(TerminalError):
    """Error for a damaged entry of a log. Data: ``uri`` and ``number`` of the entry, ``reason``, ``intact``, ``last``.

    ``intact`` has the entries before the damaged entry, in order. ``last`` is True if no entry follows.
    """

    template = (
        "{uri} is damaged: {reason}; entries are written whole or not at all, so another program changed "
        "or removed the object: bring it back from a backup or an object version"
    )


class LostRaceError(TerminalError):
    """Error for an entry number that another writer has used. ``data["entry"]``: that entry; None if unread."""

    template = "{uri} was written by another writer ({writer}); this writer has not seen it and must stop"


class BelowHeadError(TerminalError):
    template = (
        "{uri}: the next entry to read is {next_number}, but the log was truncated up to {head}; "
        "a reader never skips entries: load the log again"
    )
