# SPDX-License-Identifier: Apache-2.0
"""How cells run: cases K18, K19, K23, P9, magics, asyncio, commands."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import KernelClient, Zygote

from pandastack_kernel import frames


def test_state_stays(kernel: KernelClient) -> None:
    kernel.ok("x = 1\ndef f(): return x")
    kernel.ok("x += 1")
    assert kernel.ok("f()").text == "2"
    assert kernel.ok("__name__").text == "'__main__'"


def test_empty_cells(shared: KernelClient) -> None:
    for code in ("", "  \n", "# only a comment", "pass"):
        assert shared.ok(code).events == []


def test_k18_await(kernel: KernelClient) -> None:
    assert kernel.ok("import asyncio\nawait asyncio.sleep(0); 1").text == "1"
    assert kernel.ok("async def f(): return 7\nasyncio.run(f())").text == "7"
    assert kernel.ok("await f()").text == "7"
    assert kernel.ok("async def agen():\n    yield 3\n[x async for x in agen()]").text == "[3]"
    assert kernel.run("await f()\nasyncio.run(f())").error["name"] == "RuntimeError"
    assert (
        kernel.ok("loop = asyncio.get_event_loop_policy().new_event_loop(); loop.run_until_complete(f())").text == "7"
    )


def test_get_event_loop_as_in_a_notebook(kernel: KernelClient) -> None:
    code = "import asyncio\nasync def f(): return 7\nasyncio.get_event_loop().run_until_complete(f())"
    assert kernel.ok(code).text == "7"
    assert kernel.ok("asyncio.run(f())").text == "7"
    assert kernel.ok("asyncio.get_event_loop().run_until_complete(f())").text == "7"
    assert kernel.ok("loop = asyncio.get_event_loop()\nawait f(); loop is asyncio.get_running_loop()").text == "True"
    kernel.ok("loop.close()")
    assert kernel.ok("await f()").text == "7"
    error = kernel.ok(
        "import threading\ndef g():\n    try: asyncio.get_event_loop()\n    except RuntimeError: print('none here')\n"
        "t = threading.Thread(target=g); t.start(); t.join()"
    )
    assert error.stdout == "none here\n"


def test_async_state_and_background_tasks(kernel: KernelClient) -> None:
    kernel.ok(
        "import asyncio\nseen = []\n"
        "async def work():\n    while True:\n        seen.append(1); await asyncio.sleep(0.01)\n"
        "task = asyncio.create_task(work()); q = asyncio.Queue(); await asyncio.sleep(0)"
    )
    time.sleep(0.3)
    assert int(kernel.ok("len(seen)").text) > 5, "tasks must run between cells"
    assert kernel.ok("await q.put(5); await q.get()").text == "5"
    kernel.ok("task.cancel();")
    answer = kernel.run(
        "async def bad():\n    await asyncio.sleep(0.01); raise SystemExit(1)\nt = asyncio.create_task(bad())\nawait asyncio.sleep(0)"
    )
    assert answer.status == "ok"
    time.sleep(0.1)
    assert kernel.ok("1").text == "1"


def test_k19_input_fails_at_once(shared: KernelClient) -> None:
    error = shared.run("input('name?')").error
    assert error["name"] == "StdinNotImplementedError"
    assert "pandastack_kernel" not in error["traceback"]
    assert shared.run("import getpass; getpass.getpass()").error["name"] == "StdinNotImplementedError"
    assert shared.run("breakpoint()").status == "error"


def test_k23_the_cell_is_not_touched(shared: KernelClient) -> None:
    answer = shared.ok('%%bash\necho "$WHO"; echo err >&2', env={"WHO": "me"})
    assert answer.stdout == "me\n"
    assert answer.stderr == "err\n"
    shared.ok("from __future__ import annotations\ndef f(x: nosuch): pass", env={"A": "1"})
    assert shared.run("1/0", env={"A": "1"}).error["line"] == 1


def test_p9_environment(zygote: Zygote, tmp_path: Path) -> None:
    kernel = zygote.kernel(cwd=str(tmp_path), env={"PATH": "/usr/bin:/bin", "WHO": "session"})
    try:
        assert kernel.ok("import os; dict(os.environ)").text == repr({"PATH": "/usr/bin:/bin", "WHO": "session"})
        answer = kernel.ok("!echo $WHO $X", env={"WHO": "call", "X": "1"})
        assert answer.pipe_out == b"call 1\n"
        assert kernel.ok("os.environ['WHO'], os.environ.get('X')").text == "('session', None)"
        kernel.ok("os.environ['WHO'] = 'mine'", env={"WHO": "call"})
        assert kernel.ok("os.environ['WHO']").text == "'mine'"
        assert kernel.ok("os.getcwd()").text == repr(str(tmp_path))
        assert (
            kernel.ok("import ctypes; c = ctypes.CDLL(None).getenv; c.restype = ctypes.c_char_p; c(b'WHO')").text
            == "b'mine'"
        )
        kernel.ok("1", env={"BAD=NAME": "x", "NUL": "a\0b"})
    finally:
        kernel.close()


def test_modules_of_the_working_directory(kernel: KernelClient) -> None:
    kernel.ok("%%writefile mine.py\nvalue = 5")
    assert kernel.ok("import mine; mine.value").text == "5"


def test_pythonpath_of_the_session(zygote: Zygote, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "theirs.py").write_text("value = 6")
    kernel = zygote.kernel(cwd="/", env={"PYTHONPATH": str(tmp_path / "lib")})
    try:
        assert kernel.ok("import theirs; theirs.value").text == "6"
    finally:
        kernel.close()


def test_argv_is_empty(shared: KernelClient) -> None:
    assert shared.ok("import sys, argparse; argparse.ArgumentParser().parse_args(); sys.argv").text == "['']"


def test_commands(shared: KernelClient) -> None:
    answer = shared.ok("who = 'you'\n!echo hi {who}; exit 3")
    assert answer.pipe_out == b"hi you\n"
    assert shared.ok("_exit_code").text == "3"
    assert shared.ok("!kill -9 $$\n_exit_code").text == "-9"
    assert shared.ok("x = !echo a; echo b\nx").text == "['a', 'b']"
    assert shared.ok("!cat; test -t 1 && echo tty\n_exit_code").text == "1"
    assert shared.ok("import os; os.system('cat')").text == "0"


def test_order_around_a_command(shared: KernelClient) -> None:
    answer = shared.ok("print('before')\n!echo during\nprint('after')")
    assert answer.stdout == "before\nafter\n"
    assert answer.pipe_out == b"during\n"


def test_command_left_in_the_background(shared: KernelClient) -> None:
    started = time.monotonic()
    shared.ok("!sleep 5 >/dev/null 2>&1 &")
    assert time.monotonic() - started < 2


def test_magics(shared: KernelClient, tmp_path: Path) -> None:
    assert "loop" in shared.ok("%timeit -n1 -r1 1").stdout
    assert "Wall time" in shared.ok("%%time\nx = 1").stdout
    shared.ok(f"%cd -q {tmp_path}")
    assert shared.ok("%pwd").text == repr(str(tmp_path))
    script = tmp_path / "s.py"
    script.write_text("y = 9\nprint('ran', __name__)")
    assert shared.ok(f"%run {script}").stdout == "ran __main__\n"
    assert shared.ok("y").text == "9"
    assert shared.ok("%%html\n<b>x</b>").results[0]["data"]["text/html"] == "<b>x</b>\n"
    shared.ok("%reset -f")
    assert shared.run("y").error["name"] == "NameError"
    shared.ok("%matplotlib inline")
    shared.ok("%load_ext autoreload\n%autoreload 2")
    shared.ok("%env A_B=1")
    assert "1" in shared.ok("%env A_B").text


def test_help_prints(shared: KernelClient) -> None:
    assert "Signature: len(" in shared.ok("len?").stdout
    assert "def f" in shared.ok("def f(): return 1\nf??").stdout
    assert "nosuch" in shared.ok("nosuchthing?").stdout
    assert "Help on built-in function len" in shared.ok("help(len)").stdout
    assert "\x1b" not in shared.ok("str?").stdout


def test_pip_magic_uses_this_interpreter(shared: KernelClient) -> None:
    answer = shared.ok("%pip --version")
    assert f"python {sys.version_info.major}.{sys.version_info.minor}".encode() in answer.pipe_out


def test_installed_later_is_importable(kernel: KernelClient) -> None:
    kernel.ok("import sys; sys.path.append('site')\ntry: import fresh\nexcept ImportError: pass")
    kernel.ok("!mkdir -p site && echo value=1 > site/fresh.py")
    assert kernel.ok("import fresh; fresh.value").text == "1"


def test_execution_count_follows_jupyter(kernel: KernelClient) -> None:
    counts = [kernel.run(code).done for code in ("1", "1/0", "(", "", "2")]
    assert [done and done["execution_count"] for done in counts] == [1, 2, 3, 4, 4]


def test_user_defined_classes_pickle(shared: KernelClient) -> None:
    shared.ok("import pickle\nclass A: pass\npickle.loads(pickle.dumps(A()))")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing(kernel: KernelClient, method: str) -> None:
    kernel.ok("%%writefile worker.py\ndef f(x):\n    print('child', x, flush=True)\n    return x * x")
    answer = kernel.ok(
        "import multiprocessing as mp, worker\n"
        f"with mp.get_context('{method}').Pool(2) as p: r = p.map(worker.f, [1, 2, 3])\nr"
    )
    assert answer.text == "[1, 4, 9]"
    assert answer.stdout == ""
    assert answer.pipe_out.count(b"child") == 3


def test_process_pool_and_threads(kernel: KernelClient) -> None:
    assert (
        kernel.ok(
            "from concurrent.futures import *\nimport math\n"
            "with ProcessPoolExecutor(2) as p, ThreadPoolExecutor(2) as t:\n"
            "    r = list(p.map(math.sqrt, [4, 9])) + list(t.map(math.sqrt, [16]))\nr"
        ).text
        == "[2.0, 3.0, 4.0]"
    )


def test_user_fork(kernel: KernelClient) -> None:
    answer = kernel.ok(
        "import os, sys\nprint('parent')\npid = os.fork()\n"
        "if pid == 0:\n    print('in child'); print('err', file=sys.stderr); os._exit(0)\nos.waitpid(pid, 0)[1]"
    )
    assert answer.text == "0"
    assert answer.stdout == "parent\n"
    assert answer.pipe_out == b"in child\n"
    assert answer.pipe_err == b"err\n"


@pytest.mark.parametrize(
    ("ending", "status"), [("raise SystemExit(4)", 4), ("1/0", 1), ("pass", 0), ("sys.exit('words')", 1)]
)
def test_a_forked_child_never_acts_as_the_kernel(kernel: KernelClient, ending: str, status: int) -> None:
    answer = kernel.ok(
        f"import os, sys\npid = os.fork()\nif pid == 0:\n    {ending}\n"
        "else:\n    s = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])"
    )
    assert answer.done is not None
    assert kernel.ok("s").text == str(status)
    if ending == "1/0":
        assert b"ZeroDivisionError" in answer.pipe_err


def test_fork_after_a_burst(kernel: KernelClient) -> None:
    answer = kernel.ok(
        "import os, warnings\nwarnings.simplefilter('error')\nfor i in range(5000): print(i)\n"
        "pid = os.fork()\nif pid == 0: os._exit(0)\nos.waitpid(pid, 0)[1]"
    )
    assert answer.stdout == "".join(f"{i}\n" for i in range(5000))
    assert kernel.ok("for i in range(5000): print(i)").stdout == answer.stdout


def answer(kernel: KernelClient, *values: str) -> Callable[[bytes, Any], None]:
    """Return a callback that answers each question with the next value."""
    left = list(values)

    def on_frame(kind: bytes, payload: Any) -> None:
        if kind == frames.ASK:
            kernel.control.sendall(frames.encode_json(frames.INPUT, {"value": left.pop(0)}))

    return on_frame


def test_input_is_answered(kernel: KernelClient) -> None:
    kernel.request(
        "import getpass\nprint('a'); x = input('name? '); y = getpass.getpass('key? '); x + y", allow_stdin=True
    )
    got = kernel.collect(on_frame=answer(kernel, "Zoë\n", "geheim"))
    assert got.text == "'Zoë\\ngeheim'"
    asked = [data for kind, data in got.frames if kind == frames.ASK]
    assert [(a["type"], a["prompt"], a["password"]) for a in asked] == [
        ("input_request", "name? ", False),
        ("input_request", "key? ", True),
    ]
    assert got.stdout == "a\n"
    assert got.frames[0][0] == frames.STDOUT
    assert "not answered" in kernel.run("input()").error["value"]


def test_input_can_be_interrupted_and_a_late_answer_is_dropped(kernel: KernelClient) -> None:
    def interrupt(kind: bytes, payload: Any) -> None:
        if kind == frames.ASK:
            kernel.interrupt()

    kernel.ok("kept = 1")
    kernel.request("input('?')", allow_stdin=True)
    got = kernel.collect(on_frame=interrupt)
    assert got.error["name"] == "KeyboardInterrupt"
    kernel.control.sendall(frames.encode_json(frames.INPUT, {"value": "late"}))
    kernel.request("input('again?'), kept", allow_stdin=True)
    assert kernel.collect(on_frame=answer(kernel, "in time")).text == "('in time', 1)"


def test_input_in_a_thread_fails(kernel: KernelClient) -> None:
    got = kernel.run(
        "import threading\ncaught = []\ndef ask():\n    try: input()\n    except Exception as e: caught.append(str(e))\n"
        "t = threading.Thread(target=ask); t.start(); t.join(); caught",
        allow_stdin=True,
    )
    assert "thread" in got.text


def test_a_cell_that_json_makes_larger(kernel: KernelClient) -> None:
    size = 3 << 20
    assert kernel.ok(f"x = 1; len('{chr(1) * size}')").text == str(size)
    assert kernel.ok("x").text == "1"
