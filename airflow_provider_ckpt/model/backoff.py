"""The pause between two tries."""


def backoff(failures: int, first: float, longest: float, factor: float = 2.0) -> float:
    """Return the seconds before the next try: ``first``, then ``factor`` times the previous pause, up to ``longest``.

    ``failures`` is the number of failed tries in a row, at least 1.
    """
    return min(longest, first * factor ** min(failures - 1, 100))
