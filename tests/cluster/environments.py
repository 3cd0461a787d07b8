"""Python environments with very few packages, like a cluster's."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path


def borrowed(folder: Path, *packages: str) -> Path:
    """Create an environment with only these packages of the running one. Return its Python.

    The packages are links, so nothing is downloaded, and the tests use the same versions.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    site = next(folder.glob("lib/python*/site-packages"))
    for package in packages:
        spec = importlib.util.find_spec(package)
        assert spec is not None, package
        assert spec.submodule_search_locations, package
        origin = Path(next(iter(spec.submodule_search_locations)))
        (site / origin.name).symlink_to(origin)
    return folder / "bin" / "python"


def installed(folder: Path, *requirements: str) -> Path:
    """Create an environment with these requirements, from the package index. Return its Python."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    installer = [str(python), "-m", "pip", "install", "--quiet"]
    if importlib.util.find_spec("uv") is not None:  # uv installs from its cache
        installer = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", str(python)]
    subprocess.run([*installer, *requirements], check=True, timeout=900)
    return python


def importable(python: Path, *modules: str) -> list[str]:
    """Return the modules that the Python finds, without the shell's PYTHONPATH."""
    code = "import importlib.util, sys; print(*[m for m in sys.argv[1:] if importlib.util.find_spec(m)])"
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    process = subprocess.run(
        [str(python), "-c", code, *modules], capture_output=True, text=True, check=True, env=environ, cwd=python.parent
    )
    return process.stdout.split()
