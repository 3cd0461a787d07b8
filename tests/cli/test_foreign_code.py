"""Requests and journals that name code from outside the job's folders, with a real driver."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from airflow_provider_ckpt.cli import main
from airflow_provider_ckpt.journal.events import Reconfigured, StatusChanged
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.request_files import write_request
from airflow_provider_ckpt.model.job_request import ReconfigureRequest, UpgradeRequest
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.opening import open_storage
from tests.cli.test_run_job import Pipeline
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class Attacker:
    """Somebody who may write to the root, and elsewhere, but not to the folder of the job's file."""

    def __init__(self, pipeline: Pipeline, elsewhere: Path) -> None:
        self.pipeline, self.elsewhere = pipeline, elsewhere
        self.storage = open_storage(pipeline.root)
        self.mark = elsewhere / "it was run"

    def write(self, folder: Path) -> str:
        """Write a version of the job that leaves a mark when it is loaded."""
        folder.mkdir(parents=True, exist_ok=True)
        code = (self.pipeline.folder / "pipeline.py").read_text()
        (folder / "evil.py").write_text(f"open({str(self.mark)!r}, 'w').close()\n{code}")
        return f"{folder}/evil.py:job"

    def references(self) -> list[str]:
        below = self.pipeline.root / "orders" / "requests"
        return [self.write(self.elsewhere), self.write(below), self.write(self.pipeline.target)]

    def ask(self, kind: str, reference: str) -> str:
        """Write a request by hand; return its name."""
        epoch = Journal(self.storage, "orders").replay().epoch
        if kind == "upgrade":
            return write_request(self.storage, "orders", UpgradeRequest(reference, epoch=epoch)).name
        changes = {"doubled": VertexSettings(logic={"doubled": reference})}
        return write_request(self.storage, "orders", ReconfigureRequest(changes, epoch=epoch)).name

    def forge(self, reference: str) -> None:
        """Write a journal by which the function was assigned already."""
        journal = Journal(self.storage, "orders")
        journal.claim("forged", Worker(), 1.0)
        query = journal.state.graph().vertices[-1].uid
        settings = {query: VertexSettings(logic={"doubled": reference})}
        journal.write(Reconfigured(journal.state.reconfigured + 1, settings, 1.0))
        journal.write(StatusChanged(JobStatus.STOPPED, 1.0))


def test_a_driver_refuses_code_from_outside_its_own_folders(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    pipeline = Pipeline(tmp_path_factory.mktemp("job"))
    attacker = Attacker(pipeline, tmp_path_factory.mktemp("elsewhere"))
    outcomes: list[str] = []

    def answer(name: str) -> str | None:
        outcome = Journal(attacker.storage, "orders").replay().outcomes.get(name)
        return None if outcome is None or outcome.result.value == "accepted" else str(outcome)

    command = pipeline.command("--checkpoint-interval", "1s")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_until(lambda: pipeline.rows() == [2, 4] or process.poll() is not None, "rows", seconds=200)
            own = pipeline.folder / "orders_v2.py"
            own.write_text((pipeline.folder / "pipeline.py").read_text().replace("* 2", "* 3"))
            asked = [(kind, reference) for reference in attacker.references() for kind in ("upgrade", "reconfigure")]
            for kind, reference in [*asked, ("reconfigure", f"{own}:job")]:
                name = attacker.ask(kind, reference)
                wait_until(lambda: answer(name) or process.poll() is not None, "an answer", seconds=100)  # noqa: B023
                outcomes.append(str(answer(name)))
            assert process.poll() is None, process.communicate()
            assert main(["stop", "orders", "--root", str(pipeline.root)]) == 0
            _, err = process.communicate(timeout=200)
        finally:
            process.kill()
    assert process.returncode == 0, err
    assert not attacker.mark.exists(), outcomes
    *refused, accepted = outcomes
    assert all("is not run" in outcome for outcome in refused), refused
    assert ["lies in none of the folders" in outcome for outcome in refused] == [True, True, False, False, False, False]
    assert ["lies below" in outcome for outcome in refused] == [False, False, True, True, True, True]
    assert "is not run" not in accepted, accepted

    attacker.forge(attacker.write(attacker.elsewhere))
    again = pipeline.run()
    assert again.returncode == 2, again.stdout + again.stderr
    assert "is not run" in again.stdout + again.stderr
    assert "doubled.logic=declared" in again.stdout + again.stderr
    assert not attacker.mark.exists()
    assert pipeline.rows() == [2, 4]
