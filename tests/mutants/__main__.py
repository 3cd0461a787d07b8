"""Run the mutants: ``python -m tests.mutants [what …]``. Exit code 1 if a mutant was not killed.

``what``: part of an id, of a symbol, or of a module's name. A mutant is fast if `make test` runs tests of every path
that it names and none of them needs Spark; only those tests may kill it. ``CKPT_MUTANTS=fast``: fast mutants only.
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
from tests.mutants.mutant import ROOT, Mutant
from tests.mutants.runner import Result, Scratch, Verdict, belongs, unsound
from tests.mutants.warm_jvm import WarmJvm
from tests.support.selection import order_key


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("what", nargs="*", help="part of an id, a symbol or a module's name (default: all)")
    parser.add_argument("--workers", type=int, default=2, help="number of fast mutants that run at once")
    parser.add_argument("--no-baseline", action="store_true", help="do not check first that all tests pass unmutated")
    parser.add_argument("--draw", type=int, help="number of mutants to draw (default: all)")
    parser.add_argument(
        "--minutes", type=float, help="start mutants until so many minutes are used (default: no limit)"
    )
    parser.add_argument("--seed", default="1", help="seed of the order in which mutants are drawn")
    parser.add_argument("--list", action="store_true", help="list them and run nothing")
    arguments = parser.parse_args(argv)
    drawn = sorted(
        select(MUTANTS, arguments.what), key=lambda mutant: order_key(arguments.seed, mutant.id, by_file=False)
    )
    if arguments.list:
        for mutant in drawn[: arguments.draw]:
            print(f"{mutant.id:44} {mutant.rule:5} {where(mutant)}  {mutant.why}")
        return 0
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ckpt-mutants-") as folder:
        run = Run(Path(folder), arguments.workers, not arguments.no_baseline, arguments.minutes)
        results = run.judge_all(drawn, arguments.draw, only_fast=os.environ.get("CKPT_MUTANTS") == "fast")
    print(summary(results, time.monotonic() - started))
    return 0 if results and all(result.verdict.is_good for result in results) else 1


def select(mutants: Iterable[Mutant], what: Sequence[str]) -> list[Mutant]:
    def matches(mutant: Mutant, part: str) -> bool:
        return any(part in text for text in (mutant.id, mutant.symbol, mutant.place().symbol.module.replace(".", "/")))

    return [mutant for mutant in mutants if not what or any(matches(mutant, part) for part in what)]


class Run:
    """One run of many mutants, with copies of the tree below ``folder``. ``minutes``: None without a limit."""

    def __init__(self, folder: Path, workers: int, baseline: bool, minutes: float | None) -> None:
        self._folder, self._baseline, self._minutes = folder, baseline, minutes
        self._copies = [Scratch(folder / str(number), fast=True) for number in range(workers)]

    def judge_all(self, mutants: Sequence[Mutant], draw: int | None, *, only_fast: bool) -> list[Result]:
        """Judge fast mutants side by side, then the others one after another, because a JVM is heavy.

        Each kind gets half of the minutes. They begin when the tests have been collected.
        """
        fast, slow = self._split(mutants)
        chosen = (fast if only_fast else mutants)[:draw]
        minutes = None if self._minutes is None else self._minutes / (1 if only_fast else 2)
        results = self._judge_group([mutant for mutant in fast if mutant in chosen], self._copies, minutes)
        if not only_fast:
            with WarmJvm(self._folder / "spark") as jvm:
                copies = [Scratch(self._folder / "spark", jvm=jvm)]
                results += self._judge_group([mutant for mutant in slow if mutant in chosen], copies, minutes)
        print(f"\n{len(results)} of {len(chosen)} mutants tried")
        return results

    def _split(self, mutants: Sequence[Mutant]) -> tuple[list[Mutant], list[Mutant]]:
        """Return the fast mutants and the others."""
        files = sorted({test.partition("::")[0] for mutant in mutants for test in mutant.tests})
        scratch = self._copies[0].make()
        in_make_test = scratch.collect(files)
        with_spark = scratch.collect(files, "-m", "spark", slow="all")

        def is_fast(test: str) -> bool:
            return any(belongs(module, test) for module in in_make_test) and not any(
                belongs(module, test) for module in with_spark
            )

        test_is_fast = {test: is_fast(test) for mutant in mutants for test in mutant.tests}
        fast = [mutant for mutant in mutants if all(test_is_fast[test] for test in mutant.tests)]
        return fast, [mutant for mutant in mutants if mutant not in fast]

    def _judge_group(self, mutants: Sequence[Mutant], copies: Sequence[Scratch], minutes: float | None) -> list[Result]:
        if not mutants:
            return []
        scratches: SimpleQueue[Scratch] = SimpleQueue()
        for scratch in copies:
            scratch.make().check_imported()
            scratches.put(scratch)
        excused: dict[str, str] = {}
        if self._baseline:
            scratch = scratches.get()
            excused = unsound(mutants, scratch.baseline({test for mutant in mutants for test in mutant.tests}))
            scratches.put(scratch)
        until = float("inf") if minutes is None else time.monotonic() + 60 * minutes

        def judge(mutant: Mutant) -> Result | None:
            if time.monotonic() > until:
                return None
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
            return [result for result in pool.map(judge, mutants) if result is not None]


def where(mutant: Mutant) -> str:
    place = mutant.place()
    return f"{place.symbol.file.relative_to(ROOT)}:{place.first}"


def line(result: Result) -> str:
    mutant = result.mutant
    return (
        f"{result.verdict.value:10}{mutant.id:44} {mutant.rule:5} {result.seconds:5.1f} s  {where(mutant)}  {result.by}"
    )


def summary(results: Sequence[Result], seconds: float) -> str:
    """Return a table by layer, and every mutant that was not killed, with the harm that it does."""
    per_layer: dict[str, Counter[Verdict]] = {}
    for result in results:
        layer = result.mutant.place().symbol.module.partition(".")[0]
        per_layer.setdefault(layer, Counter())[result.verdict] += 1
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
