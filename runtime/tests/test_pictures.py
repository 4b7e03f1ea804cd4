# SPDX-License-Identifier: Apache-2.0
"""Pictures of plotly figures: the service, its browser, and what kernels make of them."""

from __future__ import annotations

import array
import base64
import contextlib
import json
import os
import select
import shutil
import signal
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import WAIT_S, KernelClient, Zygote

from pandastack_kernel import frames, pictures, pictures_service

FIGURE = json.dumps({"data": [{"type": "bar", "x": ["a", "b"], "y": [1, 2]}], "layout": {}})
# Minutes of work for the page, and little to send.
ENDLESS = json.dumps(
    {
        "data": [{"type": "scatter", "mode": "markers", "x0": 0, "dx": 1, "y": [0] * 400_000, "text": "t"}],
        "layout": {},
    }
)
PNG = b"\x89PNG\r\n\x1a\n"


def size_of_png(picture: bytes) -> tuple[int, int]:
    assert picture.startswith(PNG)
    width, height = struct.unpack(">II", picture[16:24])
    return width, height


class Service:
    """A service in a process of its own, started as the zygote starts it."""

    def __init__(self) -> None:
        pictures.start()
        if pictures._address is None:
            pytest.skip("no Chromium, plotly or Kaleido on this machine")
        pictures.wait()
        assert pictures._address is not None, "the browser does not start"
        self.address = pictures._address

    @property
    def folder(self) -> Path:
        return Path(self.address).parent

    def processes(self) -> dict[int, str]:
        """The browser's processes and their states."""
        service = peer_of(self.address)
        found = {}
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                # State, parent, process group, session.
                if int(fields[3]) == service and int(entry.name) != service and fields[0] != "Z":
                    found[int(entry.name)] = fields[0]
        return found

    def browser(self) -> int:
        """The browser's first process: the service's child."""
        service = peer_of(self.address)
        return next(pid for pid in self.processes() if parent_of(pid) == service)

    def ask(self, request: bytes) -> tuple[bytes, bytes]:
        """Send any bytes; return the answer's frame."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.connect(self.address)
            sock.sendall(request)
            return pictures.receive(sock, time.monotonic() + WAIT_S, 1 << 28)


def peer_of(address: str) -> int:
    """The process that listens at an address."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.connect(address)
        credentials = array.array("i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return credentials[0]


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def wait_gone(pid: int) -> None:
    fd = os.pidfd_open(pid)
    try:
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PIDFD, fd, os.WEXITED)
    finally:
        os.close(fd)


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    started = Service()
    yield started
    pictures.forget()


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that knows of no service; what the test makes of it is undone."""
    monkeypatch.setattr(pictures, "_address", None)
    monkeypatch.setattr(pictures, "_lifeline", None)


# The service.


def test_png(service: Service) -> None:
    assert size_of_png(pictures.draw(FIGURE)) == (700, 500)
    assert size_of_png(pictures.draw(FIGURE, width=300, height=200, scale=2)) == (600, 400)


@pytest.mark.parametrize(
    ("kind", "start"),
    [("svg", b"<svg"), ("jpeg", b"\xff\xd8\xff"), ("webp", b"RIFF"), ("pdf", b"%PDF"), ("json", b"{")],
)
def test_other_formats(service: Service, kind: str, start: bytes) -> None:
    assert pictures.draw(FIGURE, format=kind).startswith(start)


def test_figures_do_not_meet(service: Service) -> None:
    first = pictures.draw(FIGURE)
    pictures.draw(json.dumps({"data": [{"type": "pie", "values": [1, 2]}], "layout": {"title": {"text": "x"}}}))
    assert pictures.draw(FIGURE) == first


@pytest.mark.parametrize("figure", ["{", "[]", '{"data": 1}', '{}}, "id": 1, "method": "Browser.close"'])
def test_bad_figure(service: Service, figure: str) -> None:
    with pytest.raises(pictures.PictureError):
        pictures.draw(figure)
    assert pictures.draw(FIGURE).startswith(PNG)


def test_kaleido_numbers_its_errors(service: Service) -> None:
    with pytest.raises(pictures.PictureError) as caught:
        pictures.draw('{"data": 1}')
    assert caught.value.code == 400


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"[]",
        b'{"format": "exe", "width": 1, "height": 1, "scale": 1, "time_s": 1}',
        b'{"format": "png", "width": "1", "height": 1, "scale": 1, "time_s": 1}',
        b'{"format": "png", "width": NaN, "height": 1, "scale": 1, "time_s": 1}',
        b'{"format": "png", "width": 100000, "height": 100000, "scale": 1, "time_s": 1}',
        b'{"format": "png", "width": 1, "height": 1, "scale": 1, "time_s": 1, "topojson": 1}',
    ],
)
def test_bad_request(service: Service, header: bytes) -> None:
    kind, answer = service.ask(frames.encode(pictures.DRAW, header + b"\n" + FIGURE.encode()))
    assert kind == pictures.FAILURE
    assert json.loads(answer)["message"]
    assert pictures.draw(FIGURE).startswith(PNG)


def test_other_kind_of_request(service: Service) -> None:
    assert service.ask(frames.encode(b"?", b""))[0] == pictures.FAILURE


def test_huge_request(service: Service) -> None:
    kind, answer = service.ask(struct.pack("<IB", (1 << 32) - 1, pictures.DRAW[0]))
    assert kind == pictures.FAILURE
    assert "bytes" in json.loads(answer)["message"]


def test_huge_figure_is_not_sent(service: Service) -> None:
    with pytest.raises(pictures.PictureError, match="bytes"):
        pictures.draw(" " * (pictures.MAX_FIGURE_BYTES + 1))


def test_client_that_hangs_up(service: Service) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.connect(service.address)
        sock.sendall(frames.encode(pictures.DRAW, b"half")[:-2])
    assert pictures.draw(FIGURE).startswith(PNG)


def test_out_of_time(service: Service) -> None:
    with pytest.raises(pictures.PictureError, match="too long"):
        pictures.draw(ENDLESS, time_s=0.5)
    assert pictures.draw(FIGURE).startswith(PNG)


def test_browser_that_was_killed(service: Service) -> None:
    before = pictures.draw(FIGURE)
    browser = service.browser()
    os.kill(browser, signal.SIGKILL)
    assert pictures.draw(FIGURE) == before
    assert service.browser() != browser


def test_page_that_was_killed(service: Service) -> None:
    browser = service.browser()
    for pid in service.processes():
        if pid != browser:
            os.kill(pid, signal.SIGKILL)
    assert pictures.draw(FIGURE).startswith(PNG)


def test_idle_browser_is_frozen(service: Service) -> None:
    pictures.draw(FIGURE)
    states = service.processes()
    assert len(states) >= 2
    assert set(states.values()) == {"T"}, "stopped: whatever timers it has, it uses no processor"


def test_browser_is_in_a_private_folder(service: Service) -> None:
    assert service.folder.stat().st_mode & 0o777 == 0o700


def test_interrupt(service: Service) -> None:
    """A SIGINT while the browser draws ends the waiting, and the service goes on."""
    process = peer_of(service.address)
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        # The browser runs only while it draws.
        while set(service.processes().values()) == {"T"}:
            pass
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        pictures.draw(ENDLESS)
    thread.join()
    assert pictures.draw(FIGURE).startswith(PNG)
    assert peer_of(service.address) == process


# Without a service.


@pytest.mark.usefixtures("alone")
def test_no_service() -> None:
    with pytest.raises(pictures.NoServiceError):
        pictures.draw(FIGURE)
    data: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    pictures.add_png(data, metadata, FIGURE, json.loads(FIGURE))
    assert not data
    assert metadata["omitted"].keys() == {"image/png"}


@pytest.mark.usefixtures("alone")
def test_service_that_is_gone(tmp_path: Path) -> None:
    pictures.connect(str(tmp_path / "socket"))
    with pytest.raises(pictures.NoServiceError):
        pictures.draw(FIGURE)


@pytest.mark.usefixtures("alone")
def test_no_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "BROWSERS", ("/nonexistent",))
    pictures.start()
    pictures.wait()
    assert pictures._address is None


@pytest.mark.usefixtures("alone")
def test_browser_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("kaleido")
    monkeypatch.setattr(pictures, "BROWSERS", ("/bin/false",))
    pictures.start()
    pictures.wait()
    assert pictures._address is None


@pytest.mark.usefixtures("alone")
def test_service_ends_with_the_zygote() -> None:
    started = Service()
    pid, browser = peer_of(started.address), started.browser()
    pictures.forget()
    wait_gone(pid)
    with pytest.raises(ProcessLookupError):
        os.kill(browser, 0)
    assert not started.folder.exists()


@pytest.mark.usefixtures("alone")
def test_browser_ends_with_a_killed_service() -> None:
    """Frozen as it is: the kernel wakes an orphaned process group and hangs up on it."""
    started = Service()
    pid, browser = peer_of(started.address), started.browser()
    fd = os.pidfd_open(browser)
    os.kill(pid, signal.SIGKILL)
    wait_gone(pid)
    assert select.select([fd], [], [], WAIT_S)[0]
    os.close(fd)
    with pytest.raises(pictures.NoServiceError):
        pictures.draw(FIGURE)
    shutil.rmtree(started.folder)


def test_request_limits() -> None:
    header = {"format": "png", "width": 700, "height": 500, "scale": 1, "time_s": 1e9}
    request = pictures_service.parse_request(json.dumps(header).encode() + b"\n{}")
    assert request.figure == "{}"
    assert request.deadline < time.monotonic() + 1000


# In a kernel.


@pytest.fixture(scope="module")
def drawing(zygote: Zygote) -> Iterator[KernelClient]:
    client = zygote.kernel(cwd="/tmp")
    answer = client.ok("from pandastack_kernel import pictures; pictures._address is not None")
    if answer.text != "True":
        client.close()
        pytest.skip("no Chromium, plotly or Kaleido on this machine")
    yield client
    client.close()


def test_value_of_a_cell(drawing: KernelClient) -> None:
    answer = drawing.ok("import plotly.express as px\nfig = px.line(x=[1, 2], y=[3, 4])\nfig")
    assert size_of_png(base64.b64decode(answer.main["image/png"])) == (700, 500)
    assert "application/vnd.plotly.v1+json" in answer.main
    assert "omitted" not in answer.results[0]["metadata"]


def test_show(drawing: KernelClient) -> None:
    answer = drawing.ok("fig.update_layout(width=320, height=240).show()")
    assert size_of_png(base64.b64decode(answer.results[0]["data"]["image/png"])) == (320, 240)


def test_to_image(drawing: KernelClient) -> None:
    """Through the warm browser, and the same picture."""
    code = "import plotly.graph_objects as go, plotly.io as pio\nfig = go.Figure(go.Bar(x=['a'], y=[1]))\n"
    drawing.ok(code + "png = fig.to_image(format='png', width=200, height=100)")
    assert drawing.ok("png == pictures.draw(fig.to_json(), width=200, height=100)").text == "True"
    for kind in ("png", "jpg", "jpeg", "webp", "svg", "pdf"):
        assert drawing.ok(f"len(pio.to_image(fig, {kind!r})) > 100").text == "True"


def test_write_image(drawing: KernelClient, tmp_path: Path) -> None:
    drawing.ok(f"import os; os.chdir({str(tmp_path)!r})")
    drawing.ok("fig.write_image('a.png'); pio.write_images([fig, fig], ['b.svg', 'c.pdf'])")
    assert (tmp_path / "a.png").read_bytes().startswith(PNG)
    assert (tmp_path / "b.svg").read_bytes().startswith(b"<svg")
    assert (tmp_path / "c.pdf").read_bytes().startswith(b"%PDF")
    drawing.ok("import kaleido\nkaleido.write_fig_sync([fig, fig], '.', {'format': 'png'})")
    assert len(list(tmp_path.glob("fig*.png"))) == 2


def test_errors_are_kaleidos(drawing: KernelClient) -> None:
    answer = drawing.run("import kaleido; kaleido.calc_fig_sync({'data': 1})")
    assert answer.error["name"] == "KaleidoError"
    assert "400" in answer.error["value"]
    assert drawing.run("fig.to_image(format='bmp')").error["name"] == "ValueError"


def test_interrupted_cell(drawing: KernelClient) -> None:
    drawing.ok("endless = go.Figure(go.Scatter(y=[0] * 400_000, mode='markers', text='t'))")
    drawing.request("print('now', flush=True)\nendless.to_image()")

    def interrupt(kind: bytes, value: Any) -> None:
        if kind == frames.STDOUT:
            drawing.interrupt()

    answer = drawing.collect(on_frame=interrupt)
    assert answer.error["name"] == "KeyboardInterrupt"
    assert "image/png" in drawing.ok("fig").main


def test_large_figure_is_shown_without_a_picture(drawing: KernelClient) -> None:
    answer = drawing.ok("go.Figure(layout=dict(title='x' * (9 << 20)))")
    assert "application/vnd.plotly.v1+json" in answer.main
    assert "image/png" in answer.results[0]["metadata"]["omitted"]
