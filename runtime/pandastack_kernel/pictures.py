# SPDX-License-Identifier: Apache-2.0
"""Pictures of plotly figures, drawn by the browser that is already running: starting it, and asking it.

Theory of operation. A browser takes tens of seconds to start on a software CPU, so one is started before the
memory snapshot is taken and kept by a service of its own (``pictures_service``). The zygote starts that
(``start``) and waits until it has drawn once (``wait``); kernels, which are forks, know its address and ask it: one
connection, one request, one answer. An interrupt closes the connection, upon which the service stops drawing.

    client → service   D   a line of JSON {"format","width","height","scale","time_s","topojson"?,"shown"?}, then
                           the figure's JSON
    service → client   P   the picture
                       X   {"message","code"}: none; the code is Kaleido's where it has one

Where there is no browser or no Kaleido, no service is started, and figures come without a picture. Code that
asks plotly or Kaleido for a picture is served from here too (``hook_kaleido``), in all of Kaleido's formats. What the
page that is ready cannot do (another plotly.js, MathJax, HTTP headers) is left to Kaleido and a browser of
its own.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import json
import os
import select
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from . import frames

BROWSERS = (
    "/usr/lib/chromium/chromium-headless-shell",
    "chromium-headless-shell",
    "/usr/lib/chromium/chromium",
    "chromium",
)
"""In the order of preference: the shell is lighter. Debian's commands are scripts; what they start comes first."""

FORMATS = ("png", "jpeg", "webp", "svg", "pdf", "json")
WIDTH = 700
HEIGHT = 500
"""Kaleido's size of a figure that has none."""
MAX_FIGURE_BYTES = 32 << 20
"""Largest figure that is drawn; the browser takes messages of up to 100 MB, in which quotes count double."""
MAX_SHOWN_BYTES = 8 << 20
"""Largest figure that is drawn only because it is displayed."""
SHOW_S = 20.0
"""Time for the picture of a figure that is displayed: less than a cell has, unless it is given more."""
ASKED_S = 90.0
"""Time for a picture that the code asks for: Kaleido's own limit."""

HEADERS = {"X-Requested-With": "plotly.py"}
"""What plotly has Kaleido send to servers of map tiles, unless it is told otherwise."""

PNG_MIME = "image/png"

DRAW = b"D"
PICTURE = b"P"
FAILURE = b"X"
READY = b"r"

_MAX_PICTURE_BYTES = 128 << 20
_START_S = 300.0
_GRACE_S = 2.0
_CHUNK_BYTES = 1 << 18


class NoServiceError(Exception):
    """There is nobody to ask."""


class PictureError(Exception):
    """No picture was made; the message says why."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        """The number that Kaleido's script gives the failure, if it is its own."""


_address: str | None = None
# The zygote's alone: when that ends, so does the service.
_lifeline: socket.socket | None = None
_show_s = SHOW_S


def start() -> None:
    """Start the service in the background, if this machine has what it needs.

    It listens in a new folder of its own; PANDASTACK_PICTURES=off does without.
    """
    global _address, _lifeline
    if os.environ.get("PANDASTACK_PICTURES") == "off":
        return
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    plotly = _file_of("plotly", "package_data", "plotly.min.js")
    scopes = _file_of("kaleido", "vendor", "kaleido_scopes.js")
    if browser is None or plotly is None or scopes is None:
        return
    runtime = str(Path(__file__).resolve().parent.parent)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = tempfile.mkdtemp(prefix="pandastack-pictures-", dir="/run" if os.access("/run", os.W_OK) else None)
    places = ["--folder", folder, "--browser", browser, "--plotly", plotly, "--scopes", scopes]
    command = [
        sys.executable,
        "-P",
        "-m",
        "pandastack_kernel.pictures_service",
        *places,
        "--fd",
        str(theirs.fileno()),
    ]
    with theirs:
        os.set_inheritable(theirs.fileno(), True)
        try:
            os.posix_spawn(sys.executable, command, {**os.environ, "PYTHONPATH": runtime}, setsid=True)
        except OSError:
            ours.close()
            shutil.rmtree(folder, ignore_errors=True)
            return
    _address, _lifeline = socket_in(folder), ours


def _let_go() -> None:
    """In a fork: keep the address, leave the service's life to the zygote."""
    global _lifeline
    if _lifeline is not None:
        _lifeline.close()
        _lifeline = None


os.register_at_fork(after_in_child=_let_go)


def socket_in(folder: str | Path) -> str:
    """Return where a service listens that was given ``folder``."""
    return str(Path(folder, "socket"))


def wait() -> None:
    """Wait until the service has drawn its first picture and its browser is frozen; without it go on alone."""
    if _lifeline is None:
        return
    _lifeline.settimeout(_START_S)
    try:
        if _lifeline.recv(len(READY)) == READY:
            return
    except OSError:
        pass
    print("pandastack: the browser for plotly's pictures does not start", file=sys.stderr)
    forget()


@contextlib.contextmanager
def patience() -> Iterator[None]:
    """Give displayed figures the time that others get: nobody waits for them yet."""
    global _show_s
    _show_s = ASKED_S
    try:
        yield
    finally:
        _show_s = SHOW_S


def forget() -> None:
    """Do without the service from here on; it ends if it was ours."""
    global _address, _lifeline
    if _lifeline is not None:
        _lifeline.close()
    _address = _lifeline = None


def connect(address: str) -> None:
    """Ask the service at ``address`` from here on, whoever has started it."""
    global _address
    forget()
    _address = address


def _file_of(package: str, *names: str) -> str | None:
    """Return a file of a package without importing that."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    for folder in (spec.submodule_search_locations if spec else None) or ():
        path = Path(folder, *names)
        if path.is_file():
            return str(path)
    return None


def draw(
    figure: str,
    *,
    format: str = "png",
    width: float = WIDTH,
    height: float = HEIGHT,
    scale: float = 1,
    topojson: str | None = None,
    shown: bool = False,
    time_s: float = ASKED_S,
) -> bytes:
    """Return a picture of a figure.

    Args:
        figure: plotly's JSON.
        format: one of FORMATS.
        width: in CSS pixels.
        height: in CSS pixels.
        scale: pixels per CSS pixel.
        topojson: where outlines for maps are.
        shown: the figure is displayed: if the machine is slow, a quick picture is better than Kaleido's.
        time_s: how long to wait for it.

    Raises:
        NoServiceError: there is nobody to ask.
        PictureError: it could not be drawn, or not in time.
        KeyboardInterrupt: the cell was interrupted; the service goes on.
    """
    deadline = time.monotonic() + time_s
    data = figure.encode("utf-8", "replace")
    if len(data) > MAX_FIGURE_BYTES:
        raise PictureError(f"the figure has {len(data)} bytes; pictures are drawn of up to {MAX_FIGURE_BYTES}")
    header: dict[str, Any] = {"format": format, "width": width, "height": height, "scale": scale, "time_s": time_s}
    header |= {"topojson": topojson} if topojson else {}
    header |= {"shown": True} if shown else {}
    request = frames.encode(DRAW, json.dumps(header).encode() + b"\n" + data)
    if _address is None:
        raise NoServiceError("there is no browser that draws it")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        try:
            sock.settimeout(time_s)
            sock.connect(_address)
        except OSError as error:
            raise NoServiceError(f"the browser that draws it is gone: {error.strerror}") from error
        try:
            sock.sendall(request)
            # The service keeps the same limit and says so: its word comes first.
            kind, answer = receive(sock, deadline + _GRACE_S, _MAX_PICTURE_BYTES)
        except (OSError, ValueError) as error:
            raise PictureError(f"no picture: {error}") from error
    if kind == PICTURE:
        return answer
    failure = json.loads(answer)
    raise PictureError(failure["message"], failure["code"])


def receive(sock: socket.socket, deadline: float, max_bytes: int) -> tuple[bytes, bytes]:
    """Return the one frame that comes on a socket.

    Raises:
        ValueError: it is larger than ``max_bytes``.
        OSError: it does not come before ``deadline`` of the monotonic clock, or not whole.
    """
    sock.setblocking(False)
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    decoder = frames.Decoder(max_bytes)
    while (frame := decoder.next()) is None:
        if not poll.poll(max(deadline - time.monotonic(), 0) * 1000):
            raise TimeoutError("it takes too long")
        data = sock.recv(_CHUNK_BYTES)
        if not data:
            raise ConnectionError("the other end has hung up")
        decoder.feed(data)
    return frame


# Displayed figures.


def add_png(data: dict[str, Any], metadata: dict[str, Any], figure: str, spec: dict[str, Any]) -> None:
    """Add a picture to a figure's MIME bundle, or to its metadata's ``omitted`` why there is none.

    Args:
        data: gains image/png.
        metadata: or this ``omitted``.
        figure: plotly's JSON.
        spec: the same, parsed.
    """
    try:
        if len(figure) > MAX_SHOWN_BYTES:
            raise PictureError(f"the figure has {len(figure)} characters; its to_image() may still draw it")
        width, height = _size(spec)
        data[PNG_MIME] = draw(figure, width=width, height=height, shown=True, time_s=_show_s)
    except (NoServiceError, PictureError) as error:
        metadata.setdefault("omitted", {})[PNG_MIME] = str(error)


def _size(spec: dict[str, Any]) -> tuple[float, float]:
    """Return the size of a figure as plotly's to_image() finds it."""
    found = []
    layout = spec.get("layout") or {}
    template = (layout.get("template") or {}).get("layout") or {}
    for name, otherwise in (("width", WIDTH), ("height", HEIGHT)):
        value = layout.get(name) or template.get(name) or otherwise
        found.append(value if isinstance(value, (int, float)) and value > 0 else otherwise)
    return found[0], found[1]


# Pictures that the code asks for.


def hook_kaleido(kaleido: Any) -> None:
    """Let the functions that plotly calls, and that are Kaleido's API, ask the service first."""
    for name, ours in (
        ("calc_fig_sync", _calc_fig),
        ("write_fig_sync", _write_fig),
        ("write_fig_from_object_sync", _write_from_object),
    ):
        setattr(kaleido, name, _instead(getattr(kaleido, name), kaleido, ours))


def _instead(theirs: Callable[..., Any], kaleido: Any, ours: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(theirs)
    def function(*args: Any, **kwargs: Any) -> Any:
        options = kwargs.get("kopts") or {}
        if _plain(options) and _reachable() and not kaleido._global_server.is_running():
            ask = {key: value for key, value in kwargs.items() if key not in ("kopts", "stepper")}
            with contextlib.suppress(NoServiceError):
                return ours(*args, **ask)
        return theirs(*args, **kwargs)

    return function


def _plain(options: dict[str, Any]) -> bool:
    """Tell whether options for Kaleido's browser mean the page that is ready."""
    # The number of pages and their time limit make no other picture.
    return options.get("headers") in (None, HEADERS) and not any(
        value for key, value in options.items() if key not in ("n", "timeout", "headers")
    )


def _reachable() -> bool:
    return _address is not None and Path(_address).is_socket()


def _kaleido(name: str) -> Any:
    return importlib.import_module(f"kaleido.{name}")


def _calc_fig(fig: Any, opts: Any = None, *, path: Any = None, topojson: str | None = None) -> bytes:
    fig_tools = _kaleido("_utils.fig_tools")
    return _draw_spec(fig_tools.coerce_for_js(fig, None, opts), topojson)


def _write_fig(
    fig: Any, path: Any = None, opts: Any = None, *, topojson: str | None = None, cancel_on_error: bool = False
) -> tuple[Exception, ...] | None:
    fig_tools = _kaleido("_utils.fig_tools")
    several = isinstance(fig, Iterable) and not fig_tools.is_figurish(fig)
    each = [{"fig": one, "path": path, "opts": opts, "topojson": topojson} for one in (fig if several else [fig])]
    return _write_from_object(each, cancel_on_error=cancel_on_error)


def _write_from_object(fig_dicts: Any, *, cancel_on_error: bool = False) -> tuple[Exception, ...] | None:
    fig_tools, path_tools = _kaleido("_utils.fig_tools"), _kaleido("_utils.path_tools")
    errors = []
    for each in [fig_dicts] if isinstance(fig_dicts, dict) else fig_dicts:
        try:
            path = each.get("path")
            spec = fig_tools.coerce_for_js(each.get("fig"), path, each.get("opts"))
            target = path_tools.determine_path(path, spec["data"], spec["format"])
            target.write_bytes(_draw_spec(spec, each.get("topojson")))
        except NoServiceError:
            raise
        except Exception as error:
            if cancel_on_error:
                raise
            errors.append(error)
    return None if cancel_on_error else tuple(errors)


def _draw_spec(spec: Any, topojson: str | None) -> bytes:
    """Draw what Kaleido would send to its page; failures are Kaleido's."""
    from plotly.utils import PlotlyJSONEncoder

    errors = _kaleido("errors")
    figure = json.dumps(spec["data"], cls=PlotlyJSONEncoder)
    options = {name: spec[name] for name in ("format", "width", "height", "scale")}
    try:
        return draw(figure, **options, topojson=topojson)
    except PictureError as error:
        if error.code is not None:
            raise errors.KaleidoError(error.code, str(error)) from None
        raise errors.JavascriptError(str(error)) from None
