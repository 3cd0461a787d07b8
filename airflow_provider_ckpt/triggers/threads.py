"""Threads for what blocks in a triggerer, where ``asyncio.to_thread`` has some eight for all triggers of the process: a
cluster that does not answer holds one for half a minute, and would hold up everybody else's triggers."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

Result = TypeVar("Result")
_THREADS = 32


async def in_thread(function: Callable[[], Result]) -> Result:
    """As ``asyncio.to_thread``, in this package's own threads."""
    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(_pool(), lambda: context.run(function))


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, "ckpt")
