# SPDX-License-Identifier: Apache-2.0
"""Compare this kernel with ipykernel on one machine: the outputs of the same cells, and how long they take.

Usage: ``python bench_kernel.py [--quick] [--where NAME] [--json FILE] [--other FILE]``, in an environment that has
``ipykernel`` and ``jupyter_client``; where the runtime is not this file's folder, with ``PYTHONPATH`` set to it.
``make bench-kernel`` runs this file inside a VM and outside and prints both side by side.

Theory of operation. Each kernel has a driver here that speaks its protocol: ours starts the real zygote and forks a
kernel from it, as the agent does; Jupyter's is ``jupyter_client`` as it comes (TCP on the loopback interface, signed
messages). A cell's time starts with its request and ends when its client has all of it: every output, the reply and
what says that there is no more (our ``d`` frame; Jupyter's ``idle``). Both clients read and parse what comes. First
CELLS run once in two fresh kernels and the outputs are compared, then those with ``rounds`` are timed, in blocks
by turns, so that a disturbance of the machine hits both.

Ends with 1 if outputs differ in a way that EXPECTED does not explain. Slowness is no failure.
"""

from __future__ import annotations

import argparse
import array
import base64
import contextlib
import dataclasses
import difflib
import fnmatch
import itertools
import json
import os
import platform
import re
import select
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

import pandastack_kernel
from pandastack_kernel import frames

TIMEOUT_S = 600.0
"""The longest that anything may take; in software emulation a start takes a minute."""
STARTS = 3
"""How often it is measured how long a further kernel takes."""
BLOCKS = 5
"""Turns of each kernel in the timing of a cell."""
VALUE_CHARS = 48
"""Most of a value in the table of differences."""
OURS, JUPYTER = "ours", "ipykernel"
"""Names of the two in tables and JSON."""


@dataclass(frozen=True)
class Cell:
    """One cell; with ``rounds`` it is timed too."""

    name: str
    code: str
    rounds: int = 0
    warmup: int = 3


CELLS = (
    Cell("1+1", "1+1", rounds=300, warmup=30),
    Cell("print of 100 kB", "print('x' * 100_000)", rounds=50, warmup=5),
    Cell("result of 1 MB", "'x' * 1_000_000", rounds=30),
    Cell("stdout and stderr", "import sys\nprint('a')\nprint('b', file=sys.stderr)\nprint('c', end='')\n1+1;"),
    Cell("output of C and of a child", "import os, sys\nos.write(1, b'a\\n')\nos.system('echo b; echo c >&2');"),
    Cell("!echo", "!echo a; echo b >&2"),
    Cell("ZeroDivisionError", "def f(n):\n    return 1 / n\n\nprint('before')\nf(0)"),
    Cell("SyntaxError", "x = (1,\nfor"),
    Cell(
        "chained exceptions",
        "try:\n    {}['key']\nexcept KeyError as error:\n    raise ValueError('bad') from error",
    ),
    Cell("exception group", "raise ExceptionGroup('several', [ValueError('a'), TypeError('b')])"),
    Cell("SystemExit", "import sys\nsys.exit(3)"),
    Cell("input() that nobody answers", "input('name: ')"),
    Cell("warning", "import warnings\nwarnings.warn('careful')"),
    Cell(
        "DataFrame",
        "import numpy as np\nimport pandas as pd\n"
        "df = pd.DataFrame({'a': [1, 2, 3], 'b': [0.5, np.nan, 2.5], 'c': ['x', None, 'z']})\ndf",
    ),
    Cell("Series", "df['b']"),
    Cell("figure, returned", "import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot([1, 3, 2])\nfig"),
    Cell(
        "figure, plt.show()",
        "import matplotlib.pyplot as plt\nplt.figure()\n"
        "plt.plot(range(100), [x * x for x in range(100)])\nplt.title('t')\nplt.show()",
        rounds=20,
    ),
    Cell(
        "three figures in a loop",
        "for n in range(3):\n    plt.figure()\n    plt.plot([n, 1])\n    print(n)\n    plt.show()",
    ),
    Cell("plotly", "import plotly.graph_objects as go\ngo.Figure(go.Bar(x=['a', 'b'], y=[1, 2]))"),
    Cell(
        "HTML, Markdown, Latex",
        "from IPython.display import HTML, JSON, SVG, Latex, Markdown, clear_output, display, update_display\n"
        "display(HTML('<b>a</b>'), Markdown('*b*'))\nLatex('$c$')",
    ),
    Cell(
        "JSON, SVG",
        "display(JSON({'a': [1, None, 'ä']}))\n"
        'SVG(\'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>\')',
    ),
    Cell("PIL image", "from PIL import Image\nImage.new('RGB', (16, 8), 'red')"),
    Cell("display_id", "display(1, display_id='one')\nhandle = display('a', display_id=True)"),
    Cell("update_display", "update_display(2, display_id='one')\nhandle.update({'text': 'b'})"),
    Cell("clear_output", "print('a')\nclear_output(wait=True)\nprint('b')\nclear_output()"),
    Cell("await", "import asyncio\nasync def later():\n    await asyncio.sleep(0.01)\n    return 7\nawait later()"),
    Cell("%time", "%time sum(range(1000))"),
    Cell("len?", "len?"),
    Cell("sympy expression", "import sympy\nsympy.sqrt(sympy.Symbol('x')) / 2"),
    Cell(
        "an object with _repr_*_",
        "class Rich:\n    def __repr__(self):\n        return 'plain'\n    def _repr_html_(self):\n"
        "        return '<i>html</i>'\n    def _repr_mimebundle_(self, include=None, exclude=None):\n"
        "        return {'application/x-own+json': {'a': 1}, 'text/x-own': 'own'}\nRich()",
    ),
)


@dataclass(frozen=True)
class Expected:
    """A meant difference: in which cells (a pattern), what (see ``Difference``), why, and what ours is (pattern)."""

    cells: str
    what: str
    why: str
    ours: str = "*"

    def explains(self, difference: Difference) -> bool:
        """Tell whether this is that difference."""
        same = difference.what == self.what and fnmatch.fnmatchcase(difference.cell, self.cells)
        return same and fnmatch.fnmatchcase(difference.ours, self.ours)


_TERMINAL = "ours are two streams; ipykernel runs the command in a terminal, which has one"
_TRACEBACK = "ours is that of IPython in a terminal; ipykernel's has blank lines and frames of its own"
_GROUP = "ours is an error; ipykernel has the group written to stderr"
_ADVICE = "ours leaves out IPython's advice on stderr (\"To exit: use 'exit'\")"
_PAGER = "ours is text on stdout; ipykernel's is for a pager"
_PLOTLY = "in ipykernel plotly displays the figure itself, and fails without nbformat"
_ONE_LINE = "one line; ipykernel's, if any, is the whole specification"

EXPECTED = (
    Expected(
        "stdout and stderr",
        "outputs",
        "ours keep the order of writing; ipykernel collects each stream",
        "stdout, stderr, stdout",
    ),
    Expected("output of C and of a child", "outputs", "two pipes: neither kernel knows the order between them"),
    Expected("!echo", "stdout", _TERMINAL, "a\n"),
    Expected("!echo", "stderr", _TERMINAL, "b\n"),
    Expected("!echo", "outputs", _TERMINAL, "stdout, stderr"),
    Expected("ZeroDivisionError", "traceback", _TRACEBACK),
    Expected("chained exceptions", "traceback", _TRACEBACK),
    Expected("input() that nobody answers", "traceback", _TRACEBACK),
    Expected("*", "colours", "ours are plain text unless the client asks for `ansi`", "no"),
    Expected("SyntaxError", "value", "ours is the message alone, without the name of a file that is not there"),
    Expected("exception group", "stderr", _GROUP, ""),
    Expected("exception group", "outputs", _GROUP, "error ExceptionGroup"),
    Expected("SystemExit", "stderr", _ADVICE, ""),
    Expected("SystemExit", "outputs", _ADVICE, "error SystemExit"),
    Expected("input() that nobody answers", "value", "other words"),
    Expected("warning", "stderr", "another name for the cell's file"),
    Expected("DataFrame", "+application/vnd.dataresource+json", "the rows as data"),
    Expected("Series", "+application/vnd.dataresource+json", "the rows as data"),
    Expected(
        "figure, returned", "outputs", "ours shows it once; ipykernel again at the end of the cell", "execute_result"
    ),
    Expected("*figure*", "+application/vnd.pandastack.chart+json", "the chart as data"),
    Expected("*figure*", "-text/plain", "clients take the first text of a cell for its value"),
    Expected("plotly", "+application/vnd.pandastack.chart+json", "the chart as data"),
    Expected("plotly", "status", _PLOTLY, "ok"),
    Expected("plotly", "outputs", _PLOTLY, "execute_result"),
    Expected("plotly", "-text/html", "plotly's HTML has plotly.js in it, or fetches it"),
    Expected("plotly", "+image/png", "for clients that cannot draw plotly's JSON"),
    Expected("plotly", "metadata", "ours says why the picture is missing", "{'omitted': *"),
    Expected("plotly", "+text/plain", _ONE_LINE),
    Expected("plotly", "=text/plain", _ONE_LINE),
    Expected("len?", "stdout", _PAGER, "Signature: len(*"),
    Expected("len?", "outputs", _PAGER, "stdout"),
)


@dataclass(frozen=True)
class Difference:
    """One difference between the kernels' outputs of a cell.

    ``what`` is ``outputs`` (their sequence), ``status``, ``count``, ``stdout`` or ``stderr`` (the text), ``+TYPE``
    (only we have it), ``-TYPE``, ``=TYPE`` (another value), ``metadata``, ``display id``; of an error ``value``,
    ``traceback`` (without colours) or ``colours``.
    """

    cell: str
    what: str
    ours: str
    theirs: str

    def reason(self) -> str:
        """Why it is meant to be, or nothing."""
        return next((expected.why for expected in EXPECTED if expected.explains(self)), "")


@dataclass
class Output:
    """One output of a cell in Jupyter's terms."""

    kind: str
    """``stdout``, ``stderr``, ``error``, ``clear_output``, ``page``, or a message that carries MIME types."""
    text: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    """An error's."""
    display_id: str = ""

    def label(self) -> str:
        """What is compared in the sequence of outputs."""
        return f"{self.kind} {self.name}".rstrip()


@dataclass
class Answer:
    """What a cell did: its outputs in order, and its end."""

    outputs: list[Output] = field(default_factory=list)
    status: str = ""
    execution_count: int = 0

    def text(self, stream: str) -> str:
        """All that was written to a stream."""
        return "".join(output.text for output in self.outputs if output.kind == stream)

    def add_text(self, stream: str, text: str) -> None:
        """Add text to the last output if it is of this stream."""
        if not self.outputs or self.outputs[-1].kind != stream:
            self.outputs.append(Output(stream))
        self.outputs[-1].text += text


class Driver(Protocol):
    """One kernel and its client."""

    def run(self, code: str) -> Answer:
        """Run a cell and return all of it."""

    def close(self) -> None:
        """End the kernel."""


class Zygote:
    """Our warm process, and the agent's side of its socket."""

    def __init__(self, env: dict[str, str], cwd: str) -> None:
        self._env = env
        self._cwd = cwd
        self._sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        path = str(Path(pandastack_kernel.__file__).resolve().parent.parent)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "pandastack_kernel.zygote", "--fd", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env={**env, "PYTHONPATH": os.pathsep.join(filter(None, (path, env.get("PYTHONPATH"))))},
            cwd="/",
        )
        theirs.close()
        self._sock.settimeout(TIMEOUT_S)
        if not self._sock.recv(1 << 16):
            raise RuntimeError("the zygote ended while it warmed up")

    def kernel(self) -> OurKernel:
        """Return a new kernel, ready."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        fds = array.array("i", (theirs.fileno(), out_write, err_write))
        request = frames.encode_json(frames.ZYGOTE_FORK, {"id": "bench", "cwd": self._cwd, "env": self._env})
        sent = self._sock.sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        self._sock.sendall(request[sent:])
        theirs.close()
        os.close(out_write)
        os.close(err_write)
        return OurKernel(ours, out_read, err_read)

    def close(self) -> None:
        """End it: the end of its socket is its end."""
        self._sock.close()
        self._process.wait(TIMEOUT_S)


class OurKernel:
    """The agent's side of one of our kernels, which is no child of this process."""

    def __init__(self, control: socket.socket, out_fd: int, err_fd: int) -> None:
        self._control = control
        self._pipes = {out_fd: "stdout", err_fd: "stderr"}
        self._decoder = frames.Decoder(max_bytes=1 << 31)
        self._body = bytearray()
        self._poll = select.poll()
        for fd in (control.fileno(), *self._pipes):
            os.set_blocking(fd, False)
            self._poll.register(fd, select.POLLIN)
        kind, payload = self._next(Answer())
        if kind != frames.KERNEL_READY:
            raise RuntimeError(f"a kernel said {kind!r} for ready")
        self._pidfd = os.pidfd_open(int(json.loads(payload)["pid"]))

    def run(self, code: str) -> Answer:
        """Run a cell and return all of it."""
        answer = Answer()
        self._control.sendall(frames.encode_json(frames.RUN, {"code": code, "ansi": False}))
        while True:
            kind, payload = self._next(answer)
            if kind == frames.STDOUT:
                answer.add_text("stdout", payload.decode())
            elif kind == frames.STDERR:
                answer.add_text("stderr", payload.decode())
            elif kind == frames.BODY:
                self._body += payload
            elif kind == frames.EVENT:
                answer.outputs.append(self._output(json.loads(payload)))
            elif kind == frames.DONE:
                done = json.loads(payload)
                for fd in self._pipes:
                    self._read_pipe(fd, answer)
                answer.status, answer.execution_count = done["status"], done["execution_count"]
                return answer

    def close(self) -> None:
        """End the kernel."""
        signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        select.select([self._pidfd], [], [])
        self._control.close()
        for fd in (self._pidfd, *self._pipes):
            os.close(fd)

    def _output(self, event: dict[str, Any]) -> Output:
        if event["type"] == "error":
            return Output("error", event["traceback"], {"value": event["value"]}, name=event["name"])
        if event["type"] == "clear_output":
            return Output("clear_output", metadata={"wait": event["wait"]})
        data: dict[str, Any] = event["data"]
        for mime, size in event.get("body", {}).items():
            data[mime] = self._body[:size].decode()
            del self._body[:size]
        kind = "update_display_data" if event.get("update") else "display_data"
        kind = "execute_result" if event["is_main_result"] else kind
        return Output(kind, data=data, metadata=event["metadata"], display_id=event.get("display_id", ""))

    def _next(self, answer: Answer) -> tuple[bytes, bytes]:
        while (frame := self._decoder.next()) is None:
            ready = [fd for fd, _ in self._poll.poll(TIMEOUT_S * 1e3)]
            if not ready:
                raise TimeoutError(f"no answer in {TIMEOUT_S} s")
            for fd in ready:
                if fd in self._pipes:
                    self._read_pipe(fd, answer)
            if self._control.fileno() in ready:
                data = self._control.recv(1 << 20)
                if not data:
                    raise RuntimeError("a kernel of ours ended")
                self._decoder.feed(data)
        return frame

    def _read_pipe(self, fd: int, answer: Answer) -> None:
        with contextlib.suppress(BlockingIOError):
            while data := os.read(fd, 1 << 16):
                answer.add_text(self._pipes[fd], data.decode())


class JupyterKernel:
    """An ipykernel and jupyter_client's blocking client."""

    def __init__(self, env: dict[str, str], cwd: str) -> None:
        self._manager = KernelManager(kernel_name="python3")
        self._manager.start_kernel(env=env, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._client: BlockingKernelClient = self._manager.blocking_client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=TIMEOUT_S)

    def run(self, code: str) -> Answer:
        """Run a cell and return all of it."""
        client = self._client
        answer = Answer()
        request = client.execute(code, allow_stdin=False)
        while True:
            message = client.get_iopub_msg(timeout=TIMEOUT_S)
            if message["parent_header"].get("msg_id") != request:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                answer.add_text(content["name"], content["text"])
            elif kind in ("execute_result", "display_data", "update_display_data"):
                shown = Output(kind, data=content["data"], metadata=content["metadata"])
                shown.display_id = content.get("transient", {}).get("display_id", "")
                answer.outputs.append(shown)
            elif kind == "error":
                text = "\n".join(content["traceback"])
                answer.outputs.append(Output("error", text, {"value": content["evalue"]}, name=content["ename"]))
            elif kind == "clear_output":
                answer.outputs.append(Output("clear_output", metadata={"wait": content["wait"]}))
            elif kind == "status" and content["execution_state"] == "idle":
                break
        while True:
            reply = client.get_shell_msg(timeout=TIMEOUT_S)
            if reply["parent_header"].get("msg_id") == request:
                break
        content = reply["content"]
        for item in content.get("payload", ()):
            answer.outputs.append(Output(item["source"], data=item.get("data", {})))
        answer.status, answer.execution_count = content["status"], content["execution_count"]
        return answer

    def close(self) -> None:
        """End the kernel."""
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_VARYING = ((re.compile(r"0x[0-9a-f]{6,}"), "0x…"), (re.compile(r"/ipykernel_\d+/\d+\.py"), "/ipykernel_…/….py"))
_RANDOM_ID = re.compile(r"[0-9a-f]{32}")
_TIMES = re.compile(r"\d+(\.\d+)?(e\+\d+)? [nμm]?s\b")


def comparable(value: Any) -> Any:
    """Return a MIME value or text in the form that is compared: JSON parsed, addresses and times masked."""
    if not isinstance(value, str):
        return value
    for pattern, mask in _VARYING:
        value = pattern.sub(mask, value)
    return _TIMES.sub("N s", value)


def picture_size(value: str) -> tuple[int, int]:
    """Return the width and height of a PNG in base64."""
    header = base64.b64decode("".join(value.split()))[16:24]
    return int.from_bytes(header[:4]), int.from_bytes(header[4:])


def same_value(mime: str, ours: Any, theirs: Any) -> bool:
    """Tell whether both kernels give the same under one type; of pictures only the size is compared."""
    if mime.endswith("json"):
        return bool(json.loads(ours) == (json.loads(theirs) if isinstance(theirs, str) else theirs))
    if mime == "image/png":
        return picture_size(ours) == picture_size(theirs)
    return bool(comparable(ours) == comparable(theirs))


def differences(cell: str, ours: Answer, theirs: Answer) -> Iterator[Difference]:
    """Yield how the answers to a cell differ. Where the sequences of outputs do, their common parts are compared."""

    def differ(what: str, a: Any, b: Any) -> Iterator[Difference]:
        if a != b:
            yield Difference(cell, what, str(a), str(b))

    yield from differ("status", ours.status, theirs.status)
    yield from differ("count", ours.execution_count, theirs.execution_count)
    for stream in ("stdout", "stderr"):
        yield from differ(stream, comparable(ours.text(stream)), comparable(theirs.text(stream)))
    labels = [[output.label() for output in answer.outputs] for answer in (ours, theirs)]
    yield from differ("outputs", *(", ".join(names) or "none" for names in labels))
    # A value that one kernel returns and the other displays is compared nevertheless.
    alike = [[label.replace("execute_result", "display_data") for label in names] for names in labels]
    for start, their_start, size in difflib.SequenceMatcher(None, alike[0], alike[1]).get_matching_blocks():
        pairs = zip(ours.outputs[start : start + size], theirs.outputs[their_start : their_start + size], strict=True)
        for a, b in pairs:
            for what, mine, other in _output_differences(a, b):
                yield from differ(what, mine, other)


def _output_differences(a: Output, b: Output) -> Iterator[tuple[str, Any, Any]]:
    """Yield (what, in ours, in ipykernel) of one output of the same kind; both may be equal."""
    if a.kind == "error":
        yield "value", a.data["value"], b.data["value"]
        yield "traceback", _without_colours(a.text), _without_colours(b.text)
        yield "colours", _has_colours(a.text), _has_colours(b.text)
        return
    if a.display_id != b.display_id and not all(map(_RANDOM_ID.fullmatch, (a.display_id, b.display_id))):
        yield "display id", a.display_id, b.display_id
    yield "metadata", a.metadata, b.metadata
    for mime in sorted(a.data.keys() | b.data.keys()):
        if mime not in b.data:
            yield f"+{mime}", "yes", "no"
        elif mime not in a.data:
            yield f"-{mime}", "no", "yes"
        elif not same_value(mime, a.data[mime], b.data[mime]):
            yield f"={mime}", a.data[mime], b.data[mime]


def _has_colours(traceback: str) -> str:
    return "yes" if _ANSI.search(traceback) else "no"


def _without_colours(traceback: str) -> str:
    return str(comparable(_ANSI.sub("", traceback))).rstrip()


class Bench:
    """All that is compared and measured in one place."""

    def __init__(self, where: str, directory: str, scale: float) -> None:
        self.where = where
        self._directory = directory
        self._scale = scale
        # Nobody's own settings and history count, and none are written. matplotlib's font cache stays where it is.
        own = dict.fromkeys(("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR"), directory)
        self._env = {**os.environ, "LANG": "C.UTF-8", **own}
        self.about = describe(where)
        self.differences: list[Difference] = []
        self.times: dict[str, dict[str, list[float]]] = {}

    def run(self) -> None:
        """Do everything."""
        with contextlib.ExitStack() as ends:
            zygote: list[Zygote] = []

            def first() -> Driver:
                zygote.append(Zygote(self._env, self._directory))
                ends.callback(zygote[0].close)
                return zygote[0].kernel()

            def jupyter() -> Driver:
                return JupyterKernel(self._env, self._directory)

            self._start("from nothing to the first answer", 1, {OURS: first, JUPYTER: jupyter})
            makers: dict[str, Callable[[], Driver]] = {OURS: lambda: zygote[0].kernel(), JUPYTER: jupyter}
            self._start("one more kernel, to its first answer", STARTS, makers)
            drivers = {name: ends.enter_context(contextlib.closing(make())) for name, make in makers.items()}
            for cell in CELLS:
                answers = [drivers[name].run(cell.code) for name in (OURS, JUPYTER)]
                self.differences += dict.fromkeys(differences(cell.name, *answers))
            for cell in CELLS:
                if cell.rounds:
                    self._time(cell, drivers)

    def _start(self, what: str, times: int, makers: dict[str, Callable[[], Driver]]) -> None:
        progress(f"{self.where}: {what}")
        for name, make in makers.items():
            for _ in range(times):
                start = time.perf_counter()
                with contextlib.closing(make()) as driver:
                    driver.run("1+1")
                    self._add(what, name, start)

    def _time(self, cell: Cell, drivers: dict[str, Driver]) -> None:
        progress(f"{self.where}: {cell.name}")
        for driver in drivers.values():
            for _ in range(cell.warmup):
                driver.run(cell.code)
        for _ in range(BLOCKS):
            for name, driver in drivers.items():
                for _ in range(max(1, int(cell.rounds * self._scale) // BLOCKS)):
                    start = time.perf_counter()
                    driver.run(cell.code)
                    self._add(cell.name, name, start)

    def _add(self, what: str, kernel: str, start: float) -> None:
        elapsed = (time.perf_counter() - start) * 1e3
        self.times.setdefault(what, {}).setdefault(kernel, []).append(elapsed)

    def result(self) -> dict[str, Any]:
        """Everything as JSON."""
        found = [dataclasses.asdict(difference) for difference in self.differences]
        return {"where": self.where, "about": self.about, "times": self.times, "differences": found}


def progress(what: str) -> None:
    """Say what is being done."""
    print(f"… {what}", file=sys.stderr, flush=True)


def describe(where: str) -> str:
    """The machine, and what runs on it."""
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    names = ("ipython", "ipykernel", "jupyter_client", "pyzmq", "matplotlib")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    return (
        f"{where}: {os.cpu_count()} cores, {cpu[1] if cpu else platform.machine()}; load {os.getloadavg()[0]:.2f};"
        f" Python {platform.python_version()}, {versions}"
    )


def number(milliseconds: float) -> str:
    """With as many digits as mean something."""
    digits = 0 if milliseconds >= 100 else 1 if milliseconds >= 10 else 2
    return f"{milliseconds:.{digits}f}"


def figures(values: list[float]) -> str:
    """Median, p95 and p99; for a single value that."""
    ordered = sorted(values)
    ranks = [] if len(values) == 1 else [ordered[min(len(values) - 1, int(q * len(values)))] for q in (0.95, 0.99)]
    return " / ".join(map(number, (statistics.median(ordered), *ranks)))


def aligned(lines: list[tuple[str, ...]]) -> str:
    """Columns, the first line being their heads."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
    text.insert(1, "-" * max(map(len, text)))
    return "\n".join(text)


def times_table(results: list[dict[str, Any]]) -> str:
    """All times, a pair of columns for each place."""
    head = ["median / p95 / p99 in ms", "n"]
    for result in results:
        head += [f"{kernel}, {result['where']}" for kernel in (OURS, JUPYTER)] + ["ratio"]
    lines = [tuple(head)]
    for what, times in results[0]["times"].items():
        line = [what, str(len(times[OURS]))]
        for result in results:
            ours, theirs = (result["times"][what][kernel] for kernel in (OURS, JUPYTER))
            ratio = statistics.median(theirs) / statistics.median(ours)
            line += [figures(ours), figures(theirs), f"{ratio:.1f}"]
        lines.append(tuple(line))
    return aligned(lines)


def differences_table(results: list[dict[str, Any]]) -> tuple[str, int]:
    """All differences with their reasons, alike ones in one line, and how many are unexpected."""
    found = [(result["where"], Difference(**item)) for result in results for item in result["differences"]]
    # The same in two places is one, though names of files in it may differ.
    places: dict[tuple[str, str, str], set[str]] = {}
    first: dict[tuple[str, str, str], Difference] = {}
    for where, difference in found:
        key = difference.cell, difference.what, difference.reason() or f"UNEXPECTED in {difference.cell}"
        places.setdefault(key, set()).add(where)
        first.setdefault(key, difference)
    alike: dict[tuple[str, str], list[Difference]] = {}
    for key, difference in first.items():
        only = f" (only {min(places[key])})" if len(places[key]) < len(results) else ""
        alike.setdefault((difference.what, key[2] + only), []).append(difference)
    lines: list[tuple[str, ...]] = [("cell", "what", OURS, JUPYTER, "why")]
    for (what, why), group in alike.items():
        more = f" and {len(group) - 1} more" if len(group) > 1 else ""
        lines.append((group[0].cell + more, what, *first_difference(group[0].ours, group[0].theirs), why))
    return aligned(lines), sum(not difference.reason() for _, difference in found)


def first_difference(ours: str, theirs: str) -> list[str]:
    """Return the first lines that differ, short enough for a table."""
    pairs = itertools.zip_longest(ours.splitlines(), theirs.splitlines(), fillvalue="")
    pair = next((pair for pair in pairs if pair[0] != pair[1]), (repr(ours), repr(theirs)))
    return [line if len(line) <= VALUE_CHARS else line[: VALUE_CHARS - 1] + "…" for line in pair]


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Compare this kernel with ipykernel: outputs and times.")
    parser.add_argument("--quick", action="store_true", help="a fifth of the rounds")
    parser.add_argument("--where", default="here", help="what the columns of this place are called (here)")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the result there and print nothing")
    parser.add_argument("--other", metavar="FILE", type=Path, help="a result from elsewhere, printed beside this one")
    return parser.parse_args()


def main() -> int:
    """Compare, measure, print. Returns the exit status."""
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory(prefix="bench-kernel-") as directory:
        bench = Bench(arguments.where, directory, 0.2 if arguments.quick else 1)
        bench.run()
    results = [bench.result()]
    if arguments.json:
        arguments.json.write_text(json.dumps(results[0]))
        return 0
    if arguments.other:
        results.append(json.loads(arguments.other.read_text()))
    found, unexpected = differences_table(results)
    print("\n".join(result["about"] for result in results))
    print(f"\n{times_table(results)}\n\n{len(CELLS)} cells, and where their outputs differ\n\n{found}")
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
