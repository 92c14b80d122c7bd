"""A headless Chromium, driven over a pipe with the Chrome DevTools Protocol: no package is needed for it."""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import time

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
FLAGS = [
    "--headless",
    "--no-sandbox",  # which root needs, and the pages are our own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--remote-debugging-pipe",
]


class Browser:
    """One tab."""

    def __init__(self, profile):
        to_read, self.output = os.pipe()
        self.input, to_write = os.pipe()
        # Chromium reads commands from file descriptor 3 and answers on 4.
        line = f'exec "$@" 3<&{to_read} 4>&{to_write}'
        self.process = subprocess.Popen(
            ["bash", "-c", line, "chromium", CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self.numbers, self.buffer, self.events, self.session = itertools.count(1), b"", [], None
        try:
            self.attach()
        except BaseException:
            self.process.kill()
            raise

    def attach(self):
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        self.session = None
        self.call("Browser.close")
        self.process.wait(10)
        os.close(self.output)
        os.close(self.input)

    def call(self, method, **params):
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.output, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == number:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def message(self):
        end = time.monotonic() + 20
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.input], [], [], max(end - time.monotonic(), 0))
            assert ready, "the browser does not answer"
            part = os.read(self.input, 1 << 20)
            assert part, "the browser has ended"
            self.buffer += part
        text, _, self.buffer = self.buffer.partition(b"\0")
        message = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message

    def open(self, path, *, width=1280, height=900, dark=False, script=True, media=""):
        self.events.clear()
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.call("Page.navigate", url=path.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.message()

    def run(self, code):
        answer = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key):
        text = {"Enter": "\r", " ": " "}.get(key)
        more = {"text": text} if text else {}
        code = {"Tab": 9, "Enter": 13, " ": 32}[key]
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def complaints(self):
        """What the console said, and addresses that were asked for other than the page's own."""
        self.run("new Promise(done => setTimeout(done, 50))")
        said = [e["params"] for e in self.events if e["method"] in ("Log.entryAdded", "Runtime.exceptionThrown")]
        said += [e["params"] for e in self.events if e["method"] == "Runtime.consoleAPICalled"]
        urls = [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]
        return said, urls[1:]

    def pdf(self):
        return base64.b64decode(self.call("Page.printToPDF", printBackground=False, preferCSSPageSize=True)["data"])


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    if CHROMIUM is None:
        pytest.skip("there is no Chromium to look at the page with")
    made = Browser(tmp_path_factory.mktemp("profile"))
    yield made
    made.close()
