"""A class archive: its creation, its use by a driver, and refusals. The JVMs are fake programs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from airflow_provider_ckpt.cli import main
from airflow_provider_ckpt.cli.doctor import check_class_archive
from airflow_provider_ckpt.jvm import class_archive as launched
from airflow_provider_ckpt.jvm.class_archive import ClassArchive, archive_folder, class_archive, make
from airflow_provider_ckpt.jvm.errors import ArchiveNotMadeError, ForeignArchiveError, NoClassArchiveError
from airflow_provider_ckpt.jvm.jvm_environ import jvm_environ
from tests.jvm.conftest import TRAINING, train, write_submit

LAUNCHER = {"SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1"}


def test_an_archive_gets_its_name_after_it_is_tried_and_synced(
    archive: ClassArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_submit(archive.spark.folder, f'ls {archive.folder} > "{archive.folder}/tried"')
    seen: list[Path | None] = []
    monkeypatch.setattr(launched, "sync_file", lambda path: seen.append(archive.find()))
    path = make(archive)
    assert seen == [None]
    assert (archive.folder / "tried").read_text().splitlines()[0].startswith("making-")
    assert ".jsa" not in (archive.folder / "tried").read_text()
    assert sorted(archive.folder.iterdir()) == [path, archive.folder / "tried"]
    assert archive.find() == path
    assert path.name == f"{archive.stem}.7.jsa"


def test_a_new_archive_replaces_the_previous_archive(archive: ClassArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    assert make(archive) == make(archive)
    train(monkeypatch, TRAINING.replace("classes", "more classes"))
    path = make(archive)
    assert archive.files() == [path]
    assert path.read_text() == "more classes"


def test_an_archive_that_another_process_makes_is_kept(archive: ClassArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = archive.folder / f"{archive.stem}.2.jsa"
    train(monkeypatch, f"{TRAINING}\nopen({str(theirs)!r}, 'w').write('ab')")
    path = make(archive)
    assert sorted(archive.files()) == sorted([path, theirs])


@pytest.mark.parametrize(
    ("training", "trial", "match"),
    [
        (TRAINING, "echo of the JVM; exit 1", r"--version failed \(1\): of the JVM"),
        ("print('No space left')", "exit 0", "wrote no archive: No space left"),
        (f"{TRAINING}\nsys.exit('no Spark')", "exit 0", r"failed \(1\): no Spark"),
    ],
    ids=["trial", "writing", "training"],
)
def test_no_archive_is_left_if_it_cannot_be_made(
    archive: ClassArchive, monkeypatch: pytest.MonkeyPatch, training: str, trial: str, match: str
) -> None:
    train(monkeypatch, training)
    write_submit(archive.spark.folder, trial)
    with pytest.raises(ArchiveNotMadeError, match=match):
        make(archive)
    assert list(archive.folder.iterdir()) == []


def test_no_archive_is_made_while_the_folder_of_settings_has_a_file(
    environ: Mapping[str, str], archive: ClassArchive
) -> None:
    make(archive)
    archive.spark.conf.mkdir()
    (archive.spark.conf / "spark-defaults.conf").touch()
    with pytest.raises(NoClassArchiveError, match="class path"):
        make(archive)
    assert jvm_environ(environ) == LAUNCHER  # the previous archive is for an empty folder


def test_a_driver_starts_with_the_archive_and_the_users_options(
    environ: Mapping[str, str], archive: ClassArchive
) -> None:
    assert jvm_environ(environ) == LAUNCHER
    path = make(archive)
    added = jvm_environ({**environ, "SPARK_SUBMIT_OPTS": "-Da=b", "SPARK_LAUNCHER_OPTS": "-Dc=d"})
    shared = f'-Xlog:cds*=off -XX:+VerifySharedSpaces "-XX:SharedArchiveFile={path}"'
    assert added == {"SPARK_SUBMIT_OPTS": f"{shared} -Da=b"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CKPT_CLASS_ARCHIVE", "off"),
        ("JAVA_HOME", "/nowhere"),
        ("SPARK_SUBMIT_OPTS", "-Xshare:off"),
        ("JAVA_TOOL_OPTIONS", "-XX:SharedArchiveFile=mine.jsa"),
        ("PYSPARK_SUBMIT_ARGS", "--driver-java-options -XX:+AutoCreateSharedArchive pyspark-shell"),
        ("given", "-Da=b -XX:ArchiveClassesAtExit=a"),
        ("given", "-XX:AOTCache=a"),
    ],
)
def test_a_driver_has_no_archive_if_the_user_disables_it(
    environ: Mapping[str, str], archive: ClassArchive, name: str, value: str
) -> None:
    make(archive)
    assert "SPARK_SUBMIT_OPTS" in jvm_environ(environ, ["-Da=b"])
    assert jvm_environ({**environ, name: value}, [value] if name == "given" else []) == LAUNCHER


def test_a_truncated_archive_is_not_used(environ: Mapping[str, str], archive: ClassArchive) -> None:
    os.truncate(make(archive), 3)
    assert jvm_environ(environ) == LAUNCHER


@pytest.mark.parametrize("right", [0o020, 0o002])
@pytest.mark.parametrize("where", ["file", "folder"])
def test_an_archive_that_others_can_write_is_refused(
    environ: Mapping[str, str], archive: ClassArchive, caplog: pytest.LogCaptureFixture, where: str, right: int
) -> None:
    path = make(archive)
    place = path if where == "file" else path.parent
    place.chmod(place.stat().st_mode | right)
    with pytest.raises(ForeignArchiveError, match="may be written to by others"):
        archive.find()
    assert jvm_environ(environ) == LAUNCHER
    assert "may be written to by others" in caplog.text
    if where == "folder":
        with pytest.raises(ForeignArchiveError):
            make(archive)


@pytest.mark.parametrize("where", ["file", "folder", "above"])
def test_an_archive_of_another_user_is_refused(
    archive: ClassArchive, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    path = make(archive)
    theirs = {"file": path, "folder": path.parent, "above": path.parent.parent}[where]
    fake_owner(4711, [theirs], monkeypatch)
    with pytest.raises(ForeignArchiveError, match=r"belongs to another user \(uid 4711\)"):
        archive.find()


def test_an_archive_of_root_is_used(archive: ClassArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(archive)
    fake_owner(0, [path, *path.parents], monkeypatch)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert archive.find() == path


def fake_owner(user: int, places: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Fake the owner of files, because only root could change it."""
    before = Path.lstat

    def lstat(path: Path) -> os.stat_result:
        fields = list(before(path))
        fields[4] = user if path in places else fields[4]
        return os.stat_result(fields)

    monkeypatch.setattr(Path, "lstat", lstat)


def test_a_world_writable_parent_folder_is_refused_unless_it_is_sticky(archive: ClassArchive) -> None:
    path = make(archive)
    above = path.parent.parent
    above.chmod(0o1777)
    assert archive.find() == path
    above.chmod(0o777)
    with pytest.raises(ForeignArchiveError):
        archive.find()


def test_other_jars_and_another_java_need_another_archive(environ: Mapping[str, str], tmp_path: Path) -> None:
    jar, release = tmp_path / "spark" / "jars" / "mine.jar", tmp_path / "java" / "release"
    stems = [stem_of(environ)]
    for change in (
        lambda: jar.write_text("a"),
        lambda: jar.write_text("ab"),
        lambda: os.utime(jar, (1, 1)),
        lambda: release.write_text(release.read_text().replace("+6", "+7")),
    ):
        change()
        stems.append(stem_of(environ))
    assert len(set(stems)) == 5
    assert stems[0].startswith("spark-4.2.0-java-17.0.15-")
    assert stem_of(environ) == stems[-1]


def stem_of(environ: Mapping[str, str]) -> str:
    archive = class_archive(environ)
    assert archive is not None
    return archive.stem


def test_the_folder_is_in_the_users_cache_unless_it_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / 'q"q').mkdir()
    (tmp_path / "link").symlink_to(tmp_path / 'q"q')
    inside = Path("airflow-provider-ckpt/class-archives")
    assert archive_folder({}) == tmp_path / ".cache" / inside
    assert archive_folder({"XDG_CACHE_HOME": "/var/cache/me"}) == Path("/var/cache/me") / inside
    assert archive_folder({"XDG_CACHE_HOME": "not/absolute"}) == tmp_path / ".cache" / inside
    assert archive_folder({"CKPT_CLASS_ARCHIVE": "~/here"}) == tmp_path / "here"
    assert archive_folder({"CKPT_CLASS_ARCHIVE": "/a:b"}) is None  # the JVM would read it as two archives
    assert archive_folder({"CKPT_CLASS_ARCHIVE": str(tmp_path / "link")}) is None


def test_the_command_and_the_doctor_report_the_archive(
    environ: Mapping[str, str],
    archive: ClassArchive,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    expected = str(archive.folder / f"{archive.stem}.7.jsa")
    steps = [("--check", 1, None, False), ("", 0, expected, True), ("--check", 0, expected, False)]
    steps += [("", 0, expected, False), ("--force", 0, expected, True)]
    assert "`ckpt class-archive` makes one" in check_class_archive().text
    for flag, code, path, is_made in steps:
        assert main(["class-archive", "--json", *flag.split()]) == code
        assert json.loads(capsys.readouterr().out) == {"path": path, "made": is_made}, flag
    assert (check_class_archive().verdict, check_class_archive().text) == ("ok", expected)
    Path(expected).chmod(0o666)
    assert "not used" in check_class_archive().text
    assert main(["class-archive"]) == 2
    monkeypatch.setenv("CKPT_CLASS_ARCHIVE", "off")
    assert "switched off" in check_class_archive().text
    assert main(["class-archive"]) == 2
    assert "CKPT_CLASS_ARCHIVE is off" in capsys.readouterr().err
