"""Damaged and hostile versions of a file, drawn with a seed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

DEEP = 20_000
"""Levels of a value that no parser of JSON takes."""
_MARK = "\ue000here\ue000"
"""Text in the place of a value. The text of a hostile value follows."""
_NUMBERS = ("0", "-1", "1", "1.5", "-0.0", "1e999", "-1e999", "1e300", "NaN", "Infinity", "-Infinity")
_LARGE = (str(2**31), str(2**63), str(-(2**63)), str(2**64), "9" * 90, "9" * 400, "9" * 5_000, "-" + "9" * 5_000)
_TEXTS = (
    *('""', '"x"', '"0"', '"-1"', '"\\u00b2"', '"\\u0663"', '"\\ud800"', '"\\udcff"', '"\\u0000"', '"../../x"', '"/"'),
    *('"0/x"', '"a\\nb"', '"%ff"', '"{"', f'"{"x" * 100_000}"', f'"{"9" * 5_000}"', '"0001-99999999999999999999-a"'),
)
_NESTED = (
    *(
        "[]",
        "{}",
        "[[]]",
        "[{}]",
        '{"a": 1}',
        '{"": null}',
        "[null]",
        "[1, 2]",
        '["a", "a"]',
        "[[1, 2, 3]]",
        "[[9, 1]]",
    ),
    *("[" * DEEP + "]" * DEEP, '{"a":' * DEEP + "1" + "}" * DEEP, "[" * DEEP, "[" * 80 + "]" * 80),
    *('{"a":' * 80 + "[]" + "}" * 80, '{"type": "Open"}', '{"type": "EpochClaimed"}', '{"type": "x"}'),
)
VALUES = ("null", "true", "false", *_NUMBERS, *_LARGE, *_TEXTS, *_NESTED)
"""JSON texts, some of which Python refuses and some of which it reads as values that later code cannot use."""
_BYTES = b'\x00\x7f\x80\xc3\xed\xff{}[]",:0123456789.-eE\\ \n'
_KEYS = ('"x"', '""', '"type"', '"\\ud800"', '"__class__"', '"format"', f'"{"k" * 1_000}"')


@dataclass(frozen=True)
class Mutation:
    """Damaged file. ``description``: where it was damaged, and how, for a message."""

    description: str
    data: bytes


def mutations(data: bytes, seed: str, count: int) -> Iterator[Mutation]:
    """Yield ``count`` damaged versions of a file, the same ones for a seed."""
    rng = random.Random(seed)
    texts = json_texts(data)
    for _ in range(count):
        if texts and rng.random() < 0.75:
            yield _other_value(texts, rng)
        else:
            yield _other_bytes(data, rng)


# ---- values


@dataclass(frozen=True)
class JsonText:
    """Part of a file that is JSON. ``before``, ``after``: the rest of the file."""

    before: bytes
    value: Any
    after: bytes


def json_texts(data: bytes) -> list[JsonText]:
    """Return the file if it is JSON; else each of its lines that is, after a name and a colon as in Spark's plans."""
    try:
        return [JsonText(b"", json.loads(data), b"")]
    except ValueError:
        pass
    texts, at = [], 0
    for line in data.splitlines(keepends=True):
        start = line.find(b"{")
        if start >= 0:
            text = line[start:].rstrip(b"\n")
            texts.append(JsonText(data[: at + start], json.loads(text), data[at + start + len(text) :]))
        at += len(line)
    return texts


def paths(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value. The first path is empty and stands for the whole document."""
    yield above
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from paths(item, (*above, key))


def _other_value(texts: list[JsonText], rng: random.Random) -> Mutation:
    text = rng.choice(texts)
    path = rng.choice(list(paths(text.value)))
    act = rng.choice((_set, _set, _set, _set, _drop, _add, _repeat_key, _move, _set_seal))
    how, made = act(text.value, path, rng)
    return Mutation(f"{'.'.join(map(str, path)) or 'the whole'}: {how}", text.before + made + text.after)


_Made = tuple[str, bytes]


def _set(value: Any, path: tuple[Any, ...], rng: random.Random) -> _Made:
    text = rng.choice(VALUES)
    return f"= {text[:40]}", _written(_with(value, path, lambda holder, key: holder.__setitem__(key, _MARK)), text)


def _set_seal(value: Any, path: tuple[Any, ...], rng: random.Random) -> _Made:
    text = rng.choice(VALUES)
    return f"a checksum {text[:40]}", _dumped(value).rstrip(b"}") + b', "crc32": ' + text.encode() + b"}"


def _drop(value: Any, path: tuple[Any, ...], rng: random.Random) -> _Made:
    if not path:
        return "nothing", b""
    return "gone", _dumped(_with(value, path, lambda holder, key: holder.__delitem__(key)))


def _add(value: Any, path: tuple[Any, ...], rng: random.Random) -> _Made:
    """Add a key to an object, or an item to a list."""
    text, key = rng.choice(VALUES), rng.choice(_KEYS)

    def act(holder: Any, at: Any) -> None:
        there = holder[at]
        if isinstance(there, dict):
            there[_MARK] = 0
        elif isinstance(there, list):
            there.append(_MARK)
        else:
            holder[at] = _MARK

    made = _dumped(_with(value, path, act)).decode()
    mark = json.dumps(_MARK)
    made = made.replace(f"{mark}: 0", f"{key}: {text}").replace(mark, text)
    return f"and {key[:20]}: {text[:40]}", made.encode()


def _repeat_key(value: Any, path: tuple[Any, ...], rng: random.Random) -> _Made:
    """Repeat a key in its object, with another value the second time."""
    if not path or isinstance(path[-1], int):
        return _set(value, path, rng)
    text = rng.choice(VALUES)

    def act(holder: Any, key: Any) -> None:
        holder[_MARK] = 0

    made = (
        _dumped(_with(value, path, act)).decode().replace(f"{json.dumps(_MARK)}: 0", f"{json.dumps(path[-1])}: {text}")
    )
    return f"twice, = {text[:40]}", made.encode()


def _move(value: Any, path: tuple[Any, ...], rng: random.Random) -> _Made:
    """Put a value of the file in the place of another."""
    other = rng.choice(list(paths(value)))
    there = value
    for key in other:
        there = there[key]
    return f"= {'.'.join(map(str, other))}", _dumped(
        _with(value, path, lambda holder, key: holder.__setitem__(key, there))
    )


def _with(value: Any, path: tuple[Any, ...], act: Callable[[Any, Any], None]) -> Any:
    """Return a copy that ``act`` has changed. ``act`` gets the object or list, and the key."""
    whole = [json.loads(json.dumps(value))]
    holder: Any = whole
    key: Any = 0
    for step in path:
        holder, key = holder[key], step
    act(holder, key)
    return whole[0]


def _written(value: Any, text: str) -> bytes:
    return _dumped(value).decode().replace(json.dumps(_MARK), text).encode()


def _dumped(value: Any) -> bytes:
    return json.dumps(value).encode()


# ---- bytes


def _other_bytes(data: bytes, rng: random.Random) -> Mutation:
    at, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    span = data[at : min(end, at + rng.choice((1, 4, 64, len(data))))]
    makers: dict[str, Callable[[], bytes]] = {
        "cut off": lambda: data[:at],
        "begins late": lambda: data[at:],
        "gone": lambda: data[:at] + data[at + len(span) :],
        "twice": lambda: data[:at] + span + data[at:],
        "a byte changed": lambda: data[:at] + bytes([rng.choice(_BYTES)]) + data[at + 1 :],
        "a byte added": lambda: data[:at] + bytes([rng.choice(_BYTES)]) + data[at:],
        "a bit": lambda: data[:at] + bytes(byte ^ 1 << rng.randrange(8) for byte in data[at : at + 1]) + data[at + 1 :],
        "random": lambda: data[:at] + rng.randbytes(len(span)) + data[at + len(span) :],
        "zeros": lambda: data[:at] + bytes(len(span)) + data[at + len(span) :],
        "twice as a whole": lambda: data + data,
        "UTF-16": lambda: data.decode(errors="replace").encode("utf-16"),
        "a byte order mark": lambda: b"\xef\xbb\xbf" + data,
        "Latin-1": lambda: data.decode(errors="replace").encode("latin-1", "replace"),
        "deep": lambda: data[:at] + b"[" * DEEP + data[at:],
    }
    name = rng.choice(list(makers))
    return Mutation(f"bytes from {at}: {name}", makers[name]())
