"""Code blocks of a Markdown page, found and run on request.

A comment before a block defines its kind:

* ``<!-- file: orders.py -->``: the block is written to that file in the page's own temporary folder. If it
  defines ``job``, the job is loaded and validated.
* ``<!-- runnable -->``: the block (python or sh) is run in that folder, in a process of its own. It must exit
  with 0. ``<!-- runnable: spark -->`` starts Spark, ``<!-- runnable: airflow -->`` imports Airflow.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
VALIDATE = (
    "import sys; from airflow_provider_ckpt.job.loading.loading import load_job; load_job(sys.argv[1]).validate()"
)
SHELLS = ("sh", "bash", "shell", "console")

_BLOCK = re.compile(
    r"^(?:<!-- *(?P<kind>file|runnable)(?:: *(?P<value>[^ ]+))? *-->\n)?"
    r"```(?P<language>\w*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    language: str
    code: str
    line: int
    kind: str | None
    """file, runnable, or None for a block that is neither written nor run."""
    value: str | None


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(text: str) -> list[Block]:
    return [
        Block(
            match["language"],
            match["code"],
            text[: match.start()].count("\n") + 1,
            match["kind"],
            match["value"],
        )
        for match in _BLOCK.finditer(text)
    ]


def run_page(text: str, folder: Path) -> int:
    """Write and run the blocks in order. Return the number of blocks that were written or run.

    Raises AssertionError with the output of a block that fails.
    """
    done = 0
    for block in blocks(text):
        if block.kind == "file":
            write_file(block, folder)
        elif block.kind == "runnable":
            run_block(block, folder)
        done += block.kind is not None
    return done


def write_file(block: Block, folder: Path) -> None:
    assert block.value, f"line {block.line}: the name of the file is missing"
    path = folder / block.value
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(block.code, encoding="utf-8")
    if block.language == "python" and re.search(r"^job = ", block.code, re.MULTILINE):
        _run([sys.executable, "-c", VALIDATE, f"{block.value}:job"], folder, block)


def run_block(block: Block, folder: Path) -> None:
    if block.language == "python":
        _run([sys.executable, "-c", block.code], folder, block)
    else:
        assert block.language in SHELLS, f"line {block.line}: cannot run {block.language!r}"
        _run(["bash", "-euc", block.code], folder, block)


def _run(command: list[str], folder: Path, block: Block) -> None:
    env = {
        **os.environ,
        "PATH": os.pathsep.join([str(_ckpt_command(folder)), os.environ["PATH"]]),
        "PYTHONPATH": str(ROOT),
        "AIRFLOW_HOME": str(folder / ".airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    }
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, (
        f"line {block.line} exited with {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    )


def _ckpt_command(folder: Path) -> Path:
    """Create a folder with a ``ckpt`` command of this working tree, in case another version is installed."""
    command = folder / ".bin" / "ckpt"
    if not command.exists():
        command.parent.mkdir()
        code = "import sys; from airflow_provider_ckpt.cli import main; sys.exit(main())"
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(code)} "$@"\n')
        command.chmod(0o755)
    return command.parent


def ckpt_commands(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, arguments) of every ``ckpt …`` command in the shell blocks."""
    for block in blocks(text):
        if block.language not in SHELLS:
            continue
        joined = block.code.replace("\\\n", " ")
        for line in joined.splitlines():
            words = shlex.split(line.removeprefix("$ "), comments=True)
            while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):  # NAME=value before the command
                words = words[1:]
            if words[-1:] == ["&"]:
                words = words[:-1]
            if words[:1] == ["ckpt"]:
                yield block.line, words[1:]
