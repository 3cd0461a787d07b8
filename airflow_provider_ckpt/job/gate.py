"""The gate of a sink: it may hold what is to be released, while checkpoints go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class PendingRelease:
    """What a gate is asked about: rows of ``sink`` that completed checkpoints cover, up to ``checkpoint``, and that
    nobody sees yet. ``rows``: how many, as they were staged."""

    job_id: str
    sink: str
    checkpoint: int
    rows: int


Gate = Callable[[PendingRelease], bool]
"""True: release it. False: not yet; it is asked again every few seconds. Called in whichever process releases (the
driver, the JobMaster, ``ckpt release``), in a thread of its own, and only if there is something to release. What it
raises counts as a release that failed, and is tried again."""
