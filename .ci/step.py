#!/usr/bin/env python3
"""Run one step of CI and print one line for it: result, tests, seconds, peak memory.

usage: .ci/step.py NAME MINUTES COMMAND [ARGUMENT …]

The output goes to build/ci/NAME.log, and to the screen if the step fails. A step fails if its command does, if it
takes more than MINUTES, or if it leaves processes running. Everything that it has started ends with it, in whatever
session, because a variable in the environment marks it. Memory is how much less the machine has available than when the
step began, so it counts processes and files in /dev/shm.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

MARK = "CI_STEP_MARK"
LOGS = Path("build/ci")
TESTS = re.compile(
    r"^=+ (.*(?:passed|failed|error|skipped).*) in [\d.]+s"
    r"|^=+ (\d+ of \d+ tests in .* minutes) =+$"
    r"|^(\d+ of \d+ mutants tried)$",
    re.MULTILINE,
)
SHOWN = 20_000  # characters of a failed step's log


def main() -> int:
    name, minutes, command = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{name.replace(' ', '-')}.log"
    mark = uuid.uuid4().hex
    print(f"=== {name}: {' '.join(command)}", flush=True)
    begun, before, peak = time.monotonic(), available(), 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    code = None
    try:
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, MARK: mark},
            )
        while (code := wait(process, 1.0)) is None and time.monotonic() - begun < 60 * minutes:
            peak = max(peak, before - available())
    finally:
        left = end_all(mark, patience=60 if code == 0 else 0)  # a JVM takes a while to end
    seconds = time.monotonic() - begun
    problems = []
    if code is None:
        problems.append(f"not done after {minutes:g} minutes")
    elif code != 0:
        problems.append(f"exit code {code}")
    if left:
        problems.append(f"left {len(left)} processes: {'; '.join(left)[:2000]}")
    text = log.read_text(errors="replace")
    if problems:
        print(f"--- the end of {log}\n{text[-SHOWN:]}")
    tests = [next(filter(None, match.groups())) for match in TESTS.finditer(text)]
    result = "FAILED (" + ", ".join(problems) + ")" if problems else "ok"
    print(f"=== {name} {result}, {'; '.join(tests) or 'no tests'}, {seconds:.0f} s, {peak / 2**30:.1f} GiB", flush=True)
    return 1 if problems else 0


def wait(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None


def available() -> int:
    """Return the bytes of memory that the machine could still give; 0 where /proc does not say."""
    try:
        found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return int(found.group(1)) * 1024 if found else 0


def end_all(mark: str, patience: float) -> list[str]:
    """Kill every process that has the mark and does not end within ``patience`` seconds. Return their commands."""
    commands = []
    until = time.monotonic() + patience
    while marked(mark) and time.monotonic() < until:
        time.sleep(0.2)
    while found := marked(mark):
        for pid, command in found:
            commands.append(command)
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.2)
    return commands


def marked(mark: str) -> list[tuple[int, str]]:
    """Return the number and the command of each living process with the mark."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                found.append((int(folder.name), command[:200]))
        except OSError:
            pass  # it has ended, or belongs to another user
    return found


if __name__ == "__main__":
    sys.exit(main())
