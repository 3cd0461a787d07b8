"""Threads for blocking calls in a triggerer.

``asyncio.to_thread`` has some eight threads for all triggers of the process. A root or cluster that does not answer
would block all of these threads. So each root has a few threads of its own.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

Result = TypeVar("Result")
THREADS_OF_A_ROOT = 8
_THREADS_OF_CLUSTERS = 32


async def in_thread(function: Callable[[], Result], *, root: str | None = None) -> Result:
    """Run ``function``, which may block, in a thread of this package, as ``asyncio.to_thread`` does.

    ``root`` is the root that the function reads. It is None for a function that polls a cluster or Airflow.
    """
    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(_pool(root), lambda: context.run(function))


@cache
def _pool(root: str | None) -> ThreadPoolExecutor:
    """Return the thread pool of a root. The pool starts a thread when all its threads are busy, and ends none."""
    return ThreadPoolExecutor(_THREADS_OF_CLUSTERS if root is None else THREADS_OF_A_ROOT, "ckpt")
