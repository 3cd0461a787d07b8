"""The mark by which a process shows that it drives a job. A process without the mark is never killed (R8).

A journal names the process that drives its job, but anybody who may write to the root can forge that entry. So a driver
also listens on a socket whose name is made of root, job and process. The kernel names the listening process. The mark
ends with the process, and no process can set the mark of another process.
"""

from __future__ import annotations

import hashlib
import os
import socket
import struct
import sys
import threading

from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.nesting import segments

_CREDENTIALS = struct.Struct("3i")
"""Process, user and group: the ``ucred`` of Linux."""
_CONNECT_TIMEOUT = 1.0
_BACKLOG = 128
"""Length of the socket's queue of connections. Each check by a successor adds one, and the driver accepts none."""
_MAX_MARKS = 64
"""Maximum number of marks of one process. If a notebook runs more jobs, its process closes the oldest marks."""

_marks: dict[str, socket.socket] = {}
_lock = threading.Lock()


def mark(worker: Worker, root: str, job_id: str) -> None:
    """Mark this process as a driver of the job, until the process ends.
    ``worker`` is the identity of this process, as the epoch claim records it.

    Without a start time in ``worker`` there is no mark, because that process must never be killed. Systems other than
    Linux have no marks, so only the fence stops a driver there.
    """
    if sys.platform != "linux" or worker.pid != os.getpid() or worker.started is None:
        return
    name = _name(worker, root, job_id)
    with _lock:
        if name in _marks:
            _marks[name] = _marks.pop(name)  # moved to the end, because the oldest marks are closed first
            return
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(name)
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
        else:
            _marks[name] = listener
        while len(_marks) > _MAX_MARKS:
            _marks.pop(next(iter(_marks))).close()


def is_marked(worker: Worker, root: str, job_id: str) -> bool:
    """Return whether the process of ``worker`` has marked itself as a driver of the job; False if not on Linux."""
    if sys.platform != "linux":
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.settimeout(_CONNECT_TIMEOUT)
        try:
            caller.connect(_name(worker, root, job_id))
            credentials = caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        except OSError:
            return False
    pid, _, _ = _CREDENTIALS.unpack(credentials)
    return bool(pid == worker.pid)


def _name(worker: Worker, root: str, job_id: str) -> str:
    """Return the name of the socket. The name begins with a null byte, so that the socket is no file."""
    identity = "\0".join(["/".join(segments(root)), job_id, str(worker.pid), str(worker.started)])
    return f"\0airflow-provider-ckpt/{hashlib.sha256(identity.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
