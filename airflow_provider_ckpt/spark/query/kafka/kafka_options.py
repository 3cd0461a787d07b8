"""Parsing and checks of a Kafka source's reader options, such as topics and offsets, without I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_ckpt.spark.query.errors import UnfitSourceError

TopicPartition = tuple[str, int]

SELECTING = ("subscribe", "subscribepattern", "assign")
HELD = frozenset(
    {
        *SELECTING,
        "startingoffsets",
        "endingoffsets",
        "startingtimestamp",
        "endingtimestamp",
        "startingoffsetsbytimestamp",
        "endingoffsetsbytimestamp",
    }
)
"""Names, in lower case, of the options that a frozen end replaces."""
DEFAULT_LIMIT = 200_000
"""Maximum number of offsets that a bounded source reads in a micro-batch, so that live sources are not starved."""
EARLIEST, LATEST = -2, -1

_BY_TIME = "give the offsets, and leave rows out by the column timestamp"
_WHY = {
    "startingtimestamp": f"the start of a bounded source is decided once, by offsets; {_BY_TIME}",
    "startingoffsetsbytimestamp": f"the start of a bounded source is decided once, by offsets; {_BY_TIME}",
    "endingtimestamp": f"the end of a bounded source is decided once, by offsets; {_BY_TIME}",
    "endingoffsetsbytimestamp": f"the end of a bounded source is decided once, by offsets; {_BY_TIME}",
}
_LATEST_START = "a bounded source that begins at the end reads nothing; begin at 'earliest', or at an offset"
_LOWEST = {"maxoffsetspertrigger": 1, "minoffsetspertrigger": 0}
"""Limit option in lower case -> its lowest allowed value. A maximum of 0 offsets would make each micro-batch empty."""
_LEVEL = "kafka.isolation.level"
_LEVELS = ("read_uncommitted", "read_committed")
_EARLIEST_END = "a bounded source that ends at the beginning reads nothing; end at 'latest', or at an offset"
_BY_TIMESTAMP = "startingOffsetsByTimestamp"
_FORMS = {
    "startingOffsets": 'it is "earliest", "latest", or a JSON object of offsets by topic and partition: '
    '{"orders": {"0": 23}}',
    "startingTimestamp": "it is no number of milliseconds",
    _BY_TIMESTAMP: 'it is a JSON object of milliseconds by topic and partition: {"orders": {"0": 1735689600000}}',
}


@dataclass(frozen=True)
class KafkaRange:
    """The topics and offsets that the options of a bounded source select.

    ``start`` is partition -> offset, or ``EARLIEST`` for all partitions. ``end`` is partition -> offset, or ``LATEST``.
    ``pattern`` is the value of ``subscribePattern``; None without this option.
    """

    topics: tuple[str, ...]
    pattern: str | None
    partitions: frozenset[TopicPartition] | None
    """The partitions in the option ``assign``; None without this option, for all partitions of the topics."""
    start: Mapping[TopicPartition, int] | int
    end: Mapping[TopicPartition, int] | int


def of_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return option name in lower case -> value. If an option is set twice, the result has the later value."""
    return {key.lower(): value for key, value in options.items()}


def milliseconds(uid: str, location: str, key: str, text: str) -> int:
    """Return the value ``text`` of the option ``key`` as milliseconds.

    Raises UnfitSourceError if it is not a positive whole number.
    """
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number <= 0:
        raise UnfitSourceError(uid=uid, location=location, key=key, value=text, why="it is no number of milliseconds")
    return number


def refuse_bounded(uid: str, location: str, options: Mapping[str, str]) -> None:
    """Refuse options that a bounded source cannot have: times as its start or end, and a malformed or empty range.

    Raises UnfitSourceError.
    """
    for key, value in options.items():
        why = _WHY.get(key.lower())
        if why is not None:
            raise UnfitSourceError(uid=uid, location=location, key=key, value=value, why=why)
    read_range(uid, location, options)


def refuse_limits(uid: str, location: str, options: Mapping[str, str]) -> None:
    """Refuse a limit for micro-batches that is too low or not a number.

    Raises UnfitSourceError.
    """
    for key, value in options.items():
        lowest = _LOWEST.get(key.lower())
        if lowest is not None and not _is_number(value, lowest):
            why = f"it is no number of offsets from {lowest} on"
            raise UnfitSourceError(uid=uid, location=location, key=key, value=value, why=why)


def refuse_level(uid: str, location: str, options: Mapping[str, str]) -> None:
    """Refuse an isolation level that Kafka's client does not know, also a level in capital letters.

    Raises UnfitSourceError.
    """
    for key, value in options.items():
        if key.lower() == _LEVEL and value not in _LEVELS:
            why = f"it is {' or '.join(_LEVELS)}, in small letters"
            raise UnfitSourceError(uid=uid, location=location, key=key, value=value, why=why)


def refuse_start(uid: str, location: str, options: Mapping[str, str]) -> None:
    """Refuse a malformed start of a live source. Spark would report it only when the query starts, and in each retry.

    Raises UnfitSourceError.
    """
    source_options = of_options(options)
    for key, read in (("startingOffsets", _is_start), ("startingTimestamp", _is_number), (_BY_TIMESTAMP, _is_json)):
        text = source_options.get(key.lower())
        if text is not None and not read(text):
            raise UnfitSourceError(uid=uid, location=location, key=key, value=text, why=_FORMS[key])


def _is_start(text: str) -> bool:
    return text.strip().lower() in ("earliest", "latest") or _is_json(text)


def _is_json(text: str) -> bool:
    try:
        _by_partition(text)
    except (ValueError, TypeError, AttributeError):
        return False
    return True


def _is_number(text: str, lowest: int = 0) -> bool:
    try:
        return int(text) >= lowest
    except ValueError:
        return False


def _by_partition(text: str) -> dict[TopicPartition, int]:
    """Return partition -> offset, parsed from JSON such as ``{"orders": {"0": 23}}``.

    Raises ValueError, TypeError, AttributeError.
    """
    return {(str(t), int(p)): int(offset) for t, offsets in json.loads(text).items() for p, offset in offsets.items()}


def read_range(uid: str, location: str, options: Mapping[str, str]) -> KafkaRange:
    """Return the topics and offsets that the options of a bounded source select.

    Raises UnfitSourceError.
    """
    source_options = of_options(options)
    topics = tuple(name.strip() for name in source_options.get("subscribe", "").split(",") if name.strip())
    partitions = None
    if "assign" in source_options:
        assigned = json.loads(source_options["assign"])  # Spark has parsed it before, so it is valid JSON
        partitions = frozenset((str(topic), int(number)) for topic, numbers in assigned.items() for number in numbers)
        topics = tuple(sorted({topic for topic, _ in partitions}))
    start = _offsets(uid, location, source_options, "startingOffsets", EARLIEST)
    end = _offsets(uid, location, source_options, "endingOffsets", LATEST)
    return KafkaRange(topics, source_options.get("subscribepattern"), partitions, start, end)


def _offsets(
    uid: str, location: str, source_options: Mapping[str, str], key: str, default: int
) -> Mapping[TopicPartition, int] | int:
    text = source_options.get(key.lower())
    if text is None:
        return default
    name = text.strip().lower()
    wrong = LATEST if default == EARLIEST else EARLIEST
    why = _LATEST_START if default == EARLIEST else _EARLIEST_END
    if name in ("earliest", "latest"):
        if (EARLIEST if name == "earliest" else LATEST) == wrong:
            raise UnfitSourceError(uid=uid, location=location, key=key, value=text, why=why)
        return default
    try:
        offsets = _by_partition(text)
    except (ValueError, TypeError, AttributeError):
        form = '"earliest"' if default == EARLIEST else '"latest"'
        why = f'it is {form}, or a JSON object of offsets by topic and partition: {{"orders": {{"0": 23}}}}'
        raise UnfitSourceError(uid=uid, location=location, key=key, value=text, why=why) from None
    if wrong in offsets.values():
        raise UnfitSourceError(uid=uid, location=location, key=key, value=text, why=why)
    return offsets
