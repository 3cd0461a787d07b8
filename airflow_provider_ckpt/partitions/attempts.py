"""The name of an attempt: ``<epoch>-<nonce>``. Who may delete what another attempt left goes by the epoch."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

_NAME = re.compile(r"(\d{4,})-[0-9A-Za-z]+(?:$|[-.])")


def attempt_name(epoch: int, nonce: str) -> str:
    return f"{epoch:04d}-{nonce}"


def epoch_of(name: str) -> int | None:
    """The epoch of an attempt, or of the attempt in front of a name (``<attempt>-<batch>-<nonce>``,
    ``<attempt>.json``); None if it cannot be told."""
    found = _NAME.match(name)
    return None if found is None else int(found[1])


def is_before(name: str, epoch: int) -> bool:
    """Whether it surely belongs to an attempt of an earlier epoch: one that is fenced, and may be deleted. What
    cannot be told is left alone."""
    its = epoch_of(name)
    return its is not None and its < epoch


class AttemptsFrom(Collection[str]):
    """Every attempt of ``epoch`` and of later ones, known or not: answers ``in``, and cannot be listed."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch

    def __contains__(self, attempt: object) -> bool:
        return isinstance(attempt, str) and not is_before(attempt, self._epoch)

    def __iter__(self) -> Iterator[str]:
        raise TypeError("attempts of later epochs are not known yet: ask with 'in'")

    def __len__(self) -> int:
        raise TypeError("attempts of later epochs are not known yet: ask with 'in'")

    def __repr__(self) -> str:
        return f"AttemptsFrom({self._epoch})"
