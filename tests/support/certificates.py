"""Certificate authority for tests, and the certificates that it signs, made with openssl."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

NOT_INSTALLED = "openssl is not installed: apt-get install openssl"


def is_openssl_installed() -> bool:
    return shutil.which("openssl") is not None


@dataclass(frozen=True)
class Keys:
    """PEM files of a certificate and its key."""

    certificate: Path
    key: Path

    def copied(self, folder: Path, owner: str | None) -> Keys:
        """Copy the files to ``folder``, readable only by the user ``owner``, or by this process's user if None."""
        copy = Keys(folder / "server.pem", folder / "server.key")
        for source, target in ((self.certificate, copy.certificate), (self.key, copy.key)):
            shutil.copyfile(source, target)
            target.chmod(0o600)
            if owner is not None:
                shutil.chown(target, owner)
        return copy


class Authority:
    """Certificate authority that writes its files to ``folder``. Several may share a folder under different names."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder, self._name = folder, name
        self.keys = Keys(folder / f"{name}.pem", folder / f"{name}.key")
        options = ["-subj", f"/CN={name} of tests", "-addext", "basicConstraints=critical,CA:TRUE"]
        options += ["-addext", "keyUsage=critical,keyCertSign,cRLSign"]
        _openssl("req", "-x509", *_new_key(self.keys.key), "-days", "2", *options, "-out", str(self.keys.certificate))

    def signed(self, name: str, alternative: str = "IP:127.0.0.1") -> Keys:
        """Return a server's signed certificate. ``alternative`` is the name that clients know the server by."""
        keys = Keys(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        request, extension = self._folder / f"{name}.csr", self._folder / f"{name}.ext"
        extension.write_text(f"subjectAltName={alternative}\nextendedKeyUsage=serverAuth\n")
        _openssl("req", "-new", *_new_key(keys.key), "-subj", f"/CN={name}", "-out", str(request))
        by = ["-CA", str(self.keys.certificate), "-CAkey", str(self.keys.key), "-CAcreateserial"]
        options = ["-in", str(request), "-extfile", str(extension), "-days", "2", "-out", str(keys.certificate)]
        _openssl("x509", "-req", *by, *options)
        return keys


def _new_key(path: Path) -> list[str]:
    return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", str(path)]


def _openssl(*words: str) -> None:
    done = subprocess.run(["openssl", *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    assert done.returncode == 0, done.stderr
