"""The demo's command. ``make demo``, which CI runs, plays the whole story."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from dags_examples.demo import main
from dags_examples.demo_support.airflow_home import EXAMPLES
from dags_examples.demo_support.processes import lives


def test_the_demo_explains_how_to_install_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert main(["--workdir", str(tmp_path / "work")]) == 1
    output = capsys.readouterr().err
    assert "was not found" in output
    assert "apt-get install openjdk-17-jre-headless" in output
    assert not (tmp_path / "work").exists()


def test_a_folder_with_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(SystemExit, match="is not empty"):
        main(["--workdir", str(tmp_path)])
    assert (tmp_path / "mine").exists()


@pytest.mark.slow
@pytest.mark.airflow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_no_processes_or_files(number: signal.Signals, tmp_path: Path) -> None:
    workdir = tmp_path / "work"
    demo = subprocess.Popen(
        [sys.executable, "-m", "dags_examples.demo", "--workdir", str(workdir)],
        cwd=EXAMPLES.parent,
        stdout=subprocess.PIPE,
        text=True,
        # a shell starts background jobs with SIGINT ignored, and children inherit that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert demo.stdout is not None
    try:
        output = next(line for line in demo.stdout if "Airflow runs the Dag flights" in line)
        children = psutil.Process(demo.pid).children()
        demo.send_signal(number)
        output += demo.stdout.read()
        assert demo.wait(60) == 130, output
    finally:
        demo.kill()
        demo.wait()
    assert children
    assert not [child for child in children if lives(child)]
    assert not workdir.exists()


@pytest.mark.slow
@pytest.mark.airflow
def test_a_killed_demo_ends_its_dag_run(tmp_path: Path) -> None:
    workdir = tmp_path / "work"
    demo = subprocess.Popen(
        [sys.executable, "-m", "dags_examples.demo", "--workdir", str(workdir)],
        cwd=EXAMPLES.parent,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert demo.stdout is not None
    try:
        next(line for line in demo.stdout if "Airflow runs the Dag flights" in line)
        children = psutil.Process(demo.pid).children()
    finally:
        os.kill(demo.pid, signal.SIGKILL)
        demo.wait()
    assert children
    deadline = time.monotonic() + 60
    while any(lives(child) for child in children):
        assert time.monotonic() < deadline
        time.sleep(0.02)
