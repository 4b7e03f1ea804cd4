# SPDX-License-Identifier: Apache-2.0
"""Errors as events: cases K17, K20, K21, and that nothing but death ends a kernel."""

from __future__ import annotations

import os
import signal

import pytest
from conftest import KernelClient


def test_k17_traceback(shared: KernelClient) -> None:
    answer = shared.run("def f(x):\n    return x / 0\n\nf(1)")
    error = answer.error
    assert (error["name"], error["value"], error["line"]) == ("ZeroDivisionError", "division by zero", 2)
    assert f"Cell In[{answer.done['execution_count']}], line 4" in error["traceback"]  # type: ignore[index]
    assert "----> 2     return x / 0" in error["traceback"]
    assert "\x1b" not in error["traceback"]
    assert "pandastack_kernel" not in error["traceback"]
    assert answer.status == "error"


def test_k17_user_bytes_are_escaped(shared: KernelClient) -> None:
    error = shared.run('raise ValueError("é\\x1b[31m\\0")').error
    assert error["value"] == "é\\x1b[31m\\x00"
    assert "ValueError: é\\x1b[31m\\x00" in error["traceback"]
    assert "\x1b" not in error["traceback"]


def test_ansi_on_request(shared: KernelClient) -> None:
    coloured = shared.run('raise ValueError("é\\x1b[31m")', ansi=True).error
    assert "\x1b[" in coloured["traceback"]
    assert "é\\x1b[31m" in coloured["traceback"]
    assert coloured["value"] == "é\\x1b[31m"
    assert "\x1b" not in shared.run("1/0").error["traceback"]


@pytest.mark.parametrize(
    ("code", "name", "line"),
    [
        ("1/0", "ZeroDivisionError", 1),
        ("x = 1\ny = (", "SyntaxError", 2),
        ("if 1:\nx", "IndentationError", 2),
        ("return 5", "SyntaxError", 1),
        ("import sys\nsys.exit(3)", "SystemExit", 2),
        ("exit()", "SystemExit", 1),
        ("quit(2)", "SystemExit", 1),
        ("exit", "SystemExit", 1),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", 1),
        ("def r(n):\n    return r(n + 1)\nr(0)", "RecursionError", 2),
        ("bytearray(10**12)", "MemoryError", 1),
        ("class B:\n    def __repr__(self): raise OSError('no repr')\nB()", "OSError", 2),
        ("class B:\n    def _repr_html_(self): raise OSError('no html')\nB()", "OSError", 2),
        ("raise ExceptionGroup('g', [ValueError(1), ExceptionGroup('h', [TypeError(2)])])", "ExceptionGroup", 1),
        ("raise BaseException('base')", "BaseException", 1),
        ("raise GeneratorExit", "GeneratorExit", 1),
        ("class E(Exception):\n    def __str__(self): raise ValueError('bad str')\nraise E", "E", 3),
        ("import asyncio\nraise asyncio.CancelledError", "CancelledError", 2),
        ("%nosuchmagic", "UsageError", None),
        ("%%nosuchmagic\nx", "UsageError", None),
        ("get_ipython().run_line_magic('nosuch', '')", "UsageError", 1),
        ("exec('1/0')", "ZeroDivisionError", 1),
        ("import json\njson.loads('{')", "JSONDecodeError", 2),
        ("eval('(')", "SyntaxError", None),
        ("e = ValueError('n'); e.add_note('a note\\x07'); raise e", "ValueError", 1),
        ("await nosuch()", "NameError", 1),
        ("'\\ud800'.encode()", "UnicodeEncodeError", 1),
    ],
)
def test_errors_of_the_cell(shared: KernelClient, code: str, name: str, line: int | None) -> None:
    shared.ok("kept = 1")
    answer = shared.run(code)
    assert answer.error["name"] == name
    if line is not None:
        assert answer.error.get("line") == line
    assert answer.error["traceback"]
    assert "\x07" not in answer.error["traceback"]
    assert not answer.stderr
    assert answer.status == "error"
    assert shared.ok("kept").text == "1"


def test_system_exit_value(shared: KernelClient) -> None:
    assert shared.run("import sys; sys.exit(3)").error["value"] == "3"
    assert shared.run("exit()").error["value"] == ""


def test_group_and_chain_are_shown_whole(shared: KernelClient) -> None:
    text = shared.run(
        "try:\n    raise ExceptionGroup('g', [ValueError('one'), TypeError('two\\x1b')])\n"
        "except* ValueError as e:\n    raise KeyError('three') from e"
    ).error["traceback"]
    for word in ("one", "two\\x1b", "three", "Cell In["):
        assert word in text
    assert "ipython-input" not in text
    text = shared.run("try:\n    1/0\nexcept Exception as e:\n    raise KeyError('x') from e").error["traceback"]
    assert "direct cause" in text
    assert "ZeroDivisionError" in text


def test_recursion_traceback_is_short(shared: KernelClient) -> None:
    assert len(shared.run("def r(n):\n    return r(n + 1)\nr(0)").error["traceback"]) < 5000


def test_broken_repr_of_one_kind_keeps_the_other(shared: KernelClient) -> None:
    answer = shared.run(
        "class B:\n    def _repr_html_(self): raise OSError('x')\n    def __repr__(self): return 'fine'\nB()"
    )
    assert answer.text == "fine"
    assert answer.error["name"] == "OSError"


@pytest.mark.parametrize(
    ("code", "key"),
    [
        ("raise ValueError('bad reply: ' + huge)", "value"),
        ("raise ExceptionGroup(huge, [ValueError()])", "value"),
        ("raise type(huge, (Exception,), {})('words')", "name"),
        ("class E(Exception):\n    def _render_traceback_(self): return [huge]\nraise E", "traceback"),
    ],
)
def test_a_huge_error_is_cut(kernel: KernelClient, code: str, key: str) -> None:
    kernel.ok("huge = 'x' * (33 << 20)")
    answer = kernel.run(code)
    assert answer.status == "error"
    assert " characters left out ...]" in answer.error[key]
    assert all(len(answer.error[text]) < 1_100_000 for text in ("name", "value", "traceback"))
    assert kernel.ok("len(huge)").text == str(33 << 20)


def test_error_in_a_thread_goes_to_stderr(shared: KernelClient) -> None:
    answer = shared.ok("import threading; t = threading.Thread(target=lambda: 1/0); t.start(); t.join()")
    assert "ZeroDivisionError" in answer.stderr


def test_tb_magic_prints(shared: KernelClient) -> None:
    shared.run("1/0")
    answer = shared.ok("%tb")
    assert "ZeroDivisionError" in answer.stdout


def test_custom_traceback(shared: KernelClient) -> None:
    answer = shared.run(
        "class E(Exception):\n    def _render_traceback_(self): return ['own', 'words']\nraise E('x')"
    )
    assert answer.error["traceback"] == "own\nwords"


def test_warnings_are_no_errors(shared: KernelClient) -> None:
    answer = shared.ok("import warnings; warnings.warn('careful')")
    assert "UserWarning: careful" in answer.stderr


def test_warnings_as_errors_do_not_break_exit(kernel: KernelClient) -> None:
    kernel.ok("import warnings; warnings.simplefilter('error')")
    assert kernel.run("exit()").error["name"] == "SystemExit"


def test_bad_request_is_answered(shared: KernelClient) -> None:
    from pandastack_kernel import frames

    for payload in (b"{", b"[]", b'{"code": 1}', b'{"code": "1", "env": []}'):
        shared.control.setblocking(True)
        shared.control.sendall(frames.encode(frames.RUN, payload))
        answer = shared.collect()
        assert answer.status == "error"
        assert "bad request" in answer.error["value"]
    shared.control.sendall(frames.encode(b"Z", b"from the future"))
    assert shared.ok("1").text == "1"


@pytest.mark.parametrize(
    ("code", "check"),
    [
        ("import os; os._exit(3)", lambda status: os.waitstatus_to_exitcode(status) == 3),
        ("import os; os.kill(os.getpid(), 11)", lambda status: os.WTERMSIG(status) == signal.SIGSEGV),
        ("import ctypes; ctypes.string_at(0)", lambda status: os.WTERMSIG(status) == signal.SIGSEGV),
    ],
)
def test_k20_death_is_seen_by_the_reaper(kernel: KernelClient, code: str, check: object) -> None:
    answer = kernel.run("print('before')\n" + code)
    assert answer.done is None
    assert answer.stdout == "before\n"
    assert callable(check)
    assert check(kernel.wait_exit())


def test_a_library_is_not_parsed_for_a_traceback(kernel: KernelClient) -> None:
    """A mistyped column name: the frames of pandas are there, at the line that failed, and nothing has read them."""
    pytest.importorskip("pandas")
    kernel.ok("import pandas as pd, executing\ndf = pd.DataFrame({'a': [1]})")
    text = kernel.run("df['nope']").error["traceback"]
    assert "----> 1 df['nope']" in text
    assert "pandas/core/frame.py:" in text
    assert "in DataFrame.__getitem__(self, key)" in text
    marked = [line for line in text.splitlines() if line.lstrip("-").startswith("> ")]
    assert any("self._engine.get_loc(casted_key)" in line for line in marked), "the line that failed first"
    assert any("raise KeyError(key) from err" in line for line in marked)
    parsed = "[n for n in executing.Source._class_local('__source_cache_with_lines', {}) if 'pandas' in str(n)]"
    assert kernel.ok(parsed).text == "[]"


def test_recursion_through_a_library_is_shortened(kernel: KernelClient) -> None:
    code = "import copy, sys\nx = []\nfor i in range(900): x = [x]\nsys.setrecursionlimit(800); copy.deepcopy(x);"
    text = kernel.run(code).error["traceback"]
    assert "skipping similar frames" in text
    assert text.count("copy.py:") < 12
    kernel.ok("sys.setrecursionlimit(3000)")


def test_frames_of_the_users_own_modules_are_ipythons(kernel: KernelClient) -> None:
    kernel.ok("open('own.py', 'w').write('def f(a):\\n    return (1 +\\n        a / 0)\\n')")
    text = kernel.run("import own\nown.f(1)").error["traceback"]
    assert "own.py:2, in f(a)" in text or "own.py:3, in f(a)" in text
    assert "a / 0" in text
