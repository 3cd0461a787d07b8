"""Choice of the file used as a driver's class archive, and refusals."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from airflow_provider_ckpt.cli import main
from airflow_provider_ckpt.cli.doctor import check_class_archive
from airflow_provider_ckpt.jvm.archive_making import make
from airflow_provider_ckpt.jvm.class_archive import ClassArchive, archive_folder, class_archive
from airflow_provider_ckpt.jvm.errors import ForeignArchiveError
from airflow_provider_ckpt.jvm.jvm_environ import jvm_environ
from tests.jvm.conftest import write_archive

LAUNCHER = {"SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def made(archive: ClassArchive) -> Path:
    path = make(archive, write_archive)
    assert path is not None
    return path


def test_a_driver_starts_with_the_archive_and_keeps_the_options_of_its_user(
    environ: Mapping[str, str], archive: ClassArchive
) -> None:
    path = made(archive)
    added = jvm_environ({**environ, "SPARK_SUBMIT_OPTS": "-Da=b", "SPARK_LAUNCHER_OPTS": "-Dc=d"})
    shared = f'-Xshare:auto -Xlog:cds*=off -XX:+VerifySharedSpaces "-XX:SharedArchiveFile={path}"'
    assert added == {"SPARK_SUBMIT_OPTS": f"{shared} -Da=b"}


def test_a_driver_starts_without_an_archive_where_there_is_none(environ: Mapping[str, str]) -> None:
    assert jvm_environ(environ) == LAUNCHER


@pytest.mark.parametrize("name", ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"])
@pytest.mark.parametrize("collector", ["-XX:+UseG1GC", "-XX:+UseParallelGC", "-XX:+UseZGC", "-XX:-UseSerialGC"])
def test_a_collector_that_every_jvm_is_given_is_not_given_another(
    environ: Mapping[str, str], name: str, collector: str
) -> None:
    """The JVM would not start: "Multiple garbage collectors selected"."""
    added = jvm_environ({**environ, name: f"-XX:MaxRAMPercentage=75 {collector}"})
    assert added == {"SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1"}


def test_a_link_to_a_folder_that_no_jvm_can_be_told_is_none(tmp_path: Path) -> None:
    (tmp_path / 'q"q').mkdir()
    (tmp_path / "link").symlink_to(tmp_path / 'q"q')
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name in ("link", "link/in", "loop", "loop/in"):
        assert archive_folder({"CKPT_CLASS_ARCHIVE": str(tmp_path / name)}) is None, name


def test_a_driver_of_a_machine_without_java_is_given_nothing(environ: Mapping[str, str], tmp_path: Path) -> None:
    assert jvm_environ({**environ, "JAVA_HOME": "/nowhere"}) == {}
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert jvm_environ({**environ, "JAVA_HOME": str(loop)}) == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CKPT_CLASS_ARCHIVE", "off"),
        ("SPARK_SUBMIT_OPTS", "-Xshare:off"),
        ("JAVA_TOOL_OPTIONS", "-XX:SharedArchiveFile=mine.jsa"),
        ("PYSPARK_SUBMIT_ARGS", "--driver-java-options -XX:+AutoCreateSharedArchive pyspark-shell"),
        ("PYSPARK_SUBMIT_ARGS", "--properties-file mine.conf pyspark-shell"),
    ],
)
def test_whoever_has_switched_it_off_or_chosen_what_is_shared_keeps_that(
    environ: Mapping[str, str], archive: ClassArchive, name: str, value: str
) -> None:
    made(archive)
    assert jvm_environ({**environ, name: value}) == LAUNCHER


@pytest.mark.parametrize("option", ["-Xshare:on", "-XX:ArchiveClassesAtExit=a", "-XX:AOTCache=a"])
def test_options_in_settings_of_spark_are_seen_too(
    environ: Mapping[str, str], archive: ClassArchive, option: str
) -> None:
    made(archive)
    assert "SPARK_SUBMIT_OPTS" not in jvm_environ(environ, [f"-Da=b {option}"])
    assert "SPARK_SUBMIT_OPTS" in jvm_environ(environ, ["-Da=b"])


def test_no_archive_is_given_while_the_folder_of_settings_is_not_empty(
    environ: Mapping[str, str], archive: ClassArchive
) -> None:
    made(archive)
    archive.spark.conf.mkdir()
    assert "SPARK_SUBMIT_OPTS" in jvm_environ(environ)
    (archive.spark.conf / "log4j2.properties").touch()
    assert "SPARK_SUBMIT_OPTS" not in jvm_environ(environ)


def test_an_archive_that_was_cut_short_is_none(environ: Mapping[str, str], archive: ClassArchive) -> None:
    path = made(archive)
    os.truncate(path, 3)
    assert archive.find() is None
    assert jvm_environ(environ) == LAUNCHER


@pytest.mark.parametrize("where", ["file", "folder"])
@pytest.mark.parametrize("right", [0o020, 0o002])
def test_what_others_can_write_is_refused(
    environ: Mapping[str, str], archive: ClassArchive, caplog: pytest.LogCaptureFixture, where: str, right: int
) -> None:
    path = made(archive)
    place = path if where == "file" else path.parent
    place.chmod(place.stat().st_mode | right)
    with pytest.raises(ForeignArchiveError, match="may be written to by others"):
        archive.find()
    assert jvm_environ(environ) == LAUNCHER
    assert "may be written to by others" in caplog.text


@pytest.mark.parametrize("where", ["file", "folder", "above"])
def test_what_belongs_to_another_user_is_refused(
    archive: ClassArchive, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    path = made(archive)
    assert archive.find() == path
    theirs = {"file": path, "folder": path.parent, "above": path.parent.parent}[where]
    belongs_to(4711, theirs, monkeypatch)
    with pytest.raises(ForeignArchiveError, match=r"belongs to another user \(uid 4711\)"):
        archive.find()


def test_what_belongs_to_root_is_taken(archive: ClassArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(archive)
    for one in (path, *path.parents):
        belongs_to(0, one, monkeypatch)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert archive.find() == path


def belongs_to(user: int, theirs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fake the owner of a file, because only root could change it."""
    before = Path.lstat

    def lstat(path: Path) -> os.stat_result:
        found = list(before(path))
        if path == theirs:
            found[4] = user
        return os.stat_result(found)

    monkeypatch.setattr(Path, "lstat", lstat)


def test_a_folder_above_that_everybody_writes_to_is_refused_unless_it_is_sticky(archive: ClassArchive) -> None:
    path = made(archive)
    above = path.parent.parent
    above.chmod(0o1777)
    assert archive.find() == path
    above.chmod(0o777)
    with pytest.raises(ForeignArchiveError):
        archive.find()


def test_a_link_is_no_archive(archive: ClassArchive) -> None:
    path = made(archive)
    path.rename(path.with_suffix(".other"))
    path.symlink_to(path.with_suffix(".other"))
    assert archive.find() is None


def test_other_jars_and_another_java_need_another_archive(
    environ: Mapping[str, str], archive: ClassArchive, tmp_path: Path
) -> None:
    def stem() -> str:
        found = class_archive(environ)
        assert found is not None
        return found.stem

    stems = [stem(), stem()]
    assert stems[0] == stems.pop()
    assert stems[0].startswith("spark-4.2.0-java-17.0.15-")
    jars = tmp_path / "spark" / "jars"
    (jars / "mine.jar").write_text("a")
    stems.append(stem())
    (jars / "mine.jar").write_text("ab")
    stems.append(stem())
    os.utime(jars / "mine.jar", (1, 1))
    stems.append(stem())
    release = tmp_path / "java" / "release"
    release.write_text(release.read_text().replace("+6", "+7"))
    stems.append(stem())
    release.write_text(release.read_text().replace("Debian", "Eclipse Adoptium"))
    stems.append(stem())
    assert len(set(stems)) == len(stems) == 6


def test_the_folder_is_in_the_users_cache_unless_it_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    inside = Path("airflow-provider-ckpt/class-archives")
    assert archive_folder({}) == tmp_path / ".cache" / inside
    assert archive_folder({"XDG_CACHE_HOME": "/var/cache/me"}) == Path("/var/cache/me") / inside
    assert archive_folder({"XDG_CACHE_HOME": "not/absolute"}) == tmp_path / ".cache" / inside
    assert archive_folder({"CKPT_CLASS_ARCHIVE": "~/here"}) == tmp_path / "here"
    assert archive_folder({"CKPT_CLASS_ARCHIVE": "/a:b"}) is None  # the JVM would read it as two archives


def test_the_doctor_says_whether_there_is_one(
    environ: Mapping[str, str], archive: ClassArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert "`ckpt class-archive` makes one" in check_class_archive().text
    path = made(archive)
    assert (check_class_archive().verdict, check_class_archive().text) == ("ok", str(path))
    path.chmod(0o666)
    assert "not used" in check_class_archive().text
    monkeypatch.setenv("CKPT_CLASS_ARCHIVE", "off")
    assert "switched off" in check_class_archive().text


def test_the_command_says_whether_there_is_one(
    environ: Mapping[str, str],
    archive: ClassArchive,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert main(["class-archive", "--look", "--json"]) == 1
    path = made(archive)
    left = path.with_name(f"{archive.stem}.7.tmp")
    left.write_bytes(b"of one that was killed")
    os.utime(left, (1.0, 1.0))
    assert main(["class-archive", "--look", "--json"]) == 0
    assert left.exists(), "whoever looks deletes nothing"
    assert main(["class-archive"]) == 0
    assert not left.exists()
    monkeypatch.setenv("CKPT_CLASS_ARCHIVE", "off")
    assert main(["class-archive"]) == 2
    said = capsys.readouterr()
    assert said.out.splitlines()[0] == '{"path": null, "made": false}'
    assert said.out.count(str(path)) == 2
    assert "CKPT_CLASS_ARCHIVE is off" in said.err


@pytest.mark.parametrize("flags", [["--look"], []])
def test_a_folder_that_may_not_be_looked_into_is_named(
    environ: Mapping[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], flags: list[str]
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)

    def denied(self: ClassArchive) -> Path:
        raise PermissionError(13, "Permission denied", str(self.folder))

    monkeypatch.setattr(ClassArchive, "find", denied)
    assert main(["class-archive", *flags]) == 2
    assert "cannot be read: [Errno 13] Permission denied" in capsys.readouterr().err
