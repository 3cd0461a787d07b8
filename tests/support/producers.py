"""Producer processes of their own, which write JSON rows ``{"id": n}`` as careful and careless programs do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_IN_PLACE = """
import os, sys, time
path, first, rest, gate, pause = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], float(sys.argv[5])
with open(path, "w") as out:
    out.writelines('{"id": %d}\\n' % n for n in range(first))
    out.flush()
    while gate != "-" and not os.path.exists(gate):
        time.sleep(0.02)
    for n in range(first, first + rest):
        out.write('{"id": %d}\\n' % n)
        out.flush()
        time.sleep(pause)
"""
_RENAMED = """
import os, sys
path, temporary, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with open(temporary, "w") as out:
    out.writelines('{"id": %d}\\n' % n for n in range(count))
os.rename(temporary, path)
"""


@contextmanager
def writing_in_place(
    path: Path, first: int, rest: int, *, gate: Path | None = None, pause: float = 0.0
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that writes ``first`` rows to ``path``, and then ``rest`` more rows.

    Args:
        gate: the process writes the second part when this file is there.
        pause: seconds after each row of the second part.
    """
    arguments = [str(path), str(first), str(rest), str(gate or "-"), str(pause)]
    with subprocess.Popen([sys.executable, "-c", _IN_PLACE, *arguments]) as process:
        try:
            yield process
        finally:
            process.kill()


def write_and_rename(path: Path, temporary: Path, count: int) -> None:
    """Run a process that writes ``count`` rows under a temporary name, and renames the file."""
    subprocess.run([sys.executable, "-c", _RENAMED, str(path), str(temporary), str(count)], check=True)
