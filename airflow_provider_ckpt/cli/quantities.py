"""Short texts for numbers of rows, bytes, seconds and instants."""

from __future__ import annotations

_THOUSANDS = ("", "k", "M", "G", "T")


def short(number: float) -> str:
    """Return a number with at most four digits: ``999``, ``18.4k``, ``41.0M``."""
    for power, letter in enumerate(_THOUSANDS):
        scaled = number / 1000**power
        if abs(scaled) < 999.95 or power == len(_THOUSANDS) - 1:
            return f"{scaled:.1f}{letter}" if letter else f"{round(number)}"
    raise AssertionError


def per_second(rate: float | None) -> str | None:
    """Return a rate of rows. Below 0.5 rows/s it is given by the minute, because 0 rows/s would look like no rows."""
    if rate is None:
        return None
    if 0 < rate < 0.5:
        return f"{short(rate * 60)} rows/min"
    return f"{short(rate)} rows/s"


def size(number: int) -> str:
    """Return a number of bytes as text, such as ``612 MB``."""
    text = short(number)
    return f"{text} B" if text[-1].isdigit() else f"{text[:-1]} {text[-1]}B"


def span(seconds: float) -> str:
    """Return a time span in its two largest units: ``4 s``, ``2 min``, ``2 h 06 min``, ``3 d 4 h``."""
    seconds = max(0.0, seconds)
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def ago(at: float | None, now: float) -> str | None:
    """Return how long ago ``at`` was; both are epoch seconds. A time in the future counts as now."""
    return None if at is None else f"{span(now - at)} ago"


def rows(counts: dict[str, int]) -> str | None:
    """Return the rows of a release as text, or all counts of a sink that counts no rows. None without a count."""
    if "rows" in counts:
        return f"{short(counts['rows'])} {'row' if counts['rows'] == 1 else 'rows'}"
    return ", ".join(f"{short(number)} {name}" for name, number in counts.items()) or None


def part(done: int, total: int, unit: str) -> str:
    """Return a progress: ``1,512 / 2,400 files (63 %)``."""
    share = f" ({100 * done // total} %)" if total else ""
    return f"{done:,} / {total:,} {unit}{share}"
