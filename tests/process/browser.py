# SPDX-License-Identifier: GPL-2.0-only
"""A real headless Chromium, over the pipe of its DevTools protocol."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS = (
    "--headless",
    "--remote-debugging-pipe",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
)
# Chromium reads commands from descriptor 3 and writes to 4.
_WITH_PIPES = 'exec "$@" 3<&"$IN" 4>&"$OUT"'
_CONSOLE = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
_REQUEST, _LOADED = "Network.requestWillBeSent", "Page.loadEventFired"


def program() -> str | None:
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


@dataclass
class Browser:
    """Commands and their answers in turn; what happens meanwhile gathers in ``events``."""

    to: BinaryIO
    back: BinaryIO
    events: list[dict[str, Any]] = field(default_factory=list)
    number: int = 0
    session: str = ""

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.number += 1
        command = {"id": self.number, "method": method, "params": parameters}
        self.to.write(json.dumps(command | ({"sessionId": self.session} if self.session else {})).encode() + b"\0")
        self.to.flush()
        while (message := self._next()).get("id") != self.number:
            self.events.append(message)
        if "error" in message:
            raise AssertionError(f"{method}: {message['error']}")
        answer: dict[str, Any] = message["result"]
        return answer

    def until(self, method: str) -> None:
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self._next())

    def _next(self) -> dict[str, Any]:
        data = bytearray()
        while (byte := self.back.read(1)) != b"\0":
            if not byte:
                raise AssertionError("the browser is gone")
            data += byte
        message: dict[str, Any] = json.loads(data)
        return message

    def open(self, page: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Load a file in a new tab of this size."""
        self.session = ""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self.ask(f"{domain}.enable")
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self.ask("Page.navigate", url=page.resolve().as_uri())
        self.until(_LOADED)

    def evaluate(self, expression: str) -> Any:
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    @property
    def said(self) -> list[dict[str, Any]]:
        """Messages of the console, uncaught exceptions, and what the browser itself complained of."""
        return [event for event in self.events if event.get("method") in _CONSOLE]

    @property
    def requested(self) -> list[str]:
        """Addresses that the page asked for."""
        sent = [event["params"]["request"]["url"] for event in self.events if event.get("method") == _REQUEST]
        return [url for url in sent if not url.startswith("data:")]

    def accessible(self) -> list[dict[str, Any]]:
        """The nodes of the tree that a screen reader sees, ignored ones left out."""
        nodes: list[dict[str, Any]] = self.ask("Accessibility.getFullAXTree")["nodes"]
        return [node for node in nodes if not node.get("ignored")]


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    found = program()
    assert found, "look for program() first"
    commands_in, commands_out = os.pipe()
    answers_in, answers_out = os.pipe()
    # Its sandbox does not start as root.
    flags = [*_FLAGS, f"--user-data-dir={profile}", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    process = subprocess.Popen(
        ["/bin/bash", "-c", _WITH_PIPES, "browser", found, *flags],
        pass_fds=(commands_in, answers_out),
        env={**os.environ, "IN": str(commands_in), "OUT": str(answers_out)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(commands_in)
    os.close(answers_out)
    with os.fdopen(commands_out, "wb") as to, os.fdopen(answers_in, "rb") as back:
        try:
            yield Browser(to, back)
        finally:
            process.terminate()
            process.wait(timeout=30)
