"""Kinds of option values: how values are read, written as JSON and shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal, get_args

from airflow_provider_ckpt.job.errors import BadOptionError
from airflow_provider_ckpt.job.options.params import NAME
from airflow_provider_ckpt.job.options.units import Size, format_bytes, format_duration, parse_bytes, parse_duration
from airflow_provider_ckpt.journal.kinds.event import HISTORY
from airflow_provider_ckpt.storage.redaction import redact_conf, redact_uri

Mode = Literal["auto", "streaming", "batch"]


@dataclass(frozen=True)
class Kind:
    """A kind of option values, such as durations."""

    allowed: str
    """Allowed values, for the documentation."""
    read: Callable[[Any, str], Any]
    """Called with (given value, option's name). Returns the converted value.

    Raises an InvalidInputError with that name.
    """
    placeholder: str = "TEXT"
    is_text: bool = True
    """True if the value can be given as text, on a command line or in a template of Airflow."""
    choices: tuple[str, ...] = ()
    shown: Callable[[Any], str] = str
    """Returns the value as text in the user's notation."""
    to_json: Callable[[Any], Any] = lambda value: value
    public: Callable[[Any], Any] | None = None
    """Returns the value without secrets. None if such values contain no secrets."""


def _text(value: object, name: str) -> str:
    if not isinstance(value, str) or not value.strip():
        shown = value if value is None or isinstance(value, str) else type(value).__name__
        raise BadOptionError(option=name, value=shown, expected="a text that is not empty")
    return value


def _mode(value: object, name: str) -> Any:
    if value not in get_args(Mode):
        raise BadOptionError(option=name, value=value, expected=" or ".join(map(repr, get_args(Mode))))
    return value


def _positive_duration(value: Any, name: str) -> float:
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
    """Return ``value`` if it is from 1 to HISTORY, the number of checkpoints in the journal's state.

    Raises BadOptionError for any other value.
    """
    if _positive_count(value, name) > HISTORY:
        raise BadOptionError(option=name, value=value, expected=f"a whole number from 1 to {HISTORY}")
    return _count(value, name)


def _positive_size(value: Size, name: str) -> int:
    return _positive_count(parse_bytes(value, name), name)


def _flag(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise BadOptionError(option=name, value=value, expected="true or false")
    return value


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def _time(value: object, name: str) -> datetime:
    """Return a time in UTC. A time without a zone is refused, because its zone could only be guessed."""
    time = _iso_time(value) if isinstance(value, str) else value
    if not isinstance(time, datetime) or time.utcoffset() is None:
        expected = 'a time with its zone, such as "2025-01-31T18:00:00+00:00"'
        raise BadOptionError(option=name, value=str(value), expected=expected)
    # A plain datetime, so that no subclass (such as pendulum's) shows in repr or equality.
    return _EPOCH + (time - _EPOCH)


def _iso_time(text: str) -> datetime | None:
    # Python 3.10 does not read a Z.
    plain = text.strip()
    try:
        return datetime.fromisoformat(plain[:-1] + "+00:00" if plain[-1:] in ("Z", "z") else plain)
    except ValueError:
        return None


def _conf(value: object, name: str) -> dict[str, str]:
    """Return name -> text as in Spark's settings (true and false in lower case). Errors do not show values."""
    if not isinstance(value, Mapping):
        raise BadOptionError(option=name, value=type(value).__name__, expected="an object of texts")
    conf: dict[str, str] = {}
    for key, item in value.items():
        if not isinstance(key, str) or not isinstance(item, (str, bool, int, float)):
            raise BadOptionError(option=f"{name}[{key!r}]", value=type(item).__name__, expected="a text")
        conf[key] = str(item).lower() if isinstance(item, bool) else str(item)
    return conf


def _files(value: object, name: str) -> tuple[str, ...]:
    """Return a list of absolute paths or URIs of files. A single text is one file."""
    files = (value,) if isinstance(value, str) else value
    if not isinstance(files, Sequence):
        raise BadOptionError(option=name, value=type(value).__name__, expected="a list of paths")
    for file in files:
        if not isinstance(file, str) or not (file.startswith(("/", "file:/")) or "://" in file):
            raise BadOptionError(option=name, value=file, expected="an absolute path or a URI, as the error names it")
    return tuple(files)


def _folders(value: object, name: str) -> tuple[str, ...]:
    """Return a list of absolute paths of folders on the driver's host. A single text is one folder."""
    folders = (value,) if isinstance(value, str) else value
    if not isinstance(folders, Sequence):
        raise BadOptionError(option=name, value=type(value).__name__, expected="a list of paths")
    for folder in folders:
        if not isinstance(folder, str) or not folder.startswith("/"):
            raise BadOptionError(
                option=name, value=folder, expected="the absolute path of a folder where the driver runs"
            )
    return tuple(folders)


def _params(value: object, name: str) -> dict[str, str]:
    """Return name -> text. Numbers and booleans, which a native template renders, become texts as in :func:`_conf`."""
    params = _conf(value, name)
    for key in params:
        if not NAME.fullmatch(key):
            raise BadOptionError(option=f"{name}[{key!r}]", value=key, expected="a name such as 'day'")
    return params


TEXT = Kind("text", _text)
JOB = Kind("path/to/file.py:name, package.module:name", _text, "FILE.py:JOB")
URI = Kind("path, URI", _text, "URI", public=redact_uri)
RESTORE = Kind("latest, none, path", _text, "latest|none|PATH")
MODE = Kind(", ".join(get_args(Mode)), _mode, "MODE", choices=get_args(Mode))
DURATION = Kind("duration", parse_duration, "DURATION", shown=format_duration)
POSITIVE_DURATION = Kind("duration above 0", _positive_duration, "DURATION", shown=format_duration)
TIME = Kind("ISO time with its zone", _time, "TIME", to_json=datetime.isoformat)
SIZE = Kind("size", parse_bytes, "SIZE", shown=format_bytes)
POSITIVE_SIZE = Kind("size above 0", _positive_size, "SIZE", shown=format_bytes)
COUNT = Kind("whole number", _count, "N", is_text=False)
RETAINED = Kind(f"1 to {HISTORY}", _retained, "N", is_text=False)
FLAG = Kind("true, false", _flag, is_text=False, shown=lambda value: str(value).lower())
CONF = Kind("texts by name", _conf, "K=V", shown=lambda _: "", to_json=dict, public=redact_conf)
PARAMS = Kind("texts by name", _params, "NAME=TEXT", shown=lambda _: "", to_json=dict)
FILES = Kind(
    "paths",
    _files,
    "PATH",
    is_text=False,
    shown=lambda _: "",
    to_json=list,
    public=lambda files: [redact_uri(file) for file in files],
)
FOLDERS = Kind("folders", _folders, "FOLDER", is_text=False, shown=lambda _: "", to_json=list)
