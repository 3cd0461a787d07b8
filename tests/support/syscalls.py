"""Recorder of a program's calls to a POSIX file system, and a way to make them fail."""

from __future__ import annotations

import builtins
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

_NAMES = ("fsync", "link", "rename", "replace", "mkdir", "rmdir", "unlink", "open")
_LOOKS = ("stat", "lstat", "open", "scandir", "listdir", "link", "rename", "replace", "mkdir", "rmdir", "unlink")
_NONCE = re.compile(r"\.tmp-[0-9a-f]{16}(-[0-9a-f]{8}-\d+)?")


@contextmanager
def recorded(folder: Path, *names: str) -> Iterator[list[str]]:
    """Record the successful calls ``names`` (default: all but open) of the block, in order, as ``link a/.tmp a/x``.

    Paths are relative to ``folder`` (``.`` is itself). Temporary names have no nonce. An fsync is recorded with the
    path of its descriptor.
    """
    calls: list[str] = []
    lock = threading.Lock()

    def told(target: object) -> str:
        path = os.readlink(f"/proc/self/fd/{target}") if isinstance(target, int) else os.fspath(target)  # type: ignore[call-overload]
        return _NONCE.sub(".tmp", os.path.relpath(path, folder))

    def watched(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watching(*args: Any, **kwargs: Any) -> Any:
            paths = [arg for arg in args if name == "fsync" or isinstance(arg, (str, os.PathLike))]
            line = " ".join([name, *map(told, paths)])
            with lock:  # keeps the order of the calls of all threads
                answer = call(*args, **kwargs)
                calls.append(line)
            return answer

        return watching

    chosen = names or tuple(name for name in _NAMES if name != "open")
    with ExitStack() as stack:
        for name in chosen:
            stack.enter_context(mock.patch.object(os, name, watched(name, getattr(os, name))))
        yield calls


@contextmanager
def refusing(folder: Path, number: int, *names: str) -> Iterator[None]:
    """Make the calls ``names`` (default: all) about a path in ``folder`` fail with the error ``number``.

    Causes are a broken disk, a stale handle or a missing right.
    """

    def refused(call: Callable[..., Any]) -> Callable[..., Any]:
        def refusing_(*args: Any, **kwargs: Any) -> Any:
            for arg in args:
                if isinstance(arg, (str, os.PathLike)) and str(arg).startswith(str(folder)):
                    raise OSError(number, os.strerror(number), str(arg))
            return call(*args, **kwargs)

        return refusing_

    with ExitStack() as stack:
        for name in names or _LOOKS:
            stack.enter_context(mock.patch.object(os, name, refused(getattr(os, name))))
        if not names:
            stack.enter_context(mock.patch.object(builtins, "open", refused(builtins.open)))
        yield
