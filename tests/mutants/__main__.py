"""Run the mutants: ``python -m tests.mutants [what …]``. Exit code 1 if one of them was not killed.

``what``: part of an id, or of a file's name. ``CKPT_MUTANTS=fast`` takes those whose tests start no Spark.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import PACKAGE, Mutant
from tests.mutants.runner import Result, Scratch, Verdict, unsound
from tests.mutants.warm_jvm import WarmJvm
from tests.support.slow import is_chosen


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("what", nargs="*", help="part of an id or of a file's name (default: all)")
    parser.add_argument("--workers", type=int, default=2, help="how many of those without Spark run at once")
    parser.add_argument("--no-baseline", action="store_true", help="do not see first that all tests pass unmutated")
    parser.add_argument("--portion", default="1", help="of these, such as 1/3 (default: all)")
    parser.add_argument("--seed", default="1", help="by which the portion is drawn")
    parser.add_argument("--list", action="store_true", help="show them and run nothing")
    arguments = parser.parse_args(argv)
    chosen = select(MUTANTS, arguments.what, fast=os.environ.get("CKPT_MUTANTS") == "fast")
    chosen = [one for one in chosen if is_chosen(True, one.id, arguments.portion, arguments.seed)]
    if arguments.list:
        for one in chosen:
            print(f"{one.id:44} {one.rule:5} {one.file}:{one.line()}  {one.why}")
        return 0
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ckpt-mutants-") as folder:
        results = run(chosen, Path(folder), workers=arguments.workers, baseline=not arguments.no_baseline)
    print(summary(results, time.monotonic() - started))
    return 0 if results and all(result.verdict.is_good for result in results) else 1


def select(mutants: Iterable[Mutant], what: Sequence[str], *, fast: bool) -> list[Mutant]:
    chosen = [one for one in mutants if not what or any(part in one.id or part in one.file for part in what)]
    return [one for one in chosen if one.is_fast or not fast]


def run(mutants: Sequence[Mutant], folder: Path, *, workers: int, baseline: bool) -> list[Result]:
    """Those without Spark side by side, the others one after the other: a JVM is heavy."""
    fast = [one for one in mutants if one.is_fast]
    slow = [one for one in mutants if not one.is_fast]
    results = _run_group(fast, [Scratch(folder / str(number)) for number in range(workers)], baseline)
    with WarmJvm(folder / "spark") as jvm:
        return results + _run_group(slow, [Scratch(folder / "spark", jvm=jvm)], baseline)


def _run_group(mutants: Sequence[Mutant], copies: Sequence[Scratch], baseline: bool) -> list[Result]:
    if not mutants:
        return []
    scratches: SimpleQueue[Scratch] = SimpleQueue()
    for scratch in copies:
        scratch.make().check_imported()
        scratches.put(scratch)
    excused: dict[str, str] = {}
    if baseline:
        scratch = scratches.get()
        tests = sorted({test for one in mutants for test in one.tests})
        excused = unsound(mutants, scratch.test(tests, seconds=3600))
        scratches.put(scratch)

    def judge(mutant: Mutant) -> Result:
        scratch = scratches.get()
        try:
            if mutant.id in excused:
                result = Result(mutant, Verdict.UNSOUND, excused[mutant.id], 0.0)
            else:
                result = scratch.judge(mutant)
        finally:
            scratches.put(scratch)
        print(line(result), flush=True)
        return result

    with ThreadPoolExecutor(len(copies)) as pool:
        return list(pool.map(judge, mutants))


def line(result: Result) -> str:
    one = result.mutant
    where = f"{PACKAGE}/{one.file}:{one.line()}"
    return f"{result.verdict.value:10}{one.id:44} {one.rule:5} {result.seconds:5.1f} s  {where}  {result.by}"


def summary(results: Sequence[Result], seconds: float) -> str:
    """A table by layer, and everything that was not killed with what it would do."""
    per_layer: dict[str, Counter[Verdict]] = {}
    for result in results:
        per_layer.setdefault(result.mutant.file.partition("/")[0], Counter())[result.verdict] += 1
    rows = [f"{'':14}" + "".join(f"{verdict.value:>11}" for verdict in Verdict)]
    rows += [f"{layer:14}" + "".join(f"{counts[v]:>11}" for v in Verdict) for layer, counts in per_layer.items()]
    total = sum(per_layer.values(), Counter[Verdict]())
    rows.append(f"{'all':14}" + "".join(f"{total[verdict]:>11}" for verdict in Verdict))
    for result in results:
        if not result.verdict.is_good:
            rows += ["", line(result), f"          {result.mutant.why}"]
    rows.append(f"\n{len(results)} mutants, {total[Verdict.KILLED]} killed, {seconds:.0f} s")
    return "\n".join(["", *rows])


if __name__ == "__main__":
    sys.exit(main())
