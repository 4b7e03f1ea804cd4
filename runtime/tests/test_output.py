# SPDX-License-Identifier: Apache-2.0
"""What a cell writes: cases K1 to K8, K16, and that libraries can live with our streams."""

from __future__ import annotations

import os
import time

import pytest
from conftest import KernelClient

from pandastack_kernel import frames
from pandastack_kernel.channel import BURST_CREDIT


def test_k1_every_byte_of_a_large_print(shared: KernelClient) -> None:
    answer = shared.ok("print('x' * 22_000_000)")
    assert len(answer.stdout) == 22_000_001
    assert all(len(data) <= frames.TEXT_CHUNK_BYTES for kind, data in answer.frames if kind == frames.STDOUT)


def test_k2_many_small_writes(shared: KernelClient) -> None:
    answer = shared.ok(
        "import sys\nfor i in range(10_000):\n    sys.stdout.write(f'{i}\\n'); sys.stdout.flush()\nprint('hi')"
    )
    assert answer.stdout == "".join(f"{i}\n" for i in range(10_000)) + "hi\n"


def test_many_prints_are_quick_and_few_frames(shared: KernelClient) -> None:
    started = time.monotonic()
    answer = shared.ok("for i in range(100_000): print(i)")
    assert time.monotonic() - started < 10
    assert answer.stdout == "".join(f"{i}\n" for i in range(100_000))
    assert len(answer.frames) < 2000


def test_k3_child_with_raw_bytes_on_both_streams(shared: KernelClient) -> None:
    answer = shared.ok("!head -c 200000 /dev/urandom; head -c 200000 /dev/urandom >&2")
    assert len(answer.pipe_out) == len(answer.pipe_err) == 200_000


def test_k3_raw_bytes_through_python(shared: KernelClient) -> None:
    answer = shared.ok("import sys; n = sys.stdout.buffer.write(b'\\xff\\xfe'); print('ok')")
    assert b"".join(d for k, d in answer.frames if k == frames.STDOUT) == b"\xff\xfeok\n"


def test_k4_c_code_that_fills_the_pipe_with_the_gil(shared: KernelClient) -> None:
    answer = shared.ok("import ctypes; ctypes.PyDLL(None).printf(b'1' * 100_000)")
    assert answer.pipe_out.count(b"1") == 100_000
    assert answer.text == "100000"


def test_k5_output_below_python(shared: KernelClient) -> None:
    answer = shared.ok(
        "import os, ctypes; os.system('echo HI'); ctypes.CDLL(None).puts(b'from C'); os.write(2, b'raw');"
    )
    assert answer.pipe_out == b"HI\nfrom C\n"
    assert answer.pipe_err == b"raw"


def test_k7_order_of_stdout_and_stderr(shared: KernelClient) -> None:
    answer = shared.ok("import sys\nfor i in range(500):\n    print(i, file=(sys.stderr, sys.stdout)[i % 2])")
    wire = b"".join(data for kind, data in answer.frames if kind in (frames.STDOUT, frames.STDERR))
    assert wire.decode().split() == [str(i) for i in range(500)]
    assert answer.stdout.split() == [str(i) for i in range(500) if i % 2]


def test_k8_order_of_text_and_results(shared: KernelClient) -> None:
    answer = shared.ok("print('a'); display(1); print('b')\n2")
    seen = []
    for kind, data in answer.frames:
        if kind == frames.EVENT:
            seen.append(data["data"]["text/plain"])
        elif kind == frames.STDOUT:
            seen.append(data.decode().strip())
    assert [item for item in seen if item] == ["a", "1", "b", "2"]


def test_k16_updates_and_clears(shared: KernelClient) -> None:
    answer = shared.ok(
        "from IPython.display import clear_output, update_display\n"
        "display('x', display_id='a')\nupdate_display('y', display_id='a')\n"
        "for i in range(3):\n    clear_output(wait=True)\n    print(i)"
    )
    first, second = answer.results
    assert (first["display_id"], first.get("update")) == ("a", None)
    assert (second["display_id"], second["update"]) == ("a", True)
    assert second["data"]["text/plain"] == "'y'"
    assert [e["wait"] for e in answer.events if e["type"] == "clear_output"] == [True] * 3
    assert answer.stdout == "0\n1\n2\n"


def test_k16_tqdm(shared: KernelClient) -> None:
    pytest.importorskip("tqdm")
    answer = shared.ok("from tqdm.auto import tqdm\nfor _ in tqdm(range(5)): pass")
    assert "100%" in answer.stderr
    assert answer.stderr.endswith("\n")
    assert "5/5" in answer.stderr


def test_delivered_while_the_cell_runs(shared: KernelClient) -> None:
    answer = shared.ok(
        "import time\nprint('now', end='')\ntime.sleep(0.2)\n"
        "for i in range(1000): print(i, end=' ')\ntime.sleep(0.4)\nprint('end')"
    )
    by_text: list[tuple[float, str]] = [
        (when, data.decode())
        for when, (kind, data) in zip(answer.times, answer.frames, strict=True)
        if kind == frames.STDOUT
    ]
    end = next(when for when, text in by_text if "end" in text)
    burst_tail = next(when for when, text in by_text if "999" in text)
    assert end - by_text[0][0] > 0.5
    assert end - burst_tail > 0.3, "the last of a burst waited for the next write"


def test_background_thread_prints_whole_lines(shared: KernelClient) -> None:
    answer = shared.ok(
        "import threading\n"
        "def work(c):\n    for _ in range(2000): print(c * 20 + '\\n', end='')\n"
        "ts = [threading.Thread(target=work, args=(c,)) for c in 'abcd']\n"
        "[t.start() for t in ts]; [t.join() for t in ts];"
    )
    lines = answer.stdout.splitlines()
    assert len(lines) == 8000
    assert set(lines) == {c * 20 for c in "abcd"}


def test_thread_that_prints_after_its_cell(shared: KernelClient) -> None:
    shared.ok("import threading; threading.Timer(0.05, lambda: print('late')).start()")
    answer = shared.ok("import time; time.sleep(0.2)")
    assert answer.stdout == "late\n"


@pytest.mark.parametrize(
    "code",
    [
        "import sys, logging; logging.basicConfig(stream=sys.stdout, force=True); logging.warning('x')",
        "import subprocess, sys; subprocess.run(['true'], stdout=sys.stdout, stderr=sys.stderr, check=True)",
        "import faulthandler, sys; faulthandler.enable(sys.stderr); faulthandler.dump_traceback(sys.stdout)",
        "import sys, pickle; assert pickle.loads(pickle.dumps(sys.stdout)) is sys.stdout",
        "import sys, copy; copy.copy(sys.stderr)",
        "import sys; sys.stdout.reconfigure(line_buffering=True); assert not sys.stdout.isatty()",
        "import sys; sys.stdout.writelines(['a', 'b']); assert sys.stdout.encoding == 'utf-8'",
        "import sys; sys.stdout.close(); print('still there')",
        "import io, contextlib\nwith contextlib.redirect_stdout(io.StringIO()) as f: print('in')\nassert f.getvalue()",
        "import sys, io; w = io.TextIOWrapper(sys.stdout.buffer, write_through=True); w.write('x'); w.detach();",
        "import sys\ntry: sys.stdout.write(b'x')\nexcept TypeError: pass\nelse: 1/0",
        "import sys; print(sys.stdin.read() == '', file=sys.stderr)",
        "import pdb, traceback; traceback.print_stack()",
        "print('a', 'b', sep='\\0', end='', flush=True)",
    ],
)
def test_streams_are_files_enough(shared: KernelClient, code: str) -> None:
    shared.ok(code)


def test_click(shared: KernelClient) -> None:
    pytest.importorskip("click")
    answer = shared.ok("import click; click.echo('é'); click.echo(b'raw'); click.echo('err', err=True)")
    assert answer.stdout == "é\nraw\n"
    assert answer.stderr == "err\n"


def test_surrogates_are_escaped(shared: KernelClient) -> None:
    assert shared.ok("print('a\\udcff')").stdout == "a\\udcff\n"


def test_no_thread_for_ordinary_cells(kernel: KernelClient) -> None:
    for i in range(20):
        kernel.ok(f"print({i}); {i}")
    assert len(os.listdir(f"/proc/{kernel.pid}/task")) == 1
    kernel.ok("for i in range(10_000): print(i)")
    assert len(os.listdir(f"/proc/{kernel.pid}/task")) == 2


def test_idle_costs_no_cpu(kernel: KernelClient) -> None:
    kernel.ok("import asyncio; await asyncio.sleep(0)\nfor i in range(10_000): print(i)")

    def switches() -> int:
        with open(f"/proc/{kernel.pid}/status") as status:
            return sum(int(line.split()[1]) for line in status if "ctxt_switches" in line)

    time.sleep(0.1)
    before = switches()
    time.sleep(0.5)
    assert switches() - before <= 1


def test_print_where_no_thread_can_be_started(kernel: KernelClient) -> None:
    """A limit on processes, or on memory: no stack of this size can be had."""
    kernel.ok("import threading\nthreading.stack_size(1 << 47)")
    assert kernel.run("threading.Thread(target=print).start()").error["name"] == "RuntimeError"
    count = 10 * BURST_CREDIT
    want = "".join(f"{n}\n" for n in range(count))
    assert kernel.ok(f"for n in range({count}): print(n)").stdout == want
    answer = kernel.ok(f"import sys\nfor n in range({count}): print(n); print(n, file=sys.stderr)")
    assert (answer.stdout, answer.stderr) == (want, want)
    kernel.ok("threading.stack_size(0)")
    assert kernel.ok(f"for n in range({count}): print(n)").stdout == want
    assert kernel.ok("threading.active_count(), len(sys._current_frames())").text == "(1, 2)", "there is one again"
