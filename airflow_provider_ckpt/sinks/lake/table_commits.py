"""The commits to a table by which the intents in a sink's log take effect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_ckpt.model.json_form import reader
from airflow_provider_ckpt.model.limits import Count
from airflow_provider_ckpt.sinks.errors import (
    OutputSupersededError,
    ReleaseRecordLostError,
    ReleaseRefusedError,
    SinkUnavailableError,
)
from airflow_provider_ckpt.sinks.file_names import BOOKKEEPING, sink_folder
from airflow_provider_ckpt.sinks.lake.columns import Column, misfit
from airflow_provider_ckpt.sinks.lake.intents import Intent, IntentLog
from airflow_provider_ckpt.sinks.lake.lake_files import LakeFiles
from airflow_provider_ckpt.sinks.lake.lake_handle import LakeHandle
from airflow_provider_ckpt.sinks.lake.lake_settings import LakeMode
from airflow_provider_ckpt.sinks.lake.table import CommitConflict, LakeTable, Snapshot
from airflow_provider_ckpt.sinks.record_reader import read_record
from airflow_provider_ckpt.sinks.sink import SinkContext
from airflow_provider_ckpt.storage.envelope import encode_document
from airflow_provider_ckpt.storage.storage import Storage

MARK = "lake-start"
VERSION = 1


class StartMark:
    """A record of how often the table's rows had been replaced when an overwriting sink began. It never changes.

    The mark distinguishes an abandoned job from its successor.
    """

    def __init__(self, storage: Storage, job_id: str, uid: str) -> None:
        self._storage = storage
        self._path = f"{BOOKKEEPING}/{sink_folder(job_id, uid)}/start.json"

    def create(self, overwrites: int) -> None:
        """Create the mark with the number of replacements, ``overwrites``. An existing mark stays unchanged."""
        self._storage.create_if_absent(self._path, encode_document(MARK, VERSION, overwrites=overwrites))

    def read(self) -> int | None:
        """Return the recorded number of replacements; None if the sink has not begun.

        Raises ReleaseRecordLostError.
        """
        overwrites: int | None = read_record(self._storage, self._path, MARK, VERSION, "overwrites", reader(Count))
        return overwrites


TRIES = 100
"""Maximum number of tries to commit in one call. Each try may fail, because another writer has committed."""


@dataclass(frozen=True)
class Position:
    """A version of the table, compared with the log of intents. ``length``: number of intents in the log.

    ``newest``: the last intent in the table; None if there is none. ``pending``: the intent that the table lacks; None
    if it lacks none.
    """

    snapshot: Snapshot
    length: int
    newest: Intent | None
    pending: Intent | None

    @property
    def released(self) -> int:
        """The newest checkpoint in the table; 0 if there is none."""
        return 0 if self.newest is None else self.newest.checkpoint


class TableCommits:
    """The releases of one sink of one job to its table.

    An intent is appended only when the table contains all earlier intents, so the table lacks at most one intent. A
    table that lacks more, or has another id, has lost commits.
    """

    def __init__(self, table: LakeTable, storage: Storage, context: SinkContext) -> None:
        self._table = table
        self._context = context
        self._folder = f"{BOOKKEEPING}/{sink_folder(context.job_id, context.uid)}"
        self.storage = storage
        self.log = IntentLog(storage, context.job_id, context.uid)
        self.files = LakeFiles(storage, context)
        self.start = StartMark(storage, context.job_id, context.uid)

    def read_position(self, handles: Sequence[LakeHandle] = ()) -> Position | None:
        """Return the table's position; None if no table, no log entry and no handle exists.

        Raises ReleaseRecordLostError if the log or one of ``handles`` has another table's id, or more commits than the
        table. It is also raised if only the table is gone.
        """
        snapshot = self._table.load()
        while True:
            length = self.log.catch_up()
            if snapshot is None:
                self._refuse_gone(length, handles)
                return None
            if snapshot.applied >= length - 1:
                break
            reloaded = self._table.load()  # several releases may have happened since the table was loaded
            if reloaded is None or reloaded.applied < length - 1:
                self._refuse_lost(0 if reloaded is None else reloaded.applied, length - 1, "the log of its releases")
            snapshot = reloaded
        self._refuse_other(snapshot, length, handles)
        newest = self.log.entry(snapshot.applied - 1) if snapshot.applied else None
        pending = self.log.entry(length - 1) if snapshot.applied < length else None
        return Position(snapshot, length, newest, pending)

    def catch_up(self, handles: Sequence[LakeHandle] = ()) -> Position | None:
        """Commit the intent that the table lacks. Return the position after that, with nothing pending.

        Raises the errors of :meth:`read_position`, and ReleaseRefusedError, OutputSupersededError,
        SinkUnavailableError, StagedFilesMissingError, StagedDataDamagedError.
        """
        reason = ""
        for _ in range(TRIES):
            position = self.read_position(handles)
            if position is None or position.pending is None:
                return position
            try:
                self._apply(position.snapshot, position.pending, position.length)
            except CommitConflict as conflict:  # the checked version is no longer the newest (R9)
                reason = str(conflict)
        raise self.busy(reason)

    def commit(self, position: Position, intent: Intent) -> None:
        """Commit an intent that was just appended after ``position``, without loading the table again.

        The next :meth:`catch_up` finds out whether the commit succeeded. Raises the errors of :meth:`catch_up`.
        """
        try:
            self._apply(position.snapshot, intent, position.length + 1)
        except CommitConflict:
            pass  # the next catch_up commits again (R9)

    def _apply(self, snapshot: Snapshot, intent: Intent, number: int) -> None:
        self.check(snapshot, intent, intent.columns, intent.partition_by)
        if snapshot.overwrites != intent.overwrites:
            raise self._superseded(snapshot, intent.overwrites)
        self.files.copy_to_targets(intent.files)
        self.files.verify_targets(intent.files, intent.checkpoint)
        try:
            self._table.commit(snapshot, intent, number)
        except SinkUnavailableError:
            reloaded = self._table.load()
            if reloaded is None or reloaded.applied < number:
                raise
            # only the reply was lost (R17)

    def check(self, snapshot: Snapshot, intent: Intent, columns: Sequence[Column], partition_by: Sequence[str]) -> None:
        """Refuse rows that the current table does not accept.

        Raises ReleaseRefusedError.
        """
        problem = self._table.refusal(snapshot, intent.change)
        if problem is None:
            problem = misfit(self._table.promoted(columns, snapshot), snapshot.columns, may_lack=True)
        if problem is None and tuple(partition_by) != snapshot.partition_by:
            problem = f"it is partitioned by {list(snapshot.partition_by)} now, and was by {list(partition_by)}"
        if problem is not None:
            raise ReleaseRefusedError(
                "Checkpoint {checkpoint} of sink {sink} of job {job!r} cannot be released to table {uri}: "
                "{problem}. The table was changed after the rows had been staged. Nothing was lost: they stay "
                "staged. Change the table back and resume with --resume-failed",
                **self._error_fields(),
                checkpoint=intent.checkpoint,
                problem=problem,
            )

    def overwrites_before(self, position: Position, mode: LakeMode, *, has_rows: bool) -> int | None:
        """Return the expected number of replacements of the table's rows before the sink's next release.

        None if the sink overwrites and has not begun. Raises OutputSupersededError if the table has another number.
        """
        overwrites = position.snapshot.overwrites
        if position.newest is not None:
            expected: int | None = position.newest.overwrites_after
        elif mode != "overwrite":
            return overwrites
        else:
            expected = self.start.read()
            if expected is None and has_rows:
                uri = self.storage.full_uri(self._folder)
                raise ReleaseRecordLostError(uri=uri, problem="start.json, made before any row was staged, is gone")
        if expected is not None and overwrites != expected and (has_rows or position.newest is None):
            raise self._superseded(position.snapshot, expected)
        return expected

    def collect_temporary(self, older_than: float) -> None:
        self.storage.collect_temporary("", older_than, deep=False)  # leftovers of storage probes
        self.storage.collect_temporary(self._folder, older_than)

    def busy(self, reason: str) -> SinkUnavailableError:
        return SinkUnavailableError(
            "Sink {sink} of job {job!r} could not commit to table {uri} in {tries} tries, because others committed "
            "each time; nothing was lost, and the release is tried again ({reason})",
            **self._error_fields(),
            tries=TRIES,
            reason=reason,
        )

    def _superseded(self, snapshot: Snapshot, expected: int) -> OutputSupersededError:
        return OutputSupersededError(
            "Sink {sink} of job {job!r} is superseded at table {uri}: since it began there, a job with "
            "mode='overwrite' has replaced the table's rows ({found} times in all, {expected} when this job began). "
            "This job releases nothing further. If its rows are the wanted ones, run it again under a new job id",
            **self._error_fields(),
            found=snapshot.overwrites,
            expected=expected,
        )

    # ---- refusals of a table that knows less than a log or a handle

    def _refuse_gone(self, length: int, handles: Sequence[LakeHandle]) -> None:
        if length or handles:
            observer = "the log of its releases" if length else f"batch {handles[0].id}"
            raise table_gone(self._context, self._table.uri, observer)

    def _refuse_other(self, snapshot: Snapshot, length: int, handles: Sequence[LakeHandle]) -> None:
        if length and self.log.entry(length - 1).table != snapshot.id:
            self._refuse_replaced(snapshot, self.log.entry(length - 1).table, "its last release")
        for handle in handles:
            if handle.table != snapshot.id:
                self._refuse_replaced(snapshot, handle.table, f"batch {handle.id}")
            if handle.applied > snapshot.applied:
                self._refuse_lost(snapshot.applied, handle.applied, f"batch {handle.id}")
            self.log.refuse_shorter(handle.intents, f"batch {handle.id}")

    def _refuse_replaced(self, snapshot: Snapshot, expected: str, observer: str) -> None:
        raise ReleaseRecordLostError(
            "Sink {sink} of job {job!r}: table {uri} is another one than {who} was made for (its id is {found}, not "
            "{expected}): it was deleted and made again. Nothing was released to it. Bring the old table back and "
            "resume with --resume-failed, or run the job under another id, from its input",
            **self._error_fields(),
            who=observer,
            found=snapshot.id,
            expected=expected,
        )

    def _refuse_lost(self, applied: int, expected: int, observer: str) -> None:
        raise ReleaseRecordLostError(
            "Sink {sink} of job {job!r}: table {uri} contains {applied} of its releases, and {who} knows {known}. "
            "The table lost commits: it was restored from an older copy, or deleted and made again. Nothing was "
            "released because of it. Bring the newer table back and resume with --resume-failed, or run the job "
            "under another id, from its input",
            **self._error_fields(),
            applied=applied or "no",
            who=observer,
            known=expected,
        )

    def _error_fields(self) -> dict[str, str]:
        return {"sink": self._context.uid, "job": self._context.job_id, "uri": self._table.uri}


def table_gone(context: SinkContext, uri: str, observer: str) -> ReleaseRecordLostError:
    """Return the error for a missing table that ``observer`` has used."""
    return ReleaseRecordLostError(
        "Sink {sink} of job {job!r}: table {uri} no longer exists, and {who} has seen it. Nothing was released. "
        "Bring it back and resume with --resume-failed, or run the job under another id, from its input",
        sink=context.uid,
        job=context.job_id,
        uri=uri,
        who=observer,
    )
