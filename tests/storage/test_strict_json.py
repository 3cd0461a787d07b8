"""Text that is not JSON, or exceeds a limit, has one error that names the file."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_ckpt.storage.errors import MalformedDocumentError
from airflow_provider_ckpt.storage.strict_json import DEEPEST, MOST_DIGITS, parse_json

URI = "file:///root/orders/requests/a.json"

REFUSED = {
    "empty": (b"", "no JSON (Expecting value: line 1 column 1 (char 0))"),
    "cut off": (b'{"a": [1, 2', "no JSON ("),
    "more after it": (b"{} {}", "no JSON (Extra data"),
    "another encoding": ('{"a": "b"}'.encode("utf-16"), "it is no text in UTF-8"),
    "bytes of a surrogate": (b'{"a": "\xed\xa0\x80"}', "it is no text in UTF-8"),
    "a byte order mark": (b"\xef\xbb\xbf{}", "no JSON ("),
    "lists": (b"[" * 100_000 + b"]" * 100_000, "it is nested deeper than 100 levels"),
    "lists that are never closed": (b"[" * 100_000, "it is nested deeper than 100 levels"),
    "objects": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "it is nested deeper than 100 levels"),
    "both, one level too many": (b'[{"a":' * 50 + b"[]" + b"}]" * 50, "it is nested deeper than 100 levels"),
    "deep, and a text with brackets": (b'["]]]]",' + b"[" * 100 + b"]" * 100 + b"]", "it is nested deeper"),
    "digits": (b'{"epoch": ' + b"1" * 400 + b"}", "a number in it has more than 100 digits"),
    "more digits than int() takes": (b'{"epoch": ' + b"1" * 5_000 + b"}", "a number in it has more than 100 digits"),
    "negative digits": (b"[-" + b"9" * 400 + b"]", "a number in it has more than 100 digits"),
    "NaN": (b'{"at": NaN}', "NaN in it is no number of JSON"),
    "Infinity": (b'{"kept": [Infinity]}', "Infinity in it is no number of JSON"),
    "-Infinity": (b"[-Infinity]", "-Infinity in it is no number of JSON"),
    "infinity as a number": (b'{"at": 1e999}', "a number in it is too large"),
    "infinity below zero": (b'{"at": -1e999}', "a number in it is too large"),
    "a fraction with many digits": (b"[" + b"1" * 400 + b".5]", "a number in it is too large"),
}
FOREIGN = {
    "half a surrogate pair": (b'{"uid": "a\\ud800"}', "it is no text in UTF-8"),
    "half a pair in a key": (b'{"\\uDC00": 1}', "it is no text in UTF-8"),
    "a key twice": (b'{"a": {"b": 1, "b": 2}}', "a key is twice in one object"),
}


@pytest.mark.parametrize(("data", "reason"), [*REFUSED.values(), *FOREIGN.values()], ids=[*REFUSED, *FOREIGN])
def test_a_foreign_file_beyond_a_limit_is_refused_by_name(data: bytes, reason: str) -> None:
    with pytest.raises(MalformedDocumentError) as refused:
        parse_json(data, uri=URI, what="request", foreign=True)
    assert str(refused.value).startswith(f"{URI} is not a readable request file: {reason}")


@pytest.mark.parametrize("data", [data for data, _ in REFUSED.values()], ids=REFUSED)
def test_a_file_of_the_package_beyond_a_limit_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedDocumentError):
        parse_json(data, uri=URI, what="request")


def test_a_file_that_is_too_large_is_not_parsed() -> None:
    assert parse_json(b"[1, 2]", uri=URI, what="request", most_bytes=6) == [1, 2]
    with pytest.raises(MalformedDocumentError, match="it has more than 5 bytes"):
        parse_json(b"[1, 2]", uri=URI, what="request", most_bytes=5)


def nested(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = [value, "]"] if level % 2 else {"[{": value}
    return value


@pytest.mark.parametrize("foreign", [False, True])
@pytest.mark.parametrize(
    "value",
    [
        {"a": [1, -2, 3.5, 1e300, True, None, "b"]},
        10**MOST_DIGITS - 1,
        "1" * 5_000,
        {"text": "[" * 100_000, "other": '"' + "{" * 200 + "\\"},
        [{"n": [n]} for n in range(1_000)],
        nested(DEEPEST),
        "\U0001f600 ü",
        "\\ud800 as six characters",
    ],
    ids=lambda value: str(value)[:20],
)
def test_text_within_the_limits_is_read_like_json(value: Any, foreign: bool) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        assert parse_json(text.encode(), uri=URI, what="request", foreign=foreign) == value


def test_a_file_name_that_is_not_utf_8_can_be_read_back() -> None:
    name = b"orders-\xff.csv".decode(errors="surrogateescape")
    assert parse_json(json.dumps([name]).encode(), uri=URI, what="journal entry") == [name]


def test_one_level_more_than_the_limit_is_refused() -> None:
    with pytest.raises(MalformedDocumentError):
        parse_json(json.dumps(nested(DEEPEST + 1)).encode(), uri=URI, what="request")
