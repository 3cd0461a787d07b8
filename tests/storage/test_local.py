"""The local backend (R17: temporary file, fsync, link, fsync of the folder)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_ckpt.errors import AlreadyExistsError, StorageFailedError
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from tests.storage.conformance import StorageConformance

UNPRIVILEGED = 65534


class TestLocalStorage(StorageConformance):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return open_storage(str(tmp_path / "root"))

    def test_a_hard_link_makes_the_copy(self, storage: Storage, tmp_path: Path) -> None:
        storage.create("a", b"x")
        storage.copy("a", "b/c")
        assert os.path.samefile(tmp_path / "root/a", tmp_path / "root/b/c")

    def test_r17_a_writer_killed_before_the_link_leaves_no_entry(self, storage: Storage, tmp_path: Path) -> None:
        # The child dies by os._exit in the link call, when its temporary file is written.
        program = (
            "import os, sys\n"
            "from airflow_provider_ckpt.storage.opening import open_storage\n"
            "os.link = lambda *names: os._exit(9)\n"
            "open_storage(sys.argv[1]).create('log/00000000.json', b'half')\n"
        )
        root = str(tmp_path / "root")
        assert subprocess.run([sys.executable, "-c", program, root], check=False).returncode == 9
        left = os.listdir(tmp_path / "root/log")
        assert len(left) == 1
        assert left[0].startswith(".")
        assert storage.list("log") == []
        storage.create("log/00000000.json", b"whole")
        assert storage.read("log/00000000.json") == b"whole"

    def test_no_temporary_file_is_left_behind(self, storage: Storage, tmp_path: Path) -> None:
        storage.create("a", b"x")
        with pytest.raises(AlreadyExistsError):
            storage.create("a", b"y")
        storage.replace("a", b"z")
        storage.copy("a", "b")
        storage.copy("a", "b")
        storage.move("b", "c")
        assert sorted(os.listdir(tmp_path / "root")) == ["a", "c"]

    def test_a_file_where_a_folder_should_be_is_told(self, storage: Storage) -> None:
        storage.create("a", b"x")
        with pytest.raises(StorageFailedError, match="a file is where a folder should be"):
            storage.create("a/b", b"")

    def test_a_root_below_a_file_is_told_by_the_probe(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(StorageFailedError, match=str(tmp_path / "file")):
            open_storage(tmp_path / "file" / "root").probe()

    def test_a_read_only_folder_is_told_by_the_probe(self, tmp_path: Path) -> None:
        folder = tmp_path / "locked"
        folder.mkdir(mode=0o555)
        for parent in [tmp_path, *list(tmp_path.parents)[:3]]:
            parent.chmod(0o755)
        program = (
            "import os, sys\n"
            "from airflow_provider_ckpt.errors import StorageReadOnlyError\n"
            "from airflow_provider_ckpt.storage.local import LocalStorage\n"
            "if os.geteuid() == 0:\n"
            f"    os.setuid({UNPRIVILEGED})\n"
            "try:\n"
            "    LocalStorage(sys.argv[1]).probe()\n"
            "except StorageReadOnlyError as error:\n"
            "    print(error)\n"
        )
        done = subprocess.run([sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=True)
        assert str(folder) in done.stdout
        assert "must be able to create" in done.stdout
