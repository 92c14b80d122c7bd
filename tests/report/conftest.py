"""A headless Chromium, driven over a pipe with the Chrome DevTools Protocol: no package is needed for it."""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from types import SimpleNamespace

import numpy as np
import pandas as pd
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


HOSTILE = [
    "<script>document.title = 'taken'</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</title></style></svg><h1>heading",
    "\u202eturned around",
    "שלום עולם",
    "a" * 400,
    "$x^2$ {{ 7 * 7 }} {% raw %}",
    "nul\x00 bell\x07 end",
    "https://example.invalid/x.png",
    "日本語のとても長い名前のアノテーター",
    "",
    "<!-- comment",
    "]]> &amp;",
    "@import url(https://example.invalid/x.css);",
]
"""Names that a table may hold."""


def compared(names, seeds=3, metrics=("nll", "accuracy"), controls=()):
    """Runs and their summary, of methods that differ a little."""
    rng = np.random.default_rng(0)
    runs = pd.DataFrame(
        [
            {"method": name, "seed": seed, "seconds": 1.5, "control": name in controls}
            | {metric: 0.5 + 0.01 * place + rng.normal(0, 0.005) for metric in metrics}
            for seed in range(seeds)
            for place, name in enumerate(names)
        ]
    )
    columns = {}
    for metric in metrics:
        table = runs.pivot(index="seed", columns="method", values=metric)
        gap = table.sub(table[names[0]], axis=0)
        columns |= {metric: table.mean(), f"{metric}_sd": table.std(), f"{metric}_difference": gap.mean()}
        columns |= {f"{metric}_low": gap.mean() - 0.01, f"{metric}_high": gap.mean() + 0.01}
    columns["seconds"] = runs.groupby("method")["seconds"].mean()
    return runs, pd.DataFrame(columns).loc[list(names)]


def diagnosed(names, labels=50):
    """What a diagnosis takes: information, annotators, labels."""
    rng = np.random.default_rng(0)
    n, middle = len(names), rng.uniform(0.3, 0.9, len(names))
    between = {"low": middle - 0.1, "high": middle + 0.05}
    information = pd.DataFrame({"column": names, "estimate": middle, **between, "leak": middle > 0.8})
    annotators = pd.DataFrame(
        {"annotator": names, "labels": np.arange(n) + 1, "agreement": middle, "confidence": middle**2}
        | {"reliability": middle, **between, "flagged": middle < 0.4, "confidence_baseline": 0.5}
    )
    pick = rng.integers(0, n, (3, labels))
    table = pd.DataFrame(
        {"row": rng.permutation(labels), "example": [names[i] for i in pick[0]], "given": [names[i] for i in pick[1]]}
        | {"likely": [names[i] for i in pick[2]], "wrong": rng.uniform(size=labels)}
    )
    return {"information": information, "annotators": annotators, "labels": table}


@pytest.fixture(scope="session")
def make():
    """What makes the data of pages."""
    return SimpleNamespace(hostile=HOSTILE, compared=compared, diagnosed=diagnosed)
