"""VS Code in a browser: code-server with the extension and the driver, and a Chromium that looks at it.

One server for a session of tests; a `Window` is a page on a folder with an extension host of its own.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.editor import chromium
from tests.editor.chromium import INSTALLED, Chromium

HERE = Path(__file__).parent
ENTRY = INSTALLED / "node_modules" / "code-server" / "out" / "node" / "entry.js"
USER_SETTINGS = {
    "security.workspace.trust.enabled": False,
    "chat.disableAIFeatures": True,
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "workbench.startupEditor": "none",
    "workbench.reduceMotion": "on",
    "git.enabled": False,
    "keyboard.dispatch": "keyCode",
    "telemetry.telemetryLevel": "off",
    "files.autoSave": "off",
    # Nothing is asked of a gallery of extensions.
    "extensions.autoCheckUpdates": False,
    "extensions.autoUpdate": False,
    "extensions.ignoreRecommendations": True,
}
START_SECONDS = 60.0


def missing() -> str:
    """Why VS Code cannot be driven here; "" when it can."""
    if not (INSTALLED / "stamp").is_file():
        return f"no VS Code in {INSTALLED}; tests/editor/vscode/install.sh puts it there"
    return chromium.missing()


class Window:
    """A page on one folder. Its name is the folder's."""

    def __init__(self, folder: Path, page: Chromium, port: Path):
        self.folder = folder
        self.name = folder.name
        self._page = page
        self._port = port
        self._connect()

    def _connect(self) -> None:
        wait_for("the driver in VS Code", self._port.exists)
        self._driver = int(self._port.read_text())
        self._port.unlink()

    def reload(self) -> None:
        """As when the window is closed and opened again: with a new extension host."""
        self.do("reload")
        self._connect()

    def run(self, scenario: str, seconds: float = 150, **given: Any) -> Any:
        """What `scenarios/SCENARIO.js` returns, run inside of VS Code."""
        body = json.dumps({"scenario": str(HERE / "scenarios" / f"{scenario}.js"), "given": given}).encode()
        with urllib.request.urlopen(f"http://127.0.0.1:{self._driver}/", body, timeout=seconds) as response:
            answer = json.load(response)
        if "error" in answer:
            self.picture(f"failed-{scenario}")
            raise AssertionError(f"{scenario}: {answer['error']}")
        return answer["value"]

    def do(self, does: str, **what: Any) -> Any:
        try:
            return self._page.do(does, page=self.name, **what)
        except AssertionError:
            if does != "picture":
                self.picture(f"failed-{does}")
            raise

    def picture(self, name: str) -> Path:
        """A screenshot, for people."""
        file = HERE / "screenshots" / f"{name}.png"
        file.parent.mkdir(exist_ok=True)
        self.do("picture", file=str(file))
        return file


class CodeServer:
    """Started by `code_server`."""

    def __init__(self, folder: Path, url: str, page: Chromium, drivers: Path):
        self.folder = folder
        self._url = url
        self._page = page
        self._drivers = drivers

    @contextmanager
    def window(self, folder: Path, **user_settings: Any) -> Iterator[Window]:
        """A page on a folder, with the user settings beside the usual ones."""
        # Settings that name programs count only where they are the server's machine's.
        machine = {name: value for name, value in user_settings.items() if name.startswith("stitchcuda.server.")}
        _write_settings(self.folder, "Machine", machine)
        _write_settings(self.folder, "User", USER_SETTINGS | user_settings)
        self._page.do("open", page=folder.name, url=f"{self._url}/?folder={folder}")
        port = self._drivers / folder.name
        try:
            yield Window(folder, self._page, port)
        finally:
            self._page.do("close", page=folder.name)
            port.unlink(missing_ok=True)


@contextmanager
def code_server(folder: Path, extension: Path) -> Iterator[CodeServer]:
    """Runs code-server with `extension`, a vsix; its files go into `folder`."""
    data, extensions, drivers = folder / "data", folder / "extensions", folder / "drivers"
    _write_settings(folder, "User", USER_SETTINGS)
    drivers.mkdir()
    places = ["--user-data-dir", str(data), "--extensions-dir", str(extensions)]
    for vsix in (extension, _driver(folder)):
        _install(vsix, places)
    port = _free_port()
    # The grace time is how long an extension host outlives its page.
    options = ["--auth=none", f"--bind-addr=127.0.0.1:{port}", "--disable-telemetry", "--disable-update-check"]
    command = [str(INSTALLED / "node"), str(ENTRY), *options, "--reconnection-grace-time=5", *places]
    environment = {
        **os.environ,
        "STITCHCUDA_DRIVER": str(drivers),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "XDG_CONFIG_HOME": str(folder / "config"),
    }
    with (folder / "code-server.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
    page = Chromium(HERE / "page.mjs", "page.mjs")
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for("code-server", lambda: _answers(f"{url}/healthz"))
        yield CodeServer(folder, url, page, drivers)
    finally:
        page.close()
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


def _write_settings(folder: Path, whose: str, settings: dict[str, Any]) -> None:
    file = folder / "data" / whose / "settings.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(settings), encoding="utf-8")


def _driver(folder: Path) -> Path:
    vsix = folder / "driver.vsix"
    with zipfile.ZipFile(vsix, "w") as package:
        for file in sorted((HERE / "driver").iterdir()):
            package.write(file, f"extension/{file.name}")
    return vsix


def _install(vsix: Path, places: list[str]) -> None:
    command = [str(INSTALLED / "node"), str(ENTRY), "--install-extension", str(vsix), *places]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1):
            return True
    except OSError:
        return False


def wait_for(what: str, probe: Callable[[], Any]) -> None:
    end = time.monotonic() + START_SECONDS
    while not probe():
        assert time.monotonic() < end, f"{what} did not come up"
        time.sleep(0.1)
