"""Headless Chromium, driven by its DevTools protocol."""

from __future__ import annotations

import base64
import json
import shutil
import signal
import tempfile
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from tests.support.processes import Process
from tests.support.waiting import wait_until

NOT_INSTALLED = "Chromium is not installed: apt-get install --no-install-recommends chromium"
_OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # root may have no sandbox; the pages are of this machine
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-proxy-server",
    "--window-size=1600,1100",
    "--remote-debugging-port=0",
)


def chromium() -> str | None:
    """Return the path of Chromium, or None."""
    return shutil.which("chromium")


class Browser:
    """Context of a browser with one page, if :func:`chromium` finds a program. Nothing of it remains afterwards."""

    def __init__(self) -> None:
        program = chromium()
        assert program is not None, NOT_INSTALLED
        self._program = program
        self._folder = Path(tempfile.mkdtemp(prefix="chromium-"))
        self._process: Process | None = None
        self._connection = ExitStack()
        self._page: ClientConnection | None = None
        self._number = 0

    def __enter__(self) -> Browser:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._connection.close()
        if self._process is not None:
            self._process.signal(signal.SIGTERM, [self._process.pid])
            self._process.ended_within(20)
            self._process.end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def log_in(self, url: str, token: str) -> None:
        """Set the cookie that a log-in would set. ``token``: of Airflow's REST API."""
        self._call("Network.setCookie", url=url, name="_token", value=token)

    def open(self, url: str) -> None:
        self._call("Page.navigate", url=url)

    def evaluate(self, script: str) -> Any:
        """Return the value of a JavaScript expression in the page.

        Raises AssertionError with the error that the expression throws.
        """
        answer = self._call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def text(self) -> str:
        """Return the visible text of the page."""
        text: str = self.evaluate("document.body ? document.body.innerText : ''")
        return text

    def click(self, selector: str) -> bool:
        """Click the first element that a CSS selector finds. Return False if no such element exists."""
        element = f"document.querySelector({json.dumps(selector)})"
        return bool(self.evaluate(f"(e => e !== null && (e.click(), true))({element})"))

    def wait_for(self, look: Callable[[], bool], description: str) -> None:
        wait_until(
            look, lambda: f"{description}\n{self.evaluate('location.href')}\n{self.text()}", seconds=120, every=0.2
        )

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot")["data"]))

    def _start(self) -> None:
        log = self._folder / "chromium.log"
        command = [self._program, *_OPTIONS, f"--user-data-dir={self._folder}/profile", "about:blank"]
        process = self._process = Process(command, log, env={"TMPDIR": str(self._folder)})
        port_file = self._folder / "profile" / "DevToolsActivePort"

        def port() -> str | None:
            assert process.exit_code is None, process.tail()
            lines = port_file.read_text().splitlines() if port_file.exists() else []
            return lines[0] if len(lines) == 2 else None

        url = f"http://127.0.0.1:{wait_until(port, lambda: f'Chromium{process.tail()}')}/json/list"
        page = wait_until(lambda: _page_of(url), lambda: f"a page\n{process.tail()}")
        assert page is not None
        self._page = self._connection.enter_context(connect(page, max_size=None, proxy=None))

    def _call(self, method: str, **arguments: Any) -> Any:
        assert self._page is not None
        self._number += 1
        self._page.send(json.dumps({"id": self._number, "method": method, "params": arguments}))
        while True:
            answer = json.loads(self._page.recv(timeout=60))
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer}"
                return answer["result"]


def _page_of(url: str) -> str | None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=60) as answer:
        targets = json.loads(answer.read())
    return next((target["webSocketDebuggerUrl"] for target in targets if target["type"] == "page"), None)
