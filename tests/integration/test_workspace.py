# SPDX-License-Identifier: Apache-2.0
"""files_changed: what a cell wrote below /workspace."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from harness import Sandbox, Session


@pytest.fixture
def kernel(session: Callable[..., Session], box: Sandbox) -> Iterator[Session]:
    """A kernel, and an empty workspace when the test is over."""
    yield session()
    box.exec("find /workspace -mindepth 1 -delete")


def changed(kernel: Session, code: str) -> set[str]:
    got = kernel.ok(code)
    assert "files_changed_truncated" not in got
    assert len(got["files_changed"]) == len(set(got["files_changed"]))
    return {path.removeprefix("/workspace/") for path in got["files_changed"]}


def test_written_files_are_told(kernel: Session) -> None:
    assert changed(kernel, "open('a.txt', 'w').write('x')") == {"a.txt"}
    assert changed(kernel, "1 + 1") == set()
    assert changed(kernel, "open('a.txt').read()") == set()
    both = "f = open('a.txt', 'a'); f.write('y'); f.close(); open('b', 'wb').close()"
    assert changed(kernel, both) == {"a.txt", "b"}


def test_names_are_those_at_the_end(kernel: Session) -> None:
    assert changed(kernel, "import os\nopen('t.tmp', 'w').close(); os.replace('t.tmp', 'final.csv')") == {"final.csv"}
    assert changed(kernel, "open('gone', 'w').close(); os.remove('gone')") == set()
    assert changed(kernel, "os.makedirs('d/e'); open('d/e/f', 'w').close(); os.rename('d', 'g')") == {"g/e/f"}


def test_by_commands_and_by_libraries(kernel: Session) -> None:
    assert changed(kernel, "!mkdir -p x && echo hi > x/y && cp x/y 'x/with space'") == {"x/y", "x/with space"}
    code = (
        "import pandas as pd\nimport matplotlib.pyplot as plt\npd.DataFrame({'a': [1]}).to_csv('t.csv')\n"
        "plt.plot([1]); plt.savefig('☕.png'); plt.close()"
    )
    assert changed(kernel, code) == {"t.csv", "☕.png"}


def test_other_places_do_not_count(kernel: Session) -> None:
    assert changed(kernel, "open('/tmp/elsewhere', 'w').close()\n!echo x > /root/elsewhere") == set()


def test_each_session_is_told(session: Callable[..., Session], kernel: Session) -> None:
    other = session()
    assert changed(kernel, "open('one', 'w').close()") == {"one"}
    assert changed(other, "1") == set()
    assert changed(other, "open('two', 'w').close()") == {"two"}


def test_a_cell_that_fails_or_is_over_time_tells_too(kernel: Session) -> None:
    got = kernel.run("open('before', 'w').close(); 1/0")
    assert got["files_changed"] == ["/workspace/before"]
    got = kernel.timeout("open('late', 'w').close()\nwhile True: pass", 1)
    assert got["files_changed"] == ["/workspace/late"]


def test_too_many_files(kernel: Session) -> None:
    got = kernel.ok("for i in range(1000): open(f'f{i}', 'w').close()")
    assert got["files_changed_truncated"] is True
    assert len(got["files_changed"]) == 256
    assert changed(kernel, "open('f1', 'w').close()") == {"f1"}
    got = kernel.ok("for i in range(20000): open('same', 'w').close()", timeout_ms=100_000)
    assert got["files_changed"][:1] == ["/workspace/same"]


@pytest.mark.parametrize("letter", ["n", "\\x01"])
def test_names_that_are_too_long_to_tell(kernel: Session, letter: str) -> None:
    """As many as have room, and the machine goes on."""
    got = kernel.ok(f"for i in range(256): open(f'{{i:03}}' + '{letter}' * 250, 'w').close()")
    assert got["files_changed_truncated"] is True
    assert 20 < len(got["files_changed"]) < 256
    assert changed(kernel, "open('after', 'w').close()") == {"after"}


def test_in_a_stream(kernel: Session) -> None:
    with kernel.stream("open('s', 'w').close()") as events:
        *_, last = events
    assert last.data["files_changed"] == ["/workspace/s"]
