"""Imports go down only, in every folder, also those inside functions; and there is no cycle."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import airflow_provider_ckpt
from airflow_provider_ckpt.model.job_status import JobStatus

NAME = "airflow_provider_ckpt"
PACKAGE = Path(airflow_provider_ckpt.__file__).parent
LAYERS = (
    ("operators", "sensors", "get_provider_info", "cli", "testing"),
    ("triggers",),
    ("hooks",),
    ("spark",),
    ("spark.preparation",),
    ("spark.task.bounded",),
    ("spark.task.streaming",),
    ("spark.task",),
    ("spark.plan",),
    ("spark.app",),
    ("spark.query.sources",),
    ("spark.query",),
    ("spark.query.kafka",),
    ("client", "remote"),
    ("jobmaster", "task"),
    ("jobmaster.retention",),
    ("jobmaster.recovery",),
    ("jobmaster.release",),
    ("packaging", "status", "sparkfiles"),
    ("sinks.postgres", "sinks.sql"),
    ("sinks.database",),
    ("sinks.delta", "sinks.iceberg"),
    ("sinks.lake",),
    ("sinks.kafka",),
    ("sinks.file",),
    ("sinks",),
    ("gates",),
    ("coordinator",),
    ("coordinator.checkpoints",),
    ("coordinator.state",),
    ("coordinator.protocol",),
    ("jvm",),
    ("job.loading",),
    ("job",),
    ("job.options",),
    ("subtasklog",),
    ("journal",),
    ("journal.kinds",),
    ("connections",),
    ("storage.log",),
    ("storage",),
    ("concurrency",),
    ("model",),
    ("errors",),
    ("printable",),
)
"""Layers from the top, with folders in folders. The folders of a line do not import each other."""
AIRFLOW = {"operators", "sensors", "triggers", "hooks"}
HEAVY = {
    "airflow": AIRFLOW,
    "pyspark": {"spark", "testing"},
    "py4j": {"spark"},
    "fsspec": {"storage"},
    "pgpq": {"sinks"},
    "psycopg": {"sinks"},
    "sqlalchemy": {"sinks"},
    "pymysql": {"sinks"},
    "deltalake": {"sinks"},
    "pyiceberg": {"sinks"},
}
"""Third party -> the folders that may import it."""
RANK = {folder: rank for rank, line in enumerate(LAYERS) for folder in line}


def layer_of(module: str) -> str:
    """Return the layer of a module, or "" for the package itself.

    ``airflow_provider_ckpt.spark.query.analysed_plan`` -> ``spark.query``
    """
    inside = module.partition(".")[2]
    while inside and inside not in RANK:
        inside = inside.rpartition(".")[0]
    return inside


def folder_of(module: str) -> str:
    """Return the top folder of a module: ``airflow_provider_ckpt.spark.query.analysed_plan`` -> ``spark``."""
    return layer_of(module).partition(".")[0]


def module_of(path: Path) -> str:
    parts = list(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path, *, typing_too: bool = True) -> Iterator[tuple[int, str]]:
    """Yield (line, module). Imports under ``if TYPE_CHECKING`` never run."""
    checked = [node for node in nodes(path) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    skipped = {id(node) for block in checked for node in ast.walk(block)} if not typing_too else set()
    for node in nodes(path):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield node.lineno, whole if whole in MODULES else node.module
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text())))


FILES = sorted(PACKAGE.rglob("*.py"))
MODULES = {module_of(path): path for path in FILES}


@cache
def all_imports() -> list[tuple[Path, int, str]]:
    return [(path, line, module) for path in FILES for line, module in imports(path)]


def test_an_upward_import_is_noticed() -> None:
    assert is_upward(PACKAGE / "coordinator" / "new.py", f"{NAME}.spark.app.session")
    assert not is_upward(PACKAGE / "spark" / "new.py", f"{NAME}.coordinator.protocol.checkpoint_options")
    assert len(all_imports()) > 1000


def test_every_folder_has_a_layer() -> None:
    folders = {path.parent.relative_to(PACKAGE).as_posix().replace("/", ".") for path in FILES} - {"."}
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    assert folders | modules == set(RANK)


def is_upward(path: Path, module: str) -> bool:
    mine = layer_of(module_of(path))
    theirs = layer_of(module) if module.partition(".")[0] == NAME else ""
    # the package has no layer: its names are imported when they are used
    if module.endswith(".errors") and mine.startswith(f"{theirs}."):
        return False  # a folder's errors lie below its sub-folders, too
    return bool(mine and theirs and theirs != mine) and RANK[theirs] < RANK[mine]


def test_imports_go_only_downwards() -> None:
    assert [f"{path}:{line} imports {module}" for path, line, module in all_imports() if is_upward(path, module)] == []


def test_third_parties_are_imported_only_in_their_folders() -> None:
    misplaced = [
        f"{path}:{line} imports {module}"
        for path in FILES
        for line, module in imports(path, typing_too=False)
        if folder_of(module_of(path)) not in HEAVY.get(module.partition(".")[0], {folder_of(module_of(path))})
    ]
    assert misplaced == []


LATE = {
    "cli.check": "as cli.run",
    "cli.plan": "as cli.run",
    "cli.run": "PySpark may be absent, and takes half a second: only `ckpt run` needs it",
    "cli.worker": "as cli.run",
    "operators.pointer": "as triggers.job_master, of the journal",
    "hooks.checkpoint": "as triggers.job_master, of the journal",
    "client.job_client": "sinks take a tenth of a second, which every DAG file would pay: only a release needs them",
    "client.job_view": "as client.job_client: only a client that reads results needs them",
    "operators.triggerer_support": "as triggers.job_master: only the task that runs a JobMaster needs its sinks",
    "triggers.awaited_master": "as triggers.job_master, of the journal",
    "triggers.job_master": "as above, of the triggerer",
    "sinks.postgres.copying": "code on executors imports its modules there",
    "sinks.postgres.postgres_sink": "psycopg may be absent: only a process that hosts the sink needs it",
    "sinks.sql.inserting": "as sinks.postgres.copying",
    "sinks.sql.sql_sink": "as sinks.postgres.postgres_sink, of SQLAlchemy and PyMySQL",
    "spark.task.over_partitions": "as sinks.postgres.copying",
    "sinks.delta.delta_table": "deltalake may be absent: only a DeltaSink needs it",
    "sinks.iceberg.iceberg_sink": "pyiceberg may be absent: only an IcebergSink needs it",
    "sinks.iceberg.iceberg_schema": "as sinks.iceberg.iceberg_sink",
    "sinks.iceberg.iceberg_table": "as sinks.iceberg.iceberg_sink",
    "sinks.iceberg.replaced_rows": "as sinks.iceberg.iceberg_sink",
    "sinks.lake.staged_rows": "pyarrow may be absent, and takes a while: few sinks need it",
    "sinks.kafka.calls": "confluent-kafka may be absent: only a KafkaSink needs it",
    "sinks.kafka.staging": "pyarrow, as sinks.parquet_footers",
    "sinks.parquet_footers": "pyarrow may be absent: only a FileSink of Parquet needs it",
    "hooks.kubernetes_drivers": "the provider for Kubernetes may be absent: only a deferred task there needs it",
    "hooks.yarn_applications": "requests-kerberos may be absent: only a deferred task on a YARN with Kerberos needs it",
    "spark.task.outputs": "pyarrow may be absent, and is done without",
    "storage.opening": "fsspec may be absent: only an opened storage is imported",
}
"""The modules with imports inside functions, and why these are not at the top."""


def test_an_import_inside_a_function_has_a_reason() -> None:
    late = {module_of(path).removeprefix(f"{NAME}.") for path in FILES if imports_late(path)}
    assert late == set(LATE)


def imports_late(path: Path) -> bool:
    functions = [node for node in nodes(path) if isinstance(node, ast.FunctionDef)]
    return any(isinstance(node, ast.Import | ast.ImportFrom) for function in functions for node in ast.walk(function))


FROM_OUTSIDE = {*AIRFLOW, "cli"}
INSIDE = {f"{NAME}.journal.journal", f"{NAME}.journal.request_files"}


def test_airflow_and_the_command_line_read_a_job_through_the_client() -> None:
    outside = [
        (path, line, module) for path, line, module in all_imports() if folder_of(module_of(path)) in FROM_OUTSIDE
    ]
    assert outside
    assert set(MODULES) >= INSIDE
    assert [f"{path}:{line} imports {module}" for path, line, module in outside if module in INSIDE] == []


@cache
def texts() -> list[tuple[Path, str]]:
    constants = [(path, node.value) for path in FILES for node in nodes(path) if isinstance(node, ast.Constant)]
    return [(path, value) for path, value in constants if isinstance(value, str)]


def test_a_job_status_is_written_as_text_in_one_place() -> None:
    """Other modules compare the enum. YARN has its own words for its applications."""
    statuses = set(JobStatus)
    written = {module_of(path) for path, value in texts() if value in statuses}
    assert written == {f"{NAME}.model.job_status", f"{NAME}.hooks.yarn_applications"}


def test_the_prefix_of_status_lines_is_in_one_module() -> None:
    assert {module_of(path) for path, value in texts() if value == "CKPT "} == {f"{NAME}.status.status_line"}


def test_modules_do_not_import_each_other_in_a_cycle() -> None:
    graph = {
        module: {to for _, to in imports(path) if to in MODULES and to != module} for module, path in MODULES.items()
    }
    graph.pop(NAME)
    list(graphlib.TopologicalSorter(graph).static_order())  # raises CycleError, which names them


def test_no_folder_has_more_than_15_percent_of_the_lines() -> None:
    """A larger folder should be split. Folders in ``spark/`` count separately."""
    lines = {path: len(path.read_text().splitlines()) for path in FILES}
    folders = {path.parent for path in FILES}
    shares = {
        str(folder.relative_to(PACKAGE)): sum(n for path, n in lines.items() if path.parent == folder)
        / sum(lines.values())
        for folder in folders
    }
    assert {folder: round(share, 3) for folder, share in shares.items() if share > 0.15} == {}
