"""Two-phase-commit sinks: the extension point.

A sink *stages* what a micro-batch writes (pre-commit: durable, invisible) and *releases* it when a
checkpoint has completed (commit). Nothing relies on a recomputed batch being identical: what was staged
and checkpointed is what is released.

Calls in the life of a sink, and their callers::

    Job.validate()      Sink.validate()              wherever the job is submitted; no I/O
                        Sink.spark_folders({})       the same; again in the driver, with the root's options
                        Sink.folder_conflicts(other) the same; for two sinks with a common folder
                        Sink.not_released_with(...)  the same; for two sinks with a common transaction
    query analysed      Sink.check_input(...)        the driver, before anything is written; no I/O
    every start         Sink.definition()            the driver, compared with what the journal recorded
    driver starts       Sink.bind(context)           every process that hosts the sink, once
    job is new          BoundSink.check_target()     the driver, before anything is written
    every start         BoundSink.check_rows(...)    the same
                        BoundSink.prepare()          the process about to stage, before the first batch
    a run begins        BoundSink.loss_evidence()    the driver, which warns
    foreachBatch        BoundSink.stage(...)         the Spark driver, once a batch and attempt of it
    checkpoint done     BoundSink.release(...)       any process that hosts the sink; needs no Spark (R16)
                        BoundSink.release_together() instead, of sinks that share a transaction
    attempt fenced      BoundSink.collect_garbage()  any process that hosts the sink
    ckpt gc, a restart  BoundSink.staged()           the same; then BoundSink.delete_staged()

A handle is the JSON object that :meth:`BoundSink.stage` returns. It is stored in the subtask's log.
:meth:`BoundSink.release` receives only handles, perhaps months later in a newer version of this package. A handle
has at least ``id`` (:attr:`StageRequest.id`) and ``rows``, and never a secret.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from airflow_provider_ckpt.sinks.errors import SinkContractError
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Handle = dict[str, Any]
T = TypeVar("T")


class Patient(Protocol):
    """A function that calls ``act``, repeats it while it fails with an error that may pass, and returns its result."""

    def __call__(self, act: Callable[[], T]) -> T: ...


def _at_once(act: Callable[[], T]) -> T:
    return act()


def _no_executors(frame: DataFrame, function: Callable[[int, Iterator[Any]], Any]) -> list[Any]:
    raise NotImplementedError("this stage request has no function that runs on executors (over_partitions)")


_ATTEMPT = re.compile(r"[A-Za-z0-9_~][A-Za-z0-9_.~-]{0,149}")
_NONCE = re.compile(r"[A-Za-z0-9]{1,40}")


@dataclass(frozen=True)
class SinkContext:
    """The job id and uid of a sink. ``storage_options``: fsspec options of the job's root; secret, so never shown."""

    job_id: str
    uid: str
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class SinkInput:
    """The form of the rows that a sink will receive.

    Args:
        columns: (name, type as in Spark's schema JSON), in order. The type is a text, or an object for a nested type.
        bounded: True if the input is bounded.
        not_null: names of the columns that hold no null, according to Spark.
    """

    uid: str
    columns: tuple[tuple[str, Any], ...]
    output_mode: str = "append"
    bounded: bool = False
    not_null: frozenset[str] = frozenset()


@dataclass(frozen=True)
class StageRequest:
    """The arguments of one call of :meth:`BoundSink.stage` besides the frame.

    Args:
        attempt: the subtask's attempt (letters, digits, ``_ . ~ -``, at most 150).
        nonce: a new text for each call (letters and digits, at most 40), so that :attr:`id` is never used twice (R5).
        counted: takes the frame; returns (a frame to write instead, a function that then returns its number of rows). A
            sink cannot count first, because a frame is read once (R18). Counting adds some 5 % to a plain write. Do not
            use it if the output shows the count.
        over_partitions: takes the frame and a function, consumes the frame, and returns the function's results (JSON
            values). The function runs on executors, once for each partition. Its arguments are the attempt id of
            Spark's task and an iterator of Arrow record batches. If Spark repeats a task, the function runs again with
            another id, and only the successful task's result is returned. The function is sent with its module by
            value, so executors need not have this package.
        patient: calls a function without arguments and returns its result. While the function raises a TransientError,
            it is called again, for the run's ``sink_timeout``. Use it to prepare the target before the frame is
            consumed. The function must undo its work when it fails.

    Raises SinkContractError if ``attempt`` or ``nonce`` cannot be part of a file name.
    """

    attempt: str
    batch_id: int
    nonce: str
    counted: Callable[[DataFrame], tuple[DataFrame, Callable[[], int]]] = field(compare=False, repr=False)
    over_partitions: Callable[[DataFrame, Callable[[int, Iterator[Any]], Any]], list[Any]] = field(
        compare=False, repr=False, default=_no_executors
    )
    patient: Patient = field(compare=False, repr=False, default=_at_once)

    def __post_init__(self) -> None:
        fits = {
            "attempt": _ATTEMPT.fullmatch(self.attempt),
            "nonce": _NONCE.fullmatch(self.nonce),
            "batch_id": self.batch_id >= 0,
        }
        for part in fits:
            if not fits[part]:
                raise SinkContractError(
                    "Cannot stage a batch: {part} is {value!r}. It becomes part of a file name: an attempt has at most "
                    "150 letters, digits, '_', '.', '~', '-' and no dot or dash in front, a nonce at most 40 letters "
                    "and digits, a batch id is >= 0.",
                    part=part,
                    value=getattr(self, part),
                )

    @property
    def id(self) -> str:
        return f"{self.attempt}-{self.batch_id}-{self.nonce}"


def attempt_of(handle_id: str) -> str | None:
    """Return the attempt in a handle's id; None if the text is not the id of a handle."""
    parts = handle_id.rsplit("-", 2)
    if len(parts) != 3 or not parts[1].isdigit() or not _NONCE.fullmatch(parts[2]):
        return None
    return parts[0]


class Sink(ABC):
    """The description of a target, which a user passes to ``job.sink``.

    It must be picklable, must open nothing when constructed, and its ``repr`` must show no secret.
    """

    @abstractmethod
    def validate(self) -> None:
        """Refuse settings that cannot work.

        Called when the job is validated, in any process, any number of times, before anything is written. Does no I/O
        and imports no Spark.

        Raises subclasses of InvalidInputError.
        """

    @abstractmethod
    def bind(self, context: SinkContext) -> BoundSink:
        """Return this sink bound to one job and uid.

        Called once in each process that stages or releases. It may connect, but must not write. A fenced driver and its
        successor may use the sink at the same time (R8), and both must behave correctly.
        """

    changeable: ClassVar[frozenset[str]] = frozenset()
    """Keys of :meth:`definition` that may differ between two runs of one job."""

    def definition(self) -> Mapping[str, Any]:
        """Return the settings that determine where this sink's rows go, and in which form: a JSON object, no secrets.

        The journal records the object when the job first starts. Every later start compares the recorded object with
        the current object, key by key. A difference is refused unless the key is in :attr:`changeable`. If a later
        version of a sink adds a setting, its key must be absent while the setting has its default. ``type`` is the
        class.
        """
        return {"type": f"{type(self).__module__}.{type(self).__qualname__}"}

    def check_input(self, given: SinkInput) -> None:  # noqa: B027 - a sink may take anything
        """Refuse rows that cannot be written.

        Called in the driver after the query is analysed, before anything is written; does no I/O.

        Raises subclasses of InvalidInputError.
        """

    def folder_conflicts(self, other: Sink) -> Sequence[str]:
        """Return what prevents reading both sinks' rows in one folder, for example keys of :meth:`definition`.

        ``other`` is a sink of the same job with a common folder in :meth:`spark_folders`. Called with :meth:`validate`;
        the job is refused if the result is not empty. A sink whose folder is not read directly returns an empty result.
        """
        return ()

    def not_released_with(self, other: Sink) -> str | None:
        """Return why this sink and ``other`` cannot be released in one transaction; None if they can.

        ``other`` is a sink of the same job. Called with :meth:`validate`, if the job wants a common transaction
        (:meth:`BoundSink.release_together`).
        """
        return f"a {type(self).__name__} is released by itself"

    def spark_folders(self, storage_options: Mapping[str, Any]) -> Sequence[Location]:
        """Return the folders to which Spark itself writes, each URI with its fsspec options.

        Spark is configured to reach them. Called in the driver before any source is read, and with an empty dict after
        :meth:`validate`. Does no I/O. ``storage_options``: fsspec options of the job's root.
        """
        return ()


class BoundSink(ABC):
    """A sink that is bound to one job. Invariants of every implementation (the conformance suite checks them):

    1. No reader sees staged rows before the release of a checkpoint that contains them.
    2. Two calls of :meth:`stage` never touch each other's data, not even for one batch (R5).
    3. A handle is released at most once, although any process may repeat any call. Released rows stay (R9).
    4. A crash between any two steps of :meth:`release` is repaired by another call, with the same or a higher
       checkpoint.

    Calls for one bound sink do not overlap, with one exception. Three threads may run at once: one for :meth:`stage`,
    one for :meth:`release`, and one for :meth:`staged` and :meth:`delete_staged`.
    """

    def check_target(self) -> None:  # noqa: B027 - a target may take any job
        """Refuse a target that a new job must not write to, because other jobs wrote there.

        Called once, for a job that is new under its root, before anything is written, also to the root. Reads only,
        because the job may still be refused after the call.

        Raises subclasses of InvalidInputError.
        """

    def storages(self) -> Sequence[Storage]:
        """Return the folders in which the sink itself creates, reads, lists and deletes objects.

        The driver checks its rights there before it starts Spark.
        """
        return ()

    def check_rows(self, given: SinkInput) -> None:  # noqa: B027 - a target may take any rows
        """Refuse rows that do not fit the existing target.

        Called in the driver at every start, after :meth:`check_target`, before anything is written, also to the root.
        Reads only. Not called if all queries that feed the sink have finished.

        Raises subclasses of InvalidInputError.
        """

    def prepare(self) -> None:  # noqa: B027 - most targets need no preparation
        """Make the target ready, and refuse a target that cannot satisfy the invariants of this class (R17).

        Called before the job is claimed, and before the first :meth:`stage` of an attempt. Must be idempotent, because
        one driver calls it several times, and several drivers may call it at once.
        """

    @abstractmethod
    def stage(self, frame: DataFrame, request: StageRequest) -> Handle:
        """Write the frame durably and invisibly to a place of its own and return its handle.

        Called inside ``foreachBatch`` in the Spark driver. When Spark repeats a batch, the call is repeated with
        another nonce, and the frame may hold other rows. Of several calls for one batch at most one handle is
        published. :meth:`collect_garbage` deletes the rows of the other calls.

        * Consumes the frame exactly once, also if it is empty (R18): no ``isEmpty``, no ``limit`` before.
        * An empty batch gives a handle without content and leaves nothing in the target.
        * After the call returns, the rows survive the loss of every process. After an error, any part of the rows may
          be in the target. A TransientError is followed by another call, with another nonce, if the frame may be
          consumed again.
        * In output mode ``update`` the frame holds the changed rows, in ``complete`` all rows. The sink decides what
          that means for the target.
        """

    @abstractmethod
    def release(self, handles: Sequence[Handle], checkpoint: int) -> dict[str, int]:
        """Make the rows of ``handles`` visible, as checkpoint ``checkpoint``; return counts of what became visible.

        The counts must have ``rows``: the sum of ``rows`` of the handles that became visible. The next start compares
        this count to detect that the target has lost a release. Other counts are for display. If the result of an
        earlier call was lost, the caller itself counts the rows which that call released (``earlier_rows``).

        Called after the checkpoint has completed, and again until a call succeeds. Any process that hosts the sink may
        call it, without Spark. The handles are in the order in which they were staged (per subtask).

        * If ``checkpoint`` <= :meth:`last_released`, the call changes nothing (R9). The check and the advance are one
          atomic step of the target, so a fenced driver's late call changes nothing either. If the target shows that a
          handle was never released, the call raises instead, because another job releases there.
        * A call may include several checkpoints. Handles that an earlier call with a lower checkpoint has released are
          skipped. The driver repeats them if it crashed before it wrote the journal.
        * Raises TransientError subclasses if another call may succeed, TerminalError subclasses if not.
        """

    def release_together(self, participants: Sequence[ReleaseParticipant], checkpoint: int) -> list[dict[str, int]]:
        """Release several sinks of one job in one atomic step of the target: all of them or none.

        Called instead of :meth:`release` for sinks that share a transaction, if :meth:`Sink.not_released_with` permits
        it. ``participants`` has one item for each sink, including this one. Their order is the same in each call of a
        run, and may differ in the next run. Some of the sinks may have released the checkpoint before. Returns counts
        as :meth:`release` does, one for each participant.
        """
        raise NotImplementedError("a sink that permits a shared transaction must implement release_together")

    @abstractmethod
    def last_released(self) -> int:
        """Return the highest checkpoint that is released according to the target; 0 if there is none.

        The result comes from the target, not from memory. A sink need not record a checkpoint that released nothing. So
        the result may lag behind the journal by empty checkpoints, and releasing nothing twice is harmless.
        """

    def loss_evidence(self) -> str | None:
        """Return a text that states why the target seems to have lost released rows; None if it does not.

        Called in the driver when a run begins. The driver only warns, because a reader may have deleted rows after
        reading them. Reads only.
        """
        return None

    @abstractmethod
    def collect_garbage(self, live_handles: Collection[str], live_attempts: Collection[str]) -> list[str]:
        """Delete staged rows of this job and sink that no later call needs; return their ids, sorted.

        Rows are garbage if their id is not in ``live_handles`` and their attempt is not in ``live_attempts``. If some
        rows cannot be deleted, delete all other garbage, then raise :class:`~.errors.GarbageLeftError`. A driver that
        takes the job over reports the error and continues; a deletion of the job stays incomplete. Idempotent.

        Called when a driver has taken the job over, at the end of a job, and when it is deleted.

        Args:
            live_handles: ids of all handles that are published, not voided by a restore (R4), and not released.
            live_attempts: attempts that may still publish, because they are not fenced (R5). It contains every attempt
                except those that this job's logs show to be fenced. A job of the same id under another root may stage
                in the same target, so unknown attempts are contained, too. It supports only ``in``, no iteration.
        """

    def staged(self) -> Mapping[str, Sequence[int]] | None:
        """Return the staged rows in the target: id of the handle -> bytes of each of its files. Reads only.

        ``ckpt gc`` lists the rows, and the next attempt of a subtask deletes the rows of a failed attempt. None if the
        sink cannot list staged rows; then only :meth:`collect_garbage` deletes them.
        """
        return None

    def delete_staged(self, ids: Collection[str]) -> None:
        """Delete the rows that were staged under these ids, and nothing else. Ignore ids that are gone.

        Called only for ids of :meth:`staged` that :meth:`collect_garbage` may delete.
        """
        raise NotImplementedError("a sink that implements staged must implement delete_staged")


@dataclass(frozen=True)
class ReleaseParticipant:
    """One sink and its handles in a call of :meth:`BoundSink.release_together`."""

    sink: BoundSink
    handles: Sequence[Handle]
