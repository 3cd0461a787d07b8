"""The pause between two tries."""


def backoff(failures: int, first: float, longest: float, factor: float = 2.0) -> float:
    """Return the seconds before the next try.

    Args:
        failures: failed tries in a row, at least 1.
        factor: the ratio of a pause to the previous one.
    """
    return min(longest, first * factor ** min(failures - 1, 100))
