"""Claims of ``docs/security.md``, and its list of places that load code, start processes, send signals or delete."""

from __future__ import annotations

import ast
import os
import re
import stat
from collections import Counter
from pathlib import Path

import pytest

from airflow_provider_ckpt.client.job_client import JobClient, list_jobs
from airflow_provider_ckpt.client.reconfiguration_preview import Reconfiguration
from airflow_provider_ckpt.journal.events import PlanRecorded
from airflow_provider_ckpt.storage.local_storage import LocalStorage
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import check_root_of_run, open_root
from tests.client.running_job import DEFINITION, GRAPH, write_running_job
from tests.docs.dangerous_calls import Place, places, places_in
from tests.docs.examples import ROOT

PAGE = ROOT / "docs" / "security.md"
_ROW = re.compile(r"\| `(?P<file>[\w/]+\.py)` \| (?P<functions>`[^|]+`) \| (?P<kind>\w+) \| (?P<why>[^|]+) \|")


def listed() -> list[Place]:
    """Return the places that the page lists."""
    rows = _ROW.finditer(PAGE.read_text())
    return [
        Place(row["file"], name, row["kind"]) for row in rows for name in re.findall(r"`([^`]+)`", row["functions"])
    ]


def test_the_page_lists_exactly_the_dangerous_places() -> None:
    on_page = listed()
    assert not [place for place, times in Counter(on_page).items() if times > 1]
    assert sorted(places() - set(on_page)) == [], "add these to the page, with their limits"
    assert sorted(set(on_page) - places()) == [], "remove these from the page"


def test_deletions_of_a_sink_count_as_dangerous() -> None:
    tree = ast.parse("def clean(books):\n    books.delete_tree('staging')")
    assert [*places_in(tree, "sinks/a.py")] == [Place("sinks/a.py", "clean", "deletion")]
    assert [*places_in(tree, "jobmaster/a.py")] == []


Written = list[str]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Written:
    """Record the URIs that storages write to, or delete, from then on."""
    uris: Written = []

    def recorded(verb: str) -> None:
        real = getattr(LocalStorage, verb)

        def call(storage: LocalStorage, path: str, *given: bytes) -> object:
            uris.append(storage.full_uri(path))
            return real(storage, path, *given)

        monkeypatch.setattr(LocalStorage, verb, call)

    for verb in ("create", "replace", "delete", "delete_tree"):
        recorded(verb)
    return uris


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a root with a running job."""
    write_running_job(tmp_path / "root", PlanRecorded(GRAPH, {}, 1.0, DEFINITION))
    return tmp_path / "root"


def test_requests_of_a_client_are_written_to_the_requests_folder_only(root: Path, written: Written) -> None:
    del written[:]
    client = JobClient(str(root), "orders")
    client.stop()
    client.drain()
    client.reconfigure(Reconfiguration().assign_workload("daily", trigger_interval="1s"))
    client.upgrade("/opt/pipelines/orders_v2.py:job")
    assert len(written) == 4
    assert all(uri.startswith(f"file://{root}/orders/requests/") for uri in written), written


def test_reading_a_job_writes_nothing(root: Path, written: Written) -> None:
    del written[:]
    client = JobClient(str(root), "orders")
    client.state()
    client.read_state()
    list_jobs(str(root))
    assert written == []


def test_the_test_of_a_connection_writes_and_deletes_only_a_probe(root: Path, written: Written) -> None:
    del written[:]
    storage = open_storage(str(root))
    check_root_of_run(storage)
    storage.try_out()
    assert written
    assert all(uri.startswith(f"file://{root}/.probe-") for uri in written), written
    assert sorted(path.name for path in root.iterdir()) == ["ckpt-root.json", "orders"]


@pytest.mark.parametrize(("umask", "file", "folder"), [(0o077, 0o600, 0o700), (0o027, 0o640, 0o750)])
def test_files_have_the_mode_that_the_umask_leaves(tmp_path: Path, umask: int, file: int, folder: int) -> None:
    before = os.umask(umask)
    try:
        storage = open_root(open_storage(tmp_path / "root"))
        storage.create("orders/new", b"x")
        storage.replace("orders/replaced", b"x")
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "root").rglob("*")}
    assert modes == {"ckpt-root.json": file, "orders": folder, "new": file, "replaced": file}
    assert stat.S_IMODE((tmp_path / "root").stat().st_mode) == folder


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("importlib.import_module(name)", "code"),
        ("spec.loader.exec_module(module)", "code"),
        ("exec(text)", "code"),
        ("pickle.loads(data)", "code"),
        ("subprocess.run(['ls'])", "process"),
        ("subprocess.Popen(['ls'])", "process"),
        ("os.execv('ls', [])", "process"),
        ("os.kill(1, 9)", "signal"),
        ("process.terminate()", "signal"),
        ("shutil.rmtree(path)", "deletion"),
        ("os.remove(path)", "deletion"),
        ("self._fs.rm_file(path)", "deletion"),
        ("pathlib.Path(path).unlink()", "deletion"),
        ("re.compile('x')", None),
        ("found.remove(1)", None),
        ("job.run(options)", None),
    ],
)
def test_dangerous_calls_are_found(code: str, kind: str | None) -> None:
    tree = ast.parse(f"class A:\n    def b(self):\n        return [{code} for _ in ()]")
    assert [place.kind for place in places_in(tree, "a.py")] == ([] if kind is None else [kind])
    assert {place.function for place in places_in(tree, "a.py")} <= {"A.b"}
