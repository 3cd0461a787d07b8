"""Cost of the check for malformed rows in CSV and JSON files, which covers columns that the query does not use.

    python bench/bench_malformed.py [--rounds 3] [--rows 200000] [--columns 20] [--form json] [--choice fail]

checked    the default: all columns of the schema are parsed, and JSON files are read once more as text
unchecked  the same job with Spark's own reading

Both read the same files of valid rows as a stream, in micro-batches of a quarter of the files, in turn. The query uses
one column (``--used`` of them), so Spark's own reading parses no other.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import data, two_sides

FILES = 16
CONF = {
    "spark.master": os.environ.get("CKPT_BENCH_MASTER", "local[2]"),
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
}
JOB = """
from airflow_provider_ckpt import FileSink, Job

job = Job("malformed")

@job.source(bounded=True, max_files_per_trigger=4, on_malformed="{choice}")
def rows(read):
    return read.schema("{schema}").{form}("{folder}")

@job.transform(inputs=[rows])
def used(frame):
    return frame.select({used})

job.sink("out", used, FileSink("{out}"))
"""


def names(columns: int) -> list[str]:
    return [f"c{number}" for number in range(columns)]


def make(folder: Path, rows: int, columns: int, form: str) -> None:
    """Write the files of rows, unless they exist."""
    if folder.exists():
        return
    hidden = folder.with_name(f".{folder.name}")
    hidden.mkdir(parents=True)
    for file in range(FILES):
        with (hidden / f"{file:02d}.{form}").open("w") as out:
            for row in range(file * rows // FILES, (file + 1) * rows // FILES):
                values = [row * 31 + column for column in range(columns)]
                line = json.dumps(dict(zip(names(columns), values, strict=True))) if form == "json" else values
                out.write(f"{line}\n" if form == "json" else f"{','.join(map(str, values))}\n")
    hidden.rename(folder)


def one(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the job in this process and return the measurements."""
    from airflow_provider_ckpt.sinks.file.manifests import read_manifests
    from airflow_provider_ckpt.spark.query.sources.malformed import MalformedRule

    work = two_sides.new_folder(data.scratch() / "malformed")
    if arguments.unchecked:
        MalformedRule.treatment = lambda self, *given: None  # type: ignore[method-assign]
        MalformedRule.refuse_choice = lambda self, form: None  # type: ignore[method-assign]
    job = JOB.format(
        choice=arguments.choice,
        schema=", ".join(f"{name} LONG" for name in names(arguments.columns)),
        form=arguments.form,
        folder=arguments.one,
        used=", ".join(f'"{name}"' for name in names(arguments.used)),
        out=work / "out",
    )
    cost = two_sides.cost_of_job(work, job, CONF)
    rows = sum(manifest.rows for manifest in read_manifests(str(work / "out")))
    return {"cost": cost, "rows": rows}


def measured(arguments: argparse.Namespace, folder: Path, *, checked: bool) -> two_sides.Cost:
    """Run the job in a process of its own. End the bench if the result is wrong."""
    shape = ["--columns", str(arguments.columns), "--used", str(arguments.used), "--form", arguments.form]
    side = [] if checked else ["--unchecked"]
    report = two_sides.report_of(__file__, "--one", str(folder), "--choice", arguments.choice, *shape, *side)
    if report["rows"] != arguments.rows:
        raise SystemExit(f"{report['rows']} of {arguments.rows} rows were released")
    return two_sides.Cost(*report["cost"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--used", type=int, default=1)
    parser.add_argument("--form", choices=["csv", "json"], default="json")
    parser.add_argument("--choice", choices=["fail", "count"], default="fail")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--unchecked", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one(arguments)))
        return
    folder = data.scratch() / f"rows-{arguments.rows}-{arguments.columns}.{arguments.form}"
    make(folder, arguments.rows, arguments.columns, arguments.form)
    print(f"{arguments.rows} rows of {arguments.form}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    ratios: list[two_sides.Cost] = []
    for sides in two_sides.turns(arguments.rounds):
        cost = {checked: measured(arguments, folder, checked=checked) for checked in sides}
        print(f"checked {_shown(cost[True])}, unchecked {_shown(cost[False])}", flush=True)
        ratios.append(two_sides.Cost(*(one / other for one, other in zip(cost[True], cost[False], strict=True))))
    print(f"checked: {two_sides.median_of([one.seconds for one in ratios])} of the time of unchecked")
    print(f"checked: {two_sides.median_of([one.cpu_seconds for one in ratios])} of the CPU time of unchecked")


def _shown(cost: two_sides.Cost) -> str:
    return f"{cost.seconds:.1f} s, {cost.cpu_seconds:.1f} s of CPU"


if __name__ == "__main__":
    main()
