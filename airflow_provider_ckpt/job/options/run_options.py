"""All options of one run of a job, except for storage options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from airflow_provider_ckpt.job.errors import BadOptionError
from airflow_provider_ckpt.job.options import kinds
from airflow_provider_ckpt.job.options.kinds import Mode
from airflow_provider_ckpt.job.options.option import Option, about, declared
from airflow_provider_ckpt.job.options.storage_options import (
    STORAGE_OPTIONS_VARIABLE,
    read_storage_options,
    storage_options_environ,
)
from airflow_provider_ckpt.job.options.suggestions import unknown_option
from airflow_provider_ckpt.job.options.units import Duration, Size, parse_bytes, parse_duration
from airflow_provider_ckpt.model.job_status import RuntimeMode

__all__ = [
    "BY_NAME",
    "OPTIONS",
    "STORAGE_OPTIONS_VARIABLE",
    "Duration",
    "Mode",
    "RunOptions",
    "RuntimeMode",
    "Size",
    "check_mode",
    "parse_bytes",
    "parse_duration",
    "read_storage_options",
    "storage_options_environ",
]


FORMAT = "airflow-provider-ckpt/run-options"
VERSION = 1


def check_mode(value: object) -> None:
    kinds.MODE.read(value, "mode")


@dataclass(frozen=True)
class RunOptions:
    """The options of one run. Durations are in seconds, sizes in bytes, times in UTC.

    The constructor and :meth:`from_json` also read the user's notation ("30s", "64m", an ISO time). They raise
    :class:`~..errors.InvalidInputError` for a value that cannot be read. Storage options may be secret, so the
    environment passes them instead (:func:`storage_options_environ`).
    """

    job: str = field(metadata=about(kinds.JOB, "the Job, in a file or in a module", flag=None))
    root: str = field(
        repr=False,
        metadata=about(
            kinds.URI,
            "where the jobs keep everything durable: a path or s3://…",
            unset_argument="the connection's",
            is_identity=True,
        ),
    )
    job_id: str = field(
        metadata=about(
            kinds.TEXT,
            "identity of the job under the root: the same id resumes the same job",
            unset="the Job's name",
            unset_argument="one for each Dag run, task and map index",
            is_identity=True,
        )
    )
    mode: Mode = field(
        default="auto",
        metadata=about(
            kinds.MODE,
            "auto is batch if every source is bounded, else streaming",
            fixed="a batch would do again what the streaming queries have done, or the other way round",
        ),
    )
    checkpoint_interval: float = field(
        default=30.0,
        metadata=about(
            kinds.POSITIVE_DURATION,
            "from one checkpoint's start to the next one's; up to half of it sooner behind live rows",
        ),
    )
    min_pause: float = field(
        default=0.0, metadata=about(kinds.DURATION, "least time from one checkpoint's end to the next one's start")
    )
    checkpoint_timeout: float = field(
        default=600.0, metadata=about(kinds.POSITIVE_DURATION, "a checkpoint that takes longer is aborted")
    )
    tolerable_failed_checkpoints: int = field(
        default=0,
        metadata=about(kinds.COUNT, "failed checkpoints in a row that do not fail the run; one more does"),
    )
    restart_attempts: int = field(
        default=0,
        metadata=about(
            kinds.COUNT,
            "restarts in a row of a failed subtask alone, while the others continue; one more failure ends the run",
        ),
    )
    restart_delay: float = field(
        default=1.0,
        metadata=about(
            kinds.DURATION, "pause before the first restart; each next pause is 1.5 times as long, up to a minute"
        ),
    )
    sink_timeout: float = field(
        default=300.0,
        metadata=about(
            kinds.DURATION,
            "how long a sink's target may fail in a way that passes, such as a lock, before that is a failure",
        ),
    )
    storage_timeout: float = field(
        default=300.0,
        metadata=about(
            kinds.DURATION,
            "how long a driver waits for new credentials of an object store when its own have expired",
        ),
    )
    trigger_interval: float = field(
        default=0.0,
        metadata=about(kinds.DURATION, "time between micro-batches; 0: one after the other, as fast as they go"),
    )
    stop_after: float | None = field(
        default=None,
        metadata=about(
            kinds.DURATION,
            "stop with a savepoint that long after the first published batch; the next run resumes from there",
            ends="stop",
        ),
    )
    drain_after: float | None = field(
        default=None,
        metadata=about(
            kinds.DURATION,
            "that long after the first published batch, end the sources, process data in flight, and finish the job",
            ends="drain",
        ),
    )
    stop_at: datetime | None = field(
        default=None, metadata=about(kinds.TIME, "stop with a savepoint at an instant", ends="stop")
    )
    drain_at: datetime | None = field(
        default=None, metadata=about(kinds.TIME, "end the sources, and the job, at an instant", ends="drain")
    )
    restore: str = field(
        default="latest",
        metadata=about(
            kinds.RESTORE,
            "where to resume from; a path is the folder of the last completed checkpoint, earlier ones are refused",
        ),
    )
    conf: Mapping[str, str] = field(
        default_factory=dict,
        repr=False,
        metadata=about(kinds.CONF, "a Spark setting; may be repeated", argument=None),
    )
    """Spark settings. They may contain secrets, so ``repr`` and :meth:`public_json` hide them."""
    journal_buffer_bytes: int = field(
        default=1 << 20,
        metadata=about(
            kinds.SIZE,
            "size of the journal's write buffer",
            flag="--journal-buffer",
            argument=None,
            flink=("job-event.store.write-buffer.size",),
        ),
    )
    journal_flush_interval: float = field(
        default=1.0,
        metadata=about(
            kinds.DURATION,
            "how long events without a decision wait in that buffer",
            argument=None,
            flink=("job-event.store.write-buffer.flush-interval",),
        ),
    )
    batch_recovery: bool = field(
        default=True,
        metadata=about(
            kinds.FLAG,
            "a job in batch mode keeps its finished results after a failed run (FLIP-383); without this option it "
            "restarts from scratch",
            flink=("execution.batch.job-recovery.enabled",),
        ),
    )
    previous_worker_timeout: float = field(
        default=30.0,
        metadata=about(
            kinds.DURATION,
            "in batch mode, how long a JobMaster waits for a sign of life of the previous JobMaster's workers",
            argument=None,
            flink=("execution.batch.job-recovery.previous-worker.recovery.timeout",),
        ),
    )
    snapshot_min_pause: float = field(
        default=180.0,
        metadata=about(
            kinds.DURATION,
            "in batch mode, least time from one snapshot of the journal to the next one",
            argument=None,
            flink=(
                "execution.batch.job-recovery.snapshot.min-pause",
                "execution.batch.job-recovery.operator-coordinator-snapshot.min-pause",
            ),
        ),
    )
    overview_interval: float = field(
        default=5.0,
        metadata=about(
            kinds.DURATION,
            "least time between two writes of the job's overview, which `ckpt show` and the page in Airflow read; "
            "0: no overview",
            argument=None,
        ),
    )
    retained_checkpoints: int = field(
        default=3,
        metadata=about(
            kinds.RETAINED,
            "newest completed checkpoints whose metadata, log entries and partition files are kept; "
            "only the last one can be restored",
        ),
    )
    allow_non_restored_state: bool = field(
        default=False,
        metadata=about(kinds.FLAG, "resume although some state belongs to operators that the job no longer has"),
    )
    new_settings: bool = field(
        default=False,
        metadata=about(
            kinds.FLAG,
            "use this run's Spark settings that change values, and its time zones, from now on; without this option "
            "those of the first run",
        ),
    )
    resume_failed: bool = field(
        default=False,
        metadata=about(kinds.FLAG, "resume a job that failed for good, after its cause was corrected", argument=None),
    )
    forget_files: tuple[str, ...] = field(
        default=(),
        metadata=about(
            kinds.FILES,
            "skip a file that a source still has to read and that is gone; may be repeated",
            flag="--forget-file",
        ),
    )
    allow_code_from: tuple[str, ...] = field(
        default=(),
        metadata=about(
            kinds.FOLDERS,
            "a folder, besides that of the job's own file, whose code a request may name; may be repeated",
        ),
    )
    spare_driver: bool = field(
        default=False,
        metadata=about(kinds.FLAG, "refuse to start while another driver of the job lives", flag=None, argument=None),
    )
    """True to refuse a start while another driver lives, for the `ckpt` command without --take-over.

    False for a task of Airflow, because a retry takes over from its earlier try.
    """
    attempt: str | None = field(
        default=None,
        metadata=about(
            kinds.TEXT, "the caller's own id of this run, such as Airflow's try; for display", flag=None, argument=None
        ),
    )
    max_bytes_per_trigger: int | None = field(
        default=None,
        metadata=about(
            kinds.POSITIVE_SIZE,
            "read limit of a bounded file source in a query with an unbounded one, unless it has its own limit",
            argument=None,
        ),
    )
    params: Mapping[str, str] = field(
        default_factory=dict,
        metadata=about(
            kinds.PARAMS,
            "text for job.param in the job's file; recorded and shown, so no secrets",
            unset_argument="none",
            flag="--param",
            argument="job_params",
        ),
    )

    def __post_init__(self) -> None:
        for option in OPTIONS:
            object.__setattr__(self, option.name, option.read(getattr(self, option.name)))
        check_ending([option.name for option in OPTIONS if option.ends and getattr(self, option.name) is not None])

    def shown_changes(self) -> dict[str, str]:
        """Return option -> text without secrets, for options that differ from their defaults.

        Options that identify the job are omitted, and so are empty texts.
        """
        public = self.public_json()
        return {
            option.name: str(public[option.name])
            for option in OPTIONS
            if getattr(self, option.name) != option.default and public[option.name] and not option.is_identity
        }

    def to_json(self) -> dict[str, Any]:
        """Return all options as JSON, for the command line and the driver. ``conf`` may contain secrets."""
        values = {option.name: option.to_json(getattr(self, option.name)) for option in OPTIONS}
        return {"format": FORMAT, "version": VERSION, **values}

    def public_json(self) -> dict[str, Any]:
        """Return :meth:`to_json` without secrets, for the journal and for logs."""
        hidden = {
            option.name: option.kind.public(getattr(self, option.name))
            for option in OPTIONS
            if option.kind.public is not None
        }
        return {**self.to_json(), **hidden}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunOptions:
        """Return options from the result of :meth:`to_json`, or from a dict of options without format and version.

        Raises BadOptionError if a key is no option, a required option is missing, a value cannot be read, the format is
        unknown, or the version is newer.
        """
        values = dict(data)
        _check_format(values.pop("format", FORMAT), values.pop("version", VERSION))
        for name in values:
            if name not in BY_NAME:
                raise unknown_option("a run", name, BY_NAME)
        for option in OPTIONS:
            if option.required and option.name not in values:
                raise BadOptionError(option=option.name, value=None, expected="a text; it has no default")
        return cls(**values)


OPTIONS: tuple[Option, ...] = tuple(declared(field) for field in fields(RunOptions))
BY_NAME = {option.name: option for option in OPTIONS}


def check_ending(given: list[str]) -> None:
    """Refuse two options that end a run. ``given`` has the names of the options of this kind that the user gave."""
    if len(given) > 1:
        raise BadOptionError(
            "the options {options} exclude each other: a run ends in one way. Give one of them.",
            options=" and ".join(given),
        )


def _check_format(kind: object, version: object) -> None:
    whole = isinstance(version, int) and not isinstance(version, bool)
    if kind != FORMAT or not whole or not 1 <= version <= VERSION:  # type: ignore[operator]
        raise BadOptionError(
            "run options of format {format!r:.80}, version {version!r:.80} cannot be read here (known: {known!r} up "
            "to version {newest}). Use the same version of airflow-provider-ckpt on both sides.",
            format=kind,
            version=version,
            known=FORMAT,
            newest=VERSION,
        )
