"""One run of an example Dag in this process, as by ``airflow dags test``, with a record of its result.

    python -m dags_examples.demo_support.run_dag flights outcome.json

The environment names the temporary AIRFLOW_HOME; see :mod:`.airflow_home`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any


def run(dag_id: str) -> dict[str, Any]:
    from airflow.dag_processing.dagbag import DagBag
    from airflow.utils import db

    db.initdb()
    bag = DagBag()
    if bag.import_errors:
        raise SystemExit(f"The example Dags cannot be imported: {bag.import_errors}")
    dag_run = bag.dags[dag_id].test()
    tasks = {
        ti.task_id: {"state": str(ti.state), "try_number": ti.try_number, "returned": ti.xcom_pull(task_ids=ti.task_id)}
        for ti in dag_run.get_task_instances()
    }
    return {"state": str(dag_run.state), "tasks": tasks}


def end_with_the_demo() -> None:
    """Exit when standard input is closed, because its other end is the demo's: the demo has then ended."""

    def wait() -> None:
        sys.stdin.buffer.read()
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def main(arguments: list[str]) -> int:
    dag_id, target = arguments
    end_with_the_demo()
    outcome = run(dag_id)
    Path(target).write_text(json.dumps(outcome, indent=1))
    return 0 if outcome["state"] == "success" else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
