"""The example Dag on this machine, with a driver that is killed in the middle: ``make demo``.

    python -m dags_examples.demo [--workdir FOLDER] [--keep]

Exits with 0 only if every line of the report was checked against the journal or the data, and is true.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from airflow_provider_ckpt.cli.doctor import check_java
from dags_examples.demo_support.evidence import Evidence, judge
from dags_examples.demo_support.story import Story
from dags_examples.demo_support.watch import DemoFailedError

JAVA = """To get Java:
  Debian, Ubuntu   sudo apt-get install openjdk-17-jre-headless
  macOS            brew install openjdk@17 && export JAVA_HOME=$(brew --prefix openjdk@17)
  conda            conda install -c conda-forge openjdk=17"""
_TAIL = 40


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m dags_examples.demo", description="Show a job that survives kill -9."
    )
    parser.add_argument("--workdir", type=Path, help="an empty folder to work in (default: a temporary one)")
    parser.add_argument("--keep", action="store_true", help="leave data, checkpoints and logs where they are")
    arguments = parser.parse_args(argv)
    java = check_java()
    if java.verdict == "problem":
        print(f"{java.text}\n{JAVA}", file=sys.stderr)
        return 1
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    workdir = _workdir(arguments.workdir)
    code = 1
    try:
        code = _run(workdir)
    except KeyboardInterrupt:
        print("interrupted")
        code = 130
    finally:
        if arguments.keep or code == 1:
            print(f"Data, checkpoints and logs are in {workdir}")
        else:
            shutil.rmtree(workdir, ignore_errors=True)
    return code


def _run(workdir: Path) -> int:
    begun = time.monotonic()
    story = Story(workdir, lambda text: print(f"{time.monotonic() - begun:6.1f} s  {text}", flush=True))
    os.environ.update(story.environment("demo"))  # before anything imports Airflow, which reads it once
    try:
        evidence = story.run()
    except DemoFailedError as error:
        print(f"\nThe demo failed: {error}")
        _print_tails(story.logs())
        return 1
    finally:
        story.end()
    sound = report(evidence)
    print(f"{time.monotonic() - begun:.0f} s")
    if not sound:
        _print_tails(story.logs())
    return 0 if sound else 1


def report(evidence: Evidence) -> bool:
    """Print the checks, and return True if all of them hold."""
    checks = judge(evidence)
    print("\nmonth      input   released")
    for month in sorted({*evidence.expected_months, *evidence.actual_months}):
        print(f"{month:5} {evidence.expected_months.get(month, 0):10,} {evidence.actual_months.get(month, 0):10,}")
    print()
    for check in checks:
        print(f"{'ok    ' if check.holds else 'FAILED'}  {check.claim}")
    held = sum(check.holds for check in checks)
    print(f"\n{held} of {len(checks)} claims hold")
    return held == len(checks)


def _print_tails(logs: Sequence[Path]) -> None:
    for log in logs:
        print(f"\nthe end of {log}:")
        print("\n".join(log.read_text(errors="replace").splitlines()[-_TAIL:]))


def _workdir(given: Path | None) -> Path:
    if given is None:
        return Path(tempfile.mkdtemp(prefix="ckpt-demo-"))
    given.mkdir(parents=True, exist_ok=True)
    if any(given.iterdir()):
        raise SystemExit(f"{given} is not empty; give an empty or a new folder")
    return given.resolve()


def _leave(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
