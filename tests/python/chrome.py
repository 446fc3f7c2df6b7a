"""A headless Chromium that is driven over the pipes of its DevTools protocol, in real time: pages
with workers do not get on under --virtual-time-budget."""

import base64
import json
import os
import select
import subprocess
import time

SECONDS = 180


class Chrome:
    """One page. Evaluates expressions in it, and takes pictures of it."""

    def __init__(self, command, folder, width, height):
        to_read, self.to_write = os.pipe()
        self.to_read, to_write = os.pipe()
        # The browser reads from descriptor 3, and writes to 4.
        shell = f'exec 3<&{to_read} 4>&{to_write}; exec "$@"'
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        options += ["--force-color-profile=srgb", "--remote-debugging-pipe"]
        options += [f"--window-size={width},{height}", f"--user-data-dir={folder / 'profile'}"]
        self.process = subprocess.Popen(
            ["bash", "-c", shell, "bash", command, *options, "about:blank"],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"HOME": str(folder)},
        )
        os.close(to_read)
        os.close(to_write)
        self.number = 0
        self.rest = b""
        targets = self.call("Target.getTargets", session=None)["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        attached = self.call("Target.attachToTarget", session=None, targetId=page, flatten=True)
        self.session = attached["sessionId"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(SECONDS)
        os.close(self.to_read)
        os.close(self.to_write)

    def receive(self, until):
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.to_read], [], [], max(0, until - time.monotonic()))
            data = os.read(self.to_read, 1 << 20) if ready else b""
            if not data:
                raise TimeoutError("the browser does not answer")
            self.rest += data
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def call(self, method, session=True, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to_write, data) :]
        until = time.monotonic() + SECONDS
        while True:
            answer = self.receive(until)
            if answer.get("id") == self.number:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def open(self, address):
        self.call("Page.navigate", url=address)

    def value(self, expression):
        """What a JavaScript expression, or the promise that it gives, comes to."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, expression):
        until = time.monotonic() + SECONDS
        while not self.value(expression):
            assert time.monotonic() < until, f"never: {expression}"
            time.sleep(0.2)

    def picture(self, path):
        answer = self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(answer["data"]))
        return path
