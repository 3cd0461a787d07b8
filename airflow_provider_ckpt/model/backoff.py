"""The pause between two tries."""


def backoff(failures: int, first: float, longest: float, factor: float = 2.0) -> float:
    """Return the seconds before the next try, after at least one failed try (``failures`` in a row).

    ``factor`` is the ratio of a pause to the previous one.
    """
    return min(longest, first * factor ** min(failures - 1, 100))
