"""Drives Debian's chromium through a pair of pipes: pages, the mouse, fingers, keys and pictures."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["Page", "chromium"]

_KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, " ": 32}
_OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run")


class Page:
    """A page of the browser. Each command waits for its answer."""

    def __init__(self, to: int, answers: int, path: Path, width: int, height: int, dark: bool = False) -> None:
        self._to, self._answers, self._rest, self._number = to, answers, b"", 0
        self._session: str | None = None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.complaints: list[str] = []
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")
        self.size(width, height)
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.send("Page.navigate", url=path.as_uri())
        self("new Promise(done => document.readyState === 'complete' ? done() : addEventListener('load', done))")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self._rest:
                more = os.read(self._answers, 1 << 20)
                assert more, "the browser has ended"
                self._rest += more
            text, _, self._rest = self._rest.partition(b"\0")
            answer = json.loads(text)
            if answer.get("method") == "Log.entryAdded":
                self.complaints.append(answer["params"]["entry"]["text"])
            elif answer.get("method") == "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(answer["params"]["exceptionDetails"]))
            elif answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result

    def __call__(self, expression: str) -> Any:
        """Returns the value of an expression of JavaScript."""
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def size(self, width: int, height: int) -> None:
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def key(self, name: str, shift: bool = False) -> None:
        for kind in ("keyDown", "keyUp"):
            key = {"key": name, "code": name, "windowsVirtualKeyCode": _KEYS[name], "modifiers": 8 * shift}
            self.send(
                "Input.dispatchKeyEvent", type=kind, **key, **({"text": "\r"} if name == "Enter" and kind == "keyDown" else {})
            )

    def drag(self, selector: str, begin: float, end: float) -> None:
        """Drags the mouse within an element, from one part of its width to another."""
        left, top, width, height = self.box(selector)
        places = [left + width * (begin + (end - begin) * step / 4) for step in range(5)]
        kinds = ["mousePressed", "mouseMoved", "mouseMoved", "mouseMoved", "mouseReleased"]
        for x, kind in zip(places, kinds, strict=True):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=top + height / 2, button="left", buttons=1, clickCount=1)

    def swipe(self, selector: str, begin: float, end: float) -> None:
        """Does the same with a finger."""
        left, top, width, height = self.box(selector)
        self.send("Emulation.setTouchEmulationEnabled", enabled=True)
        for step in range(5):
            point = {"x": left + width * (begin + (end - begin) * step / 4), "y": top + height / 2}
            self.send("Input.dispatchTouchEvent", type="touchMove" if step else "touchStart", touchPoints=[point])
        self.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def box(self, selector: str) -> list[float]:
        """Returns the left, top, width and height of an element, which it scrolls to."""
        found: list[float] = self(
            f"(e => (e.scrollIntoView({{block: 'center'}}), e = e.getBoundingClientRect(), [e.x, e.y, e.width, e.height]))"
            f"(document.querySelector({json.dumps(selector)}))"
        )
        return found

    def picture(self, path: Path) -> None:
        """Writes a picture of the whole page."""
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", captureBeyondViewport=True)["data"]))

    def printed(self) -> bytes:
        """Returns the page as PDF."""
        return base64.b64decode(self.send("Page.printToPDF", printBackground=False)["data"])

    def tree(self) -> list[tuple[str, str]]:
        """Returns role and name of what a screen reader finds, in its order."""
        nodes = self.send("Accessibility.getFullAXTree")["nodes"]
        return [
            (node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node.get("ignored", False)
        ]


@contextmanager
def chromium(folder: Path, path: Path, width: int = 1280, height: int = 900, dark: bool = False) -> Iterator[Page]:
    """Opens a file in a browser that ends with the block. `folder`: for its files."""
    commands, to = os.pipe()
    answers, back = os.pipe()
    command = ["bash", "-c", f'exec chromium "$@" 3<&{commands} 4>&{back}', "bash", *_OPTIONS, "--remote-debugging-pipe"]
    browser = subprocess.Popen(
        [*command, f"--user-data-dir={folder / 'profile'}"],
        pass_fds=(commands, back),
        env={**os.environ, "HOME": str(folder)},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(commands)
    os.close(back)
    try:
        yield Page(to, answers, path, width, height, dark)
    finally:
        os.killpg(browser.pid, signal.SIGKILL)
        browser.wait()
        os.close(to)
        os.close(answers)
