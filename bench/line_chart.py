"""Charts of a few lines over seconds, as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

Line = Sequence[tuple[float, float]]
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 720, 220, 48, 36, 28, 12
_COLOURS = ("#1f77b4", "#d62728", "#7f7f7f", "#2ca02c")


def charts(panels: Mapping[str, Mapping[str, Line]], x: str, y: str, mark: str) -> str:
    """Return charts below each other, with the same scale.

    Args:
        panels: title of a chart -> name of a line -> the line.
        x: label of the horizontal axis.
        y: label of the vertical axis.
        mark: label of the event at 0, where a vertical line is drawn.
    """
    points = [point for lines in panels.values() for line in lines.values() for point in line]
    left, right = min(one for one, _ in points), max(one for one, _ in points)
    top = max(one for _, one in points) * 1.05
    parts = [
        _panel(number * _HEIGHT, title, lines, (left, right, top), (x, y, mark))
        for number, (title, lines) in enumerate(panels.items())
    ]
    size = f'width="{_WIDTH}" height="{_HEIGHT * len(panels)}"'
    style = 'font-family="sans-serif" font-size="11"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}><rect width="100%" height="100%" fill="white"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _panel(
    down: int, title: str, lines: Mapping[str, Line], scale: tuple[float, float, float], words: tuple[str, str, str]
) -> str:
    left, right, top = scale
    x, y, mark = words

    def at(point: tuple[float, float]) -> tuple[float, float]:
        across = (point[0] - left) / (right - left) * (_WIDTH - _LEFT - _RIGHT)
        up = point[1] / top * (_HEIGHT - _BOTTOM - _TOP)
        return round(_LEFT + across, 1), round(down + _HEIGHT - _BOTTOM - up, 1)

    bottom = down + _HEIGHT - _BOTTOM
    parts = [
        f'<text x="{_LEFT}" y="{down + 16}" font-weight="bold">{escape(title)}</text>',
        f'<path d="M{_LEFT} {down + _TOP}V{bottom}H{_WIDTH - _RIGHT}" fill="none" stroke="black"/>',
        f'<text x="{_WIDTH - _RIGHT}" y="{bottom + 28}" text-anchor="end">{escape(x)}</text>',
        f'<text x="{_LEFT + 6}" y="{down + _TOP + 8}">{escape(y)}</text>',
    ]
    for value in _ticks(0.0, top, 4):
        parts.append(f'<text x="{_LEFT - 4}" y="{at((left, value))[1] + 4}" text-anchor="end">{value:g}</text>')
    for value in _ticks(left, right, 8):
        parts.append(f'<text x="{at((value, 0.0))[0]}" y="{bottom + 14}" text-anchor="middle">{value:g}</text>')
    zero = at((0.0, 0.0))[0]
    parts.append(f'<path d="M{zero} {down + _TOP}V{bottom}" stroke="black" stroke-dasharray="3 3"/>')
    parts.append(f'<text x="{zero + 4}" y="{down + _TOP + 8}">{escape(mark)}</text>')
    for number, (name, line) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        path = "L".join("{} {}".format(*at(point)) for point in line)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        across = _LEFT + 260 + 150 * number
        parts.append(f'<text x="{across}" y="{down + 16}" fill="{colour}">{escape(name)}</text>')
    return "\n".join(parts)


def _ticks(low: float, high: float, about: int) -> list[float]:
    """Return about ``about`` round numbers between the limits."""
    step = next(one for one in (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000) if (high - low) / one <= about)
    first = -(-low // step) * step
    return [first + number * step for number in range(int((high - first) // step) + 1)]
