"""Strict JSON parser for files that another program may have written or damaged.

``json.loads`` raises RecursionError for a deeply nested file. It accepts values at which later code fails: a number of
400 digits (OverflowError), NaN, ``1e999``, another encoding. Here, each of these is a MalformedDocumentError that names
the file. The checks run in C over the whole text, because a job reads hundreds of thousands of entries.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, NoReturn

from airflow_provider_ckpt.storage.errors import MalformedDocumentError

DEEPEST = 100
"""Maximum number of nested lists and objects. Code that walks a value needs some Python frames for each level."""
MOST_DIGITS = 100
"""Maximum number of digits of a whole number. ``float`` accepts all such numbers."""

_NO_MARKS = bytes(set(range(256)) - set(b'[]{}"'))
_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_DIGITS = bytes(ord("0") if byte in b"0123456789" else ord(" ") for byte in range(256))
_TOO_MANY_DIGITS = b"0" * (MOST_DIGITS + 1)
_SURROGATES = (b"\\ud", b"\\uD")
_TOO_DEEP = f"it is nested deeper than {DEEPEST} levels"


class _BeyondLimitError(ValueError):
    """Error for JSON beyond a limit."""


def parse_json(data: bytes, *, uri: str, what: str, most_bytes: int | None = None, foreign: bool = False) -> Any:
    """Return the value of a JSON text in UTF-8.

    Args:
        what: kind of the file, for the error message, such as ``request``.
        most_bytes: maximum size of the text; None for no limit.
        foreign: True to refuse also two things that only this package may write: a key that is twice in an object, and
            half a surrogate pair (from a file name that is not UTF-8).

    Raises MalformedDocumentError if the text is no JSON, or is beyond a limit.
    """
    try:
        return _parse(data, most_bytes, foreign)
    except _BeyondLimitError as error:
        reason = str(error)
    except RecursionError:  # brackets that are never closed
        reason = _TOO_DEEP
    except UnicodeError:
        reason = "it is no text in UTF-8"
    except ValueError as error:
        reason = f"no JSON ({error})"
    raise MalformedDocumentError(uri=uri, what=what, reason=reason)


def _parse(data: bytes, most_bytes: int | None, foreign: bool) -> Any:
    if most_bytes is not None and len(data) > most_bytes:
        raise _BeyondLimitError(f"it has more than {most_bytes} bytes")
    if _is_too_deep(data):
        raise _BeyondLimitError(_TOO_DEEP)
    has_long_number = _TOO_MANY_DIGITS in data.translate(_DIGITS)
    value = _DECODERS[has_long_number, foreign](data.decode())
    if foreign and any(half in data for half in _SURROGATES):
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _is_too_deep(data: bytes) -> bool:
    """Return whether the text is nested too deeply. Unbalanced brackets are ignored: the parser refuses them."""
    if data.count(b"[") + data.count(b"{") <= DEEPEST:
        return False
    marks = data.replace(rb"\\", b"").replace(rb"\"", b"").translate(_ONE_KIND, _NO_MARKS)
    marks = marks.replace(b'""', b"")  # texts without brackets
    brackets = b"".join(marks.split(b'"')[::2])
    # The innermost pairs are removed repeatedly.
    for _ in range(DEEPEST):
        brackets = brackets.replace(b"[]", b"")
    return b"[]" in brackets


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise _BeyondLimitError("a number in it is too large")
    return number


def _whole(text: str) -> int:
    if len(text.lstrip("-")) > MOST_DIGITS:
        raise _BeyondLimitError(f"a number in it has more than {MOST_DIGITS} digits")
    return int(text)


def _refuse_constant(name: str) -> NoReturn:
    raise _BeyondLimitError(f"{name} in it is no number of JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise _BeyondLimitError("a key is twice in one object")
    return fields


def _decoder(has_long_number: bool, foreign: bool) -> Callable[[str], Any]:
    return json.JSONDecoder(
        parse_int=_whole if has_long_number else None,
        parse_float=_finite,
        parse_constant=_refuse_constant,
        object_pairs_hook=_unique if foreign else None,
    ).decode


_DECODERS = {(long, foreign): _decoder(long, foreign) for long in (False, True) for foreign in (False, True)}
"""(True if a number may be too long, ``foreign``) -> decoder. Numbers are checked only if necessary, to save time."""
