"""Everything that one run of a job is told, except for secrets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timezone
from typing import Any, Literal, get_args

from airflow_provider_ckpt.job.errors import (
    BadOptionError,
    ConflictingOptionsError,
    UnknownOptionError,
    UnsupportedOptionsFormatError,
)
from airflow_provider_ckpt.job.params import NAME
from airflow_provider_ckpt.job.redaction import redact_conf, redact_uri
from airflow_provider_ckpt.job.storage_options import (
    STORAGE_OPTIONS_VARIABLE,
    read_storage_options,
    storage_options_environ,
)
from airflow_provider_ckpt.job.suggestions import did_you_mean, listed
from airflow_provider_ckpt.job.units import Duration, Size, parse_bytes, parse_duration
from airflow_provider_ckpt.journal.state import HISTORY

__all__ = [
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

Mode = Literal["auto", "streaming", "batch"]
RuntimeMode = Literal["streaming", "batch"]

FORMAT = "airflow-provider-ckpt/run-options"
VERSION = 1
_ENDINGS = ("stop_after", "drain_after", "stop_at", "drain_at")


def check_mode(value: object) -> None:
    if value not in get_args(Mode):
        raise BadOptionError(option="mode", value=value, expected=" or ".join(map(repr, get_args(Mode))))


@dataclass(frozen=True)
class RunOptions:
    """The options of one run. Durations are seconds, sizes bytes, times UTC.

    The constructor and :meth:`from_json` also read what people write ("30s", "64m", an ISO time) and
    raise :class:`~..errors.InvalidInputError` for what cannot be read. Storage options, which may be
    secret, are not here: they travel in the environment (:func:`storage_options_environ`).
    """

    job: str
    """Reference of the job: "pipelines/orders.py:job" or "package.module:job"."""
    root: str = field(repr=False)
    """URI under which everything durable lives."""
    job_id: str
    mode: Mode = "auto"
    checkpoint_interval: float = 30.0
    min_pause: float = 0.0
    """From the end of a checkpoint to the start of the next."""
    checkpoint_timeout: float = 600.0
    tolerable_failed_checkpoints: int = 0
    """This many counted failures in a row are tolerated; one more fails the run."""
    trigger_interval: float = 0.0
    """Of Spark's micro-batches; 0: one after the other, as fast as they go."""
    stop_after: float | None = None
    """Seconds from the start of the run. At most one of these four may be given."""
    drain_after: float | None = None
    stop_at: datetime | None = None
    drain_at: datetime | None = None
    restore: str = "latest"
    """"latest", "none", or the path of a checkpoint's or savepoint's folder."""
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Spark configuration. May hold secrets: ``repr`` and :meth:`public_json` hide them."""
    journal_buffer_bytes: int = 1 << 20
    journal_flush_interval: float = 1.0
    retained_checkpoints: int = 3
    allow_non_restored_state: bool = False
    resume_failed: bool = False
    """Go on with a job that failed terminally: a person has mended the cause."""
    attempt: str | None = None
    """The caller's own id of this attempt, such as Airflow's try number; for display."""
    max_bytes_per_trigger: int | None = None
    """Default read limit of bounded file sources that are read beside an unbounded one."""
    params: Mapping[str, str] = field(default_factory=dict)
    """What the job's code reads with ``job.param``. Recorded and shown: no secrets."""

    def __post_init__(self) -> None:
        for name, read in _READERS.items():
            value = getattr(self, name)
            object.__setattr__(self, name, read(value, name))
        given = [name for name in _ENDINGS if getattr(self, name) is not None]
        if len(given) > 1:
            raise ConflictingOptionsError(options=" and ".join(given))

    def to_json(self) -> dict[str, Any]:
        """Complete and readable; for the command line and the driver. ``conf`` is in it as it is."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        values["conf"], values["params"] = dict(self.conf), dict(self.params)
        for name in ("stop_at", "drain_at"):
            values[name] = None if values[name] is None else values[name].isoformat()
        return {"format": FORMAT, "version": VERSION, **values}

    def public_json(self) -> dict[str, Any]:
        """:meth:`to_json` without secrets, for the journal and for logs."""
        return {**self.to_json(), "root": redact_uri(self.root), "conf": redact_conf(self.conf)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunOptions:
        """What :meth:`to_json` wrote, or a dict written by hand (without format and version).

        Raises :class:`UnknownOptionError` for a key that is no option, :class:`BadOptionError` for one that
        is missing, :class:`UnsupportedOptionsFormatError` for another format or a newer version.
        """
        values = dict(data)
        _check_format(values.pop("format", FORMAT), values.pop("version", VERSION))
        known = [f.name for f in fields(cls)]
        for name in values:
            if name not in known:
                suggestion = did_you_mean(str(name), known)
                raise UnknownOptionError(where="a run", option=name, suggestion=suggestion, known=listed(known))
        for name in ("job", "root", "job_id"):
            if name not in values:
                raise BadOptionError(option=name, value=None, expected="a text; it has no default")
        return cls(**values)


def _check_format(kind: object, version: object) -> None:
    whole = isinstance(version, int) and not isinstance(version, bool)
    if kind != FORMAT or not whole or not 1 <= version <= VERSION:  # type: ignore[operator]
        raise UnsupportedOptionsFormatError(format=kind, version=version, known=FORMAT, newest=VERSION)


def _text(value: object, name: str) -> str:
    if not isinstance(value, str) or not value.strip():
        shown = value if value is None or isinstance(value, str) else type(value).__name__
        raise BadOptionError(option=name, value=shown, expected="a text that is not empty")
    return value


def _positive_duration(value: Duration, name: str) -> float:
    seconds = parse_duration(value, name)
    if seconds == 0:
        raise BadOptionError(option=name, value=value, expected="a duration above 0")
    return seconds


def _count(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadOptionError(option=name, value=value, expected="a whole number, 0 or more")
    return value


def _positive_count(value: object, name: str) -> int:
    if _count(value, name) == 0:
        raise BadOptionError(option=name, value=value, expected="a whole number above 0")
    return _count(value, name)


def _retained(value: object, name: str) -> int:
    """The journal's state remembers no more of them."""
    if _positive_count(value, name) > HISTORY:
        raise BadOptionError(option=name, value=value, expected=f"a whole number from 1 to {HISTORY}")
    return _count(value, name)


def _positive_size(value: Size, name: str) -> int:
    return _positive_count(parse_bytes(value, name), name)


def _flag(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise BadOptionError(option=name, value=value, expected="true or false")
    return value


def _mode(value: Mode, name: str) -> Mode:
    check_mode(value)
    return value


def _time(value: object, name: str) -> datetime:
    """An aware time in UTC; a naive one is refused rather than guessed."""
    time = _iso_time(value) if isinstance(value, str) else value
    if not isinstance(time, datetime) or time.utcoffset() is None:
        expected = 'a time with its zone, such as "2025-01-31T18:00:00+00:00"'
        raise BadOptionError(option=name, value=str(value), expected=expected)
    # A plain datetime of its own, so that no subclass (pendulum's) shows in repr or equality.
    return datetime.fromtimestamp(0, timezone.utc) + (time - _EPOCH)


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def _iso_time(text: str) -> datetime | None:
    # Python 3.10 does not read the Z.
    plain = text.strip()
    try:
        return datetime.fromisoformat(plain[:-1] + "+00:00" if plain[-1:] in ("Z", "z") else plain)
    except ValueError:
        return None


def _conf(value: object, name: str) -> dict[str, str]:
    """Spark's texts: true/false in lower case, numbers as they are. Values are not shown in errors."""
    if not isinstance(value, Mapping):
        raise BadOptionError(option=name, value=type(value).__name__, expected="an object of texts")
    conf: dict[str, str] = {}
    for key, item in value.items():
        if not isinstance(key, str) or not isinstance(item, (str, bool, int, float)):
            raise BadOptionError(option=f"{name}[{key!r}]", value=type(item).__name__, expected="a text")
        conf[key] = str(item).lower() if isinstance(item, bool) else str(item)
    return conf


def _params(value: object, name: str) -> dict[str, str]:
    """Texts; numbers and true/false, which a native template renders, as Spark's settings have them."""
    params = _conf(value, name)
    for key in params:
        if not NAME.fullmatch(key):
            raise BadOptionError(option=f"{name}[{key!r}]", value=key, expected="a name such as 'day'")
    return params


def _optional(read: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    return lambda value, name: None if value is None else read(value, name)


_READERS: Mapping[str, Callable[[Any, str], Any]] = {
    "job": _text,
    "root": _text,
    "job_id": _text,
    "mode": _mode,
    "checkpoint_interval": _positive_duration,
    "min_pause": parse_duration,
    "checkpoint_timeout": _positive_duration,
    "tolerable_failed_checkpoints": _count,
    "trigger_interval": parse_duration,
    "stop_after": _optional(parse_duration),
    "drain_after": _optional(parse_duration),
    "stop_at": _optional(_time),
    "drain_at": _optional(_time),
    "restore": _text,
    "conf": _conf,
    "journal_buffer_bytes": parse_bytes,
    "journal_flush_interval": parse_duration,
    "retained_checkpoints": _retained,
    "allow_non_restored_state": _flag,
    "resume_failed": _flag,
    "attempt": _optional(_text),
    "max_bytes_per_trigger": _optional(_positive_size),
    "params": _params,
}
