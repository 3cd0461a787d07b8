"""``ckpt run``: from arguments to RunOptions, and refusals. The driver has its own tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ckpt.cli import build_parser, main
from airflow_provider_ckpt.cli.run import run_options
from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.spark import main as driver

JOB = """
from airflow_provider_ckpt import FileSink, Job

job = Job({name!r})

@job.source
def live(read):
    return read.text("/in")

job.sink("lake", live, FileSink("/out"))
"""


@pytest.fixture
def reference(tmp_path: Path) -> str:
    return _write(tmp_path, "orders")


def _write(folder: Path, name: str | None) -> str:
    path = folder / "pipeline.py"
    path.write_text(JOB.format(name=name))
    return f"{path}:job"


def _options(*words: str) -> RunOptions:
    return run_options(build_parser().parse_args(["run", *words]))


def test_missing_arguments_keep_their_defaults(reference: str) -> None:
    assert _options(reference, "--root", "r") == RunOptions(job=reference, root="r", job_id="orders", spare_driver=True)


def test_taking_over_from_a_live_driver_needs_its_option(reference: str) -> None:
    assert not _options(reference, "--root", "r", "--take-over").spare_driver


def test_every_option_reaches_the_run_options(reference: str) -> None:
    words = (
        "--root r --job-id j-1 --mode batch --checkpoint-interval 5s --min-pause 500ms "
        "--checkpoint-timeout 1m30s "
        "--tolerable-failed-checkpoints 2 --trigger-interval 1s --max-bytes-per-trigger 64m --drain-after 2h "
        "--restore none --retained-checkpoints 5 --journal-buffer 64k --journal-flush-interval 2s "
        "--no-batch-recovery --option execution.batch.job-recovery.snapshot.min-pause=5min "
        "--previous-worker-timeout 40s --allow-non-restored-state "
        "--conf spark.x=a=b --conf spark.y=1 --param day=2026-01-01 --param filter=a=b"
    )
    assert _options(reference, *words.split()) == RunOptions(
        job=reference,
        root="r",
        job_id="j-1",
        mode="batch",
        checkpoint_interval=5.0,
        min_pause=0.5,
        checkpoint_timeout=90.0,
        tolerable_failed_checkpoints=2,
        trigger_interval=1.0,
        max_bytes_per_trigger=64 << 20,
        drain_after=7200.0,
        restore="none",
        retained_checkpoints=5,
        journal_buffer_bytes=64 << 10,
        journal_flush_interval=2.0,
        batch_recovery=False,
        previous_worker_timeout=40.0,
        snapshot_min_pause=300.0,
        allow_non_restored_state=True,
        spare_driver=True,
        conf={"spark.x": "a=b", "spark.y": "1"},
        params={"day": "2026-01-01", "filter": "a=b"},
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--checkpoint-interval", "often"], "often"),
        (["--stop-at", "2026-01-01 00:00"], "zone"),
        (["--journal-buffer", "lots"], "lots"),
        (["--retained-checkpoints", "0"], "retained_checkpoints"),
        (["--conf", "spark.x"], "--conf"),
        (["--param", "day"], "--param"),
        (["--option", "execution.batch.job-recovery.enabled"], "--option"),
        (["--option", "execution.batch.job-recovery.enabled=perhaps"], "true or false"),
        (["--option", "job-event.store.write-buffer.size=1.5mb"], "no size as Flink has it"),
        (["--param", "a day=1"], "a day"),
        (["--param", "day=1"], "has no parameter 'day'"),
        (["--job-id", "../up"], "../up"),
        (["--storage-option", "justakey"], "--storage-option"),
    ],
)
def test_a_bad_value_is_refused_by_name(
    words: list[str], expected: str, reference: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "root"
    assert main(["run", reference, "--root", str(root), *words]) == 2
    refusal = capsys.readouterr().err
    assert expected in refusal
    assert "Traceback" not in refusal
    assert not root.exists()


@pytest.mark.parametrize(
    "words", [["--stop-after", "1s", "--drain-after", "1s"], ["--mode", "fast"], ["--min-puase", "1s"]]
)
def test_a_bad_option_is_refused(words: list[str], reference: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(["run", reference, "--root", "r", *words])
    assert leaving.value.code == 2
    assert "error:" in capsys.readouterr().err


@pytest.mark.parametrize("name", [None, "daily orders"])
def test_a_name_that_is_no_valid_id_asks_for_a_job_id(
    name: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", _write(tmp_path, name), "--root", str(tmp_path / "root")]) == 2
    assert "--job-id" in capsys.readouterr().err


def test_an_error_in_the_users_file_is_shown_with_their_own_traceback_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "broken.py"
    path.write_text("def load():\n    return {}['orders']\n\nload()\n")
    assert main(["run", f"{path}:job", "--root", str(tmp_path / "root")]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback")
    assert f'File "{path}", line 4' in shown
    assert f'File "{path}", line 2, in load' in shown
    assert "KeyError: 'orders'" in shown
    assert "loading.py" not in shown
    assert "ckpt: error:" in shown


def test_a_missing_file_is_refused_without_a_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(tmp_path / "none.py:job"), "--root", "r"]) == 2
    shown = capsys.readouterr().err
    assert "none.py" in shown
    assert "Traceback" not in shown


def test_a_missing_module_is_refused_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "stop_session", lambda: None)  # keep the session of other tests in this process
    for more in ([], ["--job-id", "x"]):
        assert main(["run", "no_such_module:job", "--root", str(tmp_path / "root"), *more]) == 2
        shown = capsys.readouterr().err
        assert "Python finds no 'no_such_module'" in shown
        assert "ModuleNotFoundError" not in shown


def test_an_empty_job_id_is_refused(reference: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", reference, "--root", str(tmp_path / "root"), "--job-id", ""]) == 2
    assert "the job id '' is refused" in capsys.readouterr().err
