"""Headless Chromium, controlled by the DevTools protocol over a pipe to simulate a reader."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import time
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

_OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
_OPTIONS += ["--disable-component-update", "--disable-sync", "--remote-debugging-pipe"]
# Pages would treat a machine without a mouse as a phone.
_OPTIONS += ["--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4"]
_KEYS = {
    "Tab": ("Tab", 9, ""),
    "Enter": ("Enter", 13, "\r"),
    "Escape": ("Escape", 27, ""),
    "Space": (" ", 32, " "),
    "Home": ("Home", 36, ""),
    "ArrowLeft": ("ArrowLeft", 37, ""),
    "ArrowRight": ("ArrowRight", 39, ""),
}


class Refused(AssertionError):
    """The browser rejected a command."""


class Browser:
    """A process of Chromium; use it as a context manager."""

    def __init__(self, executable: str, profile: Path) -> None:
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()

        def pipes_are_3_and_4() -> None:
            far = os.dup(to_browser), os.dup(from_browser)
            os.dup2(far[0], 3)
            os.dup2(far[1], 4)

        self._process = subprocess.Popen(
            [executable, *_OPTIONS, f"--user-data-dir={profile}"],
            preexec_fn=pipes_are_3_and_4,
            close_fds=False,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._numbers = itertools.count(1)
        self._received = b""
        self._listeners: dict[str, Callable[[str, dict[str, Any]], None]] = {}

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.call("Browser.close")
            self._process.wait(20)
        finally:
            self._process.kill()
            self._process.wait()

    def call(self, method: str, session: str = "", **parameters: Any) -> Any:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == number:
                if "error" in answer:
                    raise Refused(method, answer["error"])
                return answer["result"]
            if listener := self._listeners.get(answer.get("sessionId", "")):
                listener(answer["method"], answer["params"])

    def open(self, url: str, **options: Any) -> Tab:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = Tab(self, session, target, **options)
        self._listeners[session] = tab.hear
        tab.go(url)
        return tab

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._received:
            data = os.read(self._read, 1 << 20)
            assert data, "chromium has ended"
            self._received += data
        message, self._received = self._received.split(b"\0", 1)
        answer: dict[str, Any] = json.loads(message)
        return answer


class Tab:
    """An open page. ``errors`` are errors of scripts and of the security policy; ``requests`` are loaded URLs."""

    def __init__(
        self,
        browser: Browser,
        session: str,
        target: str,
        *,
        width: int = 1280,
        dark: bool = False,
        scripts: bool = True,
    ) -> None:
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._browser, self._session, self._target = browser, session, target
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self.call(f"{domain}.enable")
        phone = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=phone)
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.media(dark=dark)

    def call(self, method: str, **parameters: Any) -> Any:
        return self._browser.call(method, self._session, **parameters)

    def hear(self, method: str, parameters: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.errors.append(str(parameters["exceptionDetails"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])

    def media(self, *, dark: bool = False, print: bool = False) -> None:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media="print" if print else "screen", features=[scheme])

    def go(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def wait(self, condition: str) -> None:
        """Wait until an expression is true."""
        deadline = time.monotonic() + 90  # MLflow's pages take long on a busy machine
        while not self._holds(condition):
            assert time.monotonic() < deadline, condition
            time.sleep(0.02)

    def _holds(self, condition: str) -> bool:
        try:
            return bool(self.see(f"!!({condition})"))
        except Refused as refused:  # a page that is navigating away does not answer
            if "navigated" not in str(refused):
                raise
            return False

    def see(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str, times: int = 1) -> None:
        """Press a key like a user."""
        value, number, text = _KEYS[key] if key in _KEYS else (key, ord(key.upper()), key)
        for _ in range(times):
            for kind in ("keyDown", "keyUp"):
                typed = {"text": text} if text and kind == "keyDown" else {}
                self.call(
                    "Input.dispatchKeyEvent", type=kind, key=value, code=key, windowsVirtualKeyCode=number, **typed
                )

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def accessible(self) -> list[tuple[str, str]]:
        """Role and name of everything a screen reader announces."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [
            (node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node.get("ignored")
        ]

    def close(self) -> None:
        self._browser.call("Target.closeTarget", targetId=self._target)


@cache
def _axe() -> str:
    """The script of axe-core. Its package is needed only for this script and drives no browser here."""
    return (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


def violations(tab: Tab, only: str = "") -> list[str]:
    """Violations that axe-core finds in a page, of all rules or one: rule, element and HTML."""
    if tab.see("typeof axe") == "undefined":
        tab.see(f"{_axe()}; 0")
    options = f"{{runOnly: ['{only}'], resultTypes: ['violations']}}" if only else "{resultTypes: ['violations']}"
    found: list[dict[str, Any]] = tab.see(f"axe.run(document, {options}).then(result => result.violations)")
    return [f"{own['id']}: {node['target']} {node['html'][:200]}" for own in found for node in own["nodes"][:3]]


def violations_anywhere(tab: Tab) -> list[str]:
    """Violations that axe-core finds in light and dark mode, on a desktop and a phone."""
    found = [f"desktop, light: {text}" for text in violations(tab)]
    tab.media(dark=True)
    found += [f"desktop, dark: {text}" for text in violations(tab, "color-contrast")]
    tab.call("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=1, mobile=True)
    found += [f"phone, dark: {text}" for text in violations(tab)]
    tab.media(dark=False)
    return found + [f"phone, light: {text}" for text in violations(tab, "color-contrast")]


Open = Callable[..., Tab]
"""Type of the fixture ``open_tab``."""
