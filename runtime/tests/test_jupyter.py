# SPDX-License-Identifier: Apache-2.0
"""The bridge to Jupyter kernels: ipykernel, and R where it is installed."""

from __future__ import annotations

import importlib.util
import json
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import KernelClient, Zygote

from pandastack_kernel import frames, jupyter, kernelspecs

if importlib.util.find_spec("ipykernel") is None or importlib.util.find_spec("jupyter_client") is None:
    pytest.skip("ipykernel and jupyter_client are not installed", allow_module_level=True)

needs_r = pytest.mark.skipif(
    jupyter.find_kernel("R") is None, reason="no Jupyter kernel for R is installed (Debian: r-cran-irkernel)"
)


@pytest.fixture(scope="module")
def ipython(zygote: Zygote) -> Iterator[KernelClient]:
    """One kernel for the tests that leave it alive."""
    client = zygote.kernel(cwd="/tmp", language="jupyter:python3")
    yield client
    client.close()


@pytest.fixture
def own(zygote: Zygote, tmp_path: Path) -> Iterator[KernelClient]:
    client = zygote.kernel(cwd=str(tmp_path), language="jupyter:python3")
    yield client
    client.close()


@pytest.fixture(scope="module")
def r(zygote: Zygote) -> Iterator[KernelClient]:
    client = zygote.kernel(cwd="/tmp", language="R")
    yield client
    client.close()


def interrupted(kernel: KernelClient, code: str) -> Any:
    """Run a cell that says "go", interrupt it then and every half second, and return its answer."""
    done = threading.Event()
    threads: list[threading.Thread] = []

    def repeat() -> None:
        while True:
            kernel.interrupt()
            if done.wait(0.5):
                return

    def on_frame(kind: bytes, data: object) -> None:
        if kind == frames.STDOUT and not threads:
            threads.append(threading.Thread(target=repeat))
            threads[0].start()

    kernel.request(code)
    try:
        answer = kernel.collect(30, on_frame)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert threads
    return answer


# Cells.


def test_text_and_results(ipython: KernelClient) -> None:
    answer = ipython.ok("import sys\nx = 41\nprint('é'); print('bad', file=sys.stderr)\nx + 1")
    assert (answer.stdout, answer.stderr, answer.text) == ("é\n", "bad\n", "42")
    assert ipython.ok("x").text == "41"
    first, second = (ipython.ok(code).done for code in ("1", "2"))
    assert first is not None and second is not None
    assert second["execution_count"] == first["execution_count"] + 1
    assert ipython.ok("").events == []


def test_displays(ipython: KernelClient) -> None:
    answer = ipython.ok(
        "from IPython.display import HTML, clear_output, display\n"
        "h = display(HTML('<b>1</b>'), display_id='mine')\nh.update(HTML('<b>2</b>'))\nclear_output(wait=True)\n"
        "display({'application/json': {'a': [1, None]}, 'image/png': b'\\x89PNG'}, raw=True, metadata={'image/png': {'width': 3}})"
    )
    one, two, clear, raw = answer.events
    assert (one["display_id"], one["data"]["text/html"], "update" in one) == ("mine", "<b>1</b>", False)
    assert (two["display_id"], two["data"]["text/html"], two["update"]) == ("mine", "<b>2</b>", True)
    assert clear == {"type": "clear_output", "wait": True}
    assert raw["data"] == {"application/json": '{"a":[1,null]}', "image/png": "iVBORw=="}
    assert raw["metadata"] == {"image/png": {"width": 3}}
    assert not any(event.get("is_main_result") for event in answer.events)


def test_large_values(ipython: KernelClient) -> None:
    assert len(ipython.ok("'y' * 3_000_000").text) == 3_000_002
    assert len(ipython.ok("print('z' * 3_000_000)").stdout) == 3_000_001


def test_errors(ipython: KernelClient) -> None:
    answer = ipython.run("def f():\n    1/0\nf()")
    assert answer.status == "error"
    assert (answer.error["name"], answer.error["value"]) == ("ZeroDivisionError", "division by zero")
    assert "----> 2     1/0" in answer.error["traceback"]
    assert "\x1b" not in answer.error["traceback"]
    assert "\x1b[" in ipython.run("1/0", ansi=True).error["traceback"]
    assert "\\x07" in ipython.run("raise ValueError('\\x07')").error["traceback"]
    assert ipython.run("(").error["name"] == "SyntaxError"


def test_help_is_text(ipython: KernelClient) -> None:
    answer = ipython.ok("len?")
    assert answer.stdout.startswith("Signature:")
    assert "\x1b" not in answer.stdout


def test_bytes_written_past_the_kernel(ipython: KernelClient) -> None:
    answer = ipython.ok("import subprocess; subprocess.run(['echo', 'child'])")
    assert b"child\n" in answer.pipe_out or "child\n" in answer.stdout


def test_environment(ipython: KernelClient, zygote: Zygote, tmp_path: Path) -> None:
    answer = ipython.run("1", env={"A": "1"})
    assert answer.status == "error"
    assert "no environment for one cell" in answer.error["traceback"]
    kernel = zygote.kernel(str(tmp_path), {"PATH": os.environ["PATH"], "WHO": "me"}, "jupyter:python3")
    try:
        assert kernel.ok("import os; os.environ['WHO'], os.getcwd()").text == repr(("me", str(tmp_path)))
    finally:
        kernel.close()


def test_input(ipython: KernelClient) -> None:
    assert ipython.run("input('name? ')").error["name"] == "StdinNotImplementedError"
    ipython.request("import getpass\ninput('name? ') + getpass.getpass('word? ')", allow_stdin=True)
    asked = []

    def on_frame(kind: bytes, data: Any) -> None:
        if kind == frames.ASK:
            asked.append((data["prompt"], data["password"]))
            ipython.control.sendall(frames.encode_json(frames.INPUT, {"value": f"answer {len(asked)} "}))

    answer = ipython.collect(20, on_frame)
    assert answer.text == "'answer 1 answer 2 '"
    assert asked == [("name? ", False), ("word? ", True)]
    ipython.control.sendall(frames.encode_json(frames.INPUT, {"value": "nobody asked"}))
    assert ipython.ok("1").text == "1"


def test_what_is_huge_is_cut(ipython: KernelClient) -> None:
    ipython.ok("from IPython.display import display\nhuge = 'x' * (33 << 20)")
    answer = ipython.run("raise ValueError(huge)")
    assert answer.status == "error"
    assert " characters left out ...]" in answer.error["value"]
    answer = ipython.ok("display({'text/plain': 'x'}, raw=True, metadata={'note': huge})")
    assert [event["type"] for event in answer.events] == ["dropped"]
    ipython.request("input(huge)", allow_stdin=True)
    asked = []

    def on_frame(kind: bytes, data: Any) -> None:
        if kind == frames.ASK:
            asked.append(data["prompt"])
            ipython.control.sendall(frames.encode_json(frames.INPUT, {"value": "answer"}))

    assert ipython.collect(60, on_frame).text == "'answer'"
    assert asked == ["x" * 4096]
    assert ipython.ok("len(huge)").text == str(33 << 20)


def test_interrupt(ipython: KernelClient) -> None:
    for code in ("import time; time.sleep(1000)", "while True: pass", "while True: print('spam')"):
        answer = interrupted(ipython, f"y = 5\nprint('go', flush=True)\n{code}")
        assert answer.status == "error"
        assert answer.error["name"] == "KeyboardInterrupt"
        assert ipython.ok("y").text == "5"
    ipython.interrupt()
    assert ipython.ok("1").text == "1", "between cells it is nothing"


def test_interrupt_while_it_asks(ipython: KernelClient) -> None:
    ipython.request("input('?')", allow_stdin=True)
    answer = ipython.collect(20, lambda kind, data: ipython.interrupt() if kind == frames.ASK else None)
    assert answer.status == "error"
    assert answer.errors[0]["name"] == "KeyboardInterrupt"
    assert ipython.ok("1").text == "1"


def test_interrupt_by_message(zygote: Zygote, tmp_path: Path) -> None:
    spec = {
        "argv": [
            "python",
            "-c",
            "import signal; signal.signal(2, signal.SIG_IGN)\n" + _LAUNCH,
            "-f",
            "{connection_file}",
        ],
        "display_name": "by message",
        "language": "python",
        "interrupt_mode": "message",
    }
    path = user_kernel("by-message", spec)
    try:
        kernel = zygote.kernel(str(tmp_path), language="by-message")
        try:
            answer = interrupted(
                kernel, "print('go', flush=True)\nimport time\nfor _ in range(10000): time.sleep(0.01)"
            )
            assert answer.error["name"] == "KeyboardInterrupt"
        finally:
            kernel.close()
    finally:
        (path / "kernel.json").unlink()
        path.rmdir()


_LAUNCH = "from ipykernel import kernelapp\nkernelapp.launch_new_instance()"


def user_kernel(name: str, spec: object) -> Path:
    """Install a kernel where the zygote looks for one."""
    path = kernelspecs.directories()[0] / name
    path.mkdir(parents=True, exist_ok=True)
    (path / "kernel.json").write_text(json.dumps(spec))
    return path


# The kernel's process.


def test_no_ports_and_private_files(own: KernelClient) -> None:
    answer = own.ok(
        "import os, sys\nfrom ipykernel.connect import get_connection_file\nf = get_connection_file()\n"
        "import json; i = json.load(open(f))\n"
        "i['transport'], oct(os.stat(f).st_mode & 0o777), oct(os.stat(os.path.dirname(f)).st_mode & 0o777)"
    )
    assert answer.text == "('ipc', '0o600', '0o700')"
    directory = own.ok("os.path.dirname(f)").text.strip("'")
    own.control.shutdown(socket.SHUT_RDWR)
    assert own.wait_exit() == 0
    assert not Path(directory).exists()


def test_the_kernel_is_older_than_any_cell(own: KernelClient) -> None:
    now = int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))
    pid = int(own.ok("import os; os.getpid()").text)
    assert int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]) < now


@pytest.mark.parametrize(
    ("code", "status"),
    [("import os; print('last', flush=True); os._exit(3)", 3), ("import os; os.kill(os.getpid(), 9)", -9)],
)
def test_death(own: KernelClient, code: str, status: int) -> None:
    own.request(code)
    assert own.collect().done is None
    assert os.waitstatus_to_exitcode(own.wait_exit()) == status


def test_the_kernel_ends_with_its_driver(own: KernelClient) -> None:
    descriptor = os.pidfd_open(int(own.ok("import os; os.getpid()").text))
    os.kill(own.pid, signal.SIGKILL)
    own.wait_exit()
    assert select.select([descriptor], [], [], 20)[0]
    os.close(descriptor)


def test_slow_readers_hold_the_kernel_back(own: KernelClient) -> None:
    """Nobody reads while the cell shows 200 MB: what is not taken stays small, the kernel is stopped; then all is there."""
    pid = int(own.ok("import os; from IPython.display import display; os.getpid()").text)
    own.request("for i in range(200): display({'text/plain': str(i) + 'x' * 1_000_000}, raw=True)\nprint('end')")
    deadline = time.monotonic() + 30
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < deadline, "it is not stopped"
    rss = next(line for line in Path(f"/proc/{own.pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    assert int(rss.split()[1]) < 500_000
    answer = own.collect(60)
    assert [event["data"]["text/plain"].rstrip("x") for event in answer.results] == [str(i) for i in range(200)]
    assert answer.stdout == "end\n"


def test_a_stopped_kernel_is_interrupted(own: KernelClient) -> None:
    own.request("from IPython.display import display\nwhile True: display({'text/plain': 'x' * 1_000_000}, raw=True)")
    assert select.select([own.control], [], [], 20)[0]
    own.interrupt()
    answer = own.collect(60)
    assert answer.error["name"] == "KeyboardInterrupt"
    assert own.ok("1").text == "1"


def test_many_messages(own: KernelClient) -> None:
    answer = own.ok("from IPython.display import display\nfor i in range(5000): display(i)", timeout_s=60)
    assert [int(event["data"]["text/plain"]) for event in answer.results] == list(range(5000))


# Which kernels there are.


def test_find(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    kernels = tmp_path / "kernels"

    def add(name: str, text: str) -> None:
        (kernels / name).mkdir(parents=True)
        (kernels / name / "kernel.json").write_text(text)

    add("Zeta", '{"argv": ["zeta", "{connection_file}"], "language": "Fortran"}')
    add("alpha", '{"argv": ["alpha"], "language": "fortran", "env": {"A": "${HOME}"}, "interrupt_mode": "message"}')
    for number, text in enumerate(
        ("", "{", "[]", "null", "{}", '{"argv": []}', '{"argv": "x"}', '{"argv": ["x"], "env": 3}')
    ):
        add(f"broken{number}", text)
    add("deep", "[" * 100_000)
    (kernels / "file").write_text("x")
    (kernels / "nothing").mkdir()
    (kernels / "loop").symlink_to("loop")
    (kernels / "bytes").mkdir()
    (kernels / "bytes" / "kernel.json").write_bytes(b"\xff\xfe")
    names = jupyter.kernel_names()
    assert {"zeta", "alpha", "python3"} <= set(names)
    assert not any(
        name.startswith("broken") or name in ("deep", "file", "nothing", "loop", "bytes") for name in names
    )
    found = jupyter.find_kernel("FORTRAN")
    assert found is not None
    assert (found.name, found.interrupt_by_message, found.env) == ("alpha", True, {"A": "${HOME}"})
    found = jupyter.find_kernel("zeta")
    assert found is not None
    assert found.command("/c.json") == ["zeta", "/c.json"]
    assert jupyter.find_kernel("nosuch") is None
    python = jupyter.find_kernel("python3")
    assert python is not None
    assert python.command("f")[0] == sys.executable


def test_without_jupyter_client_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernelspecs, "_runnable", lambda: False)
    assert jupyter.kernel_names() == []
    assert jupyter.find_kernel("python3") is None


def test_the_zygote_finds_them(zygote: Zygote) -> None:
    assert "python3" in zygote.ready["languages"]


def test_a_kernel_that_does_not_start(zygote: Zygote) -> None:
    path = user_kernel("not-there", {"argv": ["/nosuch"], "language": "none"})
    try:
        client, theirs = zygote.start("/", None, "not-there")
        for fd in theirs:
            os.close(fd)
        answer = client.collect()
        assert answer.done is None
        assert b"the Jupyter kernel not-there does not start" in answer.pipe_err
        client.close()
    finally:
        (path / "kernel.json").unlink()
        path.rmdir()


# R.


@needs_r
def test_r_text_and_tables(r: KernelClient) -> None:
    answer = r.ok("x <- 41\ncat('é\\n')\nmessage('told')\nx + 1")
    assert (answer.stdout, answer.stderr.strip()) == ("é\n", "told")
    assert answer.results[0]["data"]["text/plain"] == "[1] 42"
    table = r.ok("data.frame(a = 1:2, b = c('x', 'y'))").results[0]["data"]
    assert "<table" in table["text/html"]
    assert r.ok("x").results[0]["data"]["text/plain"] == "[1] 41"


@needs_r
def test_r_plots(r: KernelClient) -> None:
    assert r.ok("plot(1:3)").pngs == 1
    assert r.ok("options(jupyter.plot_mimetypes = 'image/svg+xml'); plot(1:3)").results[0]["data"]["image/svg+xml"]
    r.ok("options(jupyter.plot_mimetypes = c('text/plain', 'image/png'))")


@needs_r
def test_r_errors(r: KernelClient) -> None:
    answer = r.run("stop('bad')")
    assert answer.status == "error"
    assert "bad" in answer.error["value"]
    assert "stop" in answer.error["traceback"]
    assert r.run("1 +").status == "error"


@needs_r
def test_r_interrupt(r: KernelClient) -> None:
    answer = interrupted(r, "y <- 5; cat('go\\n'); flush.console(); Sys.sleep(1000)")
    assert answer.status == "error"
    assert [error["name"] for error in answer.errors] == ["KeyboardInterrupt"]
    assert r.ok("y").results[0]["data"]["text/plain"] == "[1] 5"


@needs_r
def test_r_death(zygote: Zygote) -> None:
    kernel = zygote.kernel(language="ir")
    try:
        kernel.request("tools::pskill(Sys.getpid(), 9)")
        assert kernel.collect().done is None
        assert os.waitstatus_to_exitcode(kernel.wait_exit()) == -9
    finally:
        kernel.close()
