# SPDX-License-Identifier: Apache-2.0
"""The JavaScript kernel: state, modules, results, output, errors, interrupts, its end."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import Answer, KernelClient, Zygote

from pandastack_kernel import frames

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="there is no node in PATH")

NEVER = "await new Promise(() => {})"


@pytest.fixture
def kernel(zygote: Zygote, tmp_path: Path) -> Iterator[KernelClient]:
    client = zygote.kernel(cwd=str(tmp_path), language="javascript")
    yield client
    client.close()


@pytest.fixture(scope="module")
def shared(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KernelClient]:
    """One kernel for the tests that leave nothing behind."""
    client = zygote.kernel(cwd=str(tmp_path_factory.mktemp("javascript")), language="javascript")
    yield client
    client.close()


@contextlib.contextmanager
def interrupting(kernel: KernelClient) -> Iterator[Callable[[], None]]:
    """Yield a function that starts to interrupt the kernel, as the agent may, until the block is left."""
    over = threading.Event()

    def interrupt() -> None:
        kernel.interrupt()
        while not over.wait(0.1):
            kernel.interrupt()

    thread = threading.Thread(target=interrupt)

    def start() -> None:
        if not thread.ident:
            thread.start()

    yield start
    over.set()
    if thread.ident:
        thread.join()
        kernel.run("0")  # for an interrupt that came late


def interrupted(kernel: KernelClient, code: str) -> Answer:
    """Run a cell that calls go(), interrupt it from then on until it is over, and return its answer."""
    with interrupting(kernel) as start:
        kernel.request(f"var go = () => console.log('go');\n{code}")
        answer = kernel.collect(20, lambda kind, _: start() if kind == frames.STDOUT else None)
    assert answer.status == "error"
    assert answer.error["name"] == "KeyboardInterrupt"
    return answer


# --- cells ----------------------------------------------------------------------------------------------------------


def test_state_stays_and_may_be_declared_again(kernel: KernelClient) -> None:
    declare = "const a = {n}; let b = {n}; class C {{ n = {n} }}; function f() {{ return {n} }}; var v = {n}"
    for n in (1, 2):
        kernel.ok(declare.format(n=n))
        assert kernel.ok("[a, b, new C().n, f(), v]").text == f"[ {n}, {n}, {n}, {n}, {n} ]"
    assert kernel.ok("b += 1; b").text == "3"
    assert kernel.run("a = 3").error["name"] == "TypeError"
    error = kernel.run("let a = 1").error
    assert "another keyword" in error["value"]
    assert kernel.ok("a").text == "2"


def test_a_declaration_that_failed_may_be_repeated(kernel: KernelClient) -> None:
    assert kernel.run("const x = nosuch").status == "error"
    kernel.ok("const x = 1")
    assert kernel.ok("x").text == "1"


def test_empty_cells_and_counts(kernel: KernelClient) -> None:
    counts = [kernel.run(code).done for code in ("1", "throw 1", "(", "", " \n", "// only a comment", "2")]
    assert [done and done["execution_count"] for done in counts] == [1, 2, 3, 4, 4, 4, 5]
    for code in ("", "  \n", "// only a comment", ";", "undefined", "null; undefined"):
        assert kernel.ok(code).events == []


def test_top_level_await(shared: KernelClient) -> None:
    assert shared.ok("await 5").text == "5"
    assert shared.ok("const later = await new Promise(r => setTimeout(() => r([1]), 5)); later").text == "[ 1 ]"
    assert shared.ok("for await (const n of [1, 2]) n * 2").text == "4"
    assert shared.ok("let total = 0; for (const n of [1, 2]) { total += await n }; total").text == "3"


def test_a_promise_as_value_is_awaited(shared: KernelClient) -> None:
    assert shared.ok("Promise.resolve(3)").text == "3"
    got = shared.ok("async function main() { await null; console.log('in main'); return 7 }\nmain()")
    assert (got.stdout, got.text) == ("in main\n", "7")
    assert shared.run("(async () => { throw new TypeError('late') })()").error["name"] == "TypeError"
    assert shared.ok("void Promise.resolve(3)").events == []


def test_exit_code(shared: KernelClient) -> None:
    for code, wanted in (("process.exit(3)", 3), ("process.exit()", 0), ("process.exitCode = 4; process.exit()", 4)):
        got = shared.run(code)
        assert got.error["name"] == "SystemExit"
        assert got.done is not None
        assert got.done["exit_code"] == wanted
    shared.ok("process.exitCode = 0")
    assert "exit_code" not in (shared.run("throw new Error('x')").done or {})


DRAW = (
    "const c = require('crypto'); const many = () => [Math.random(), c.randomUUID(), c.randomBytes(8).toString('hex'), "
    "c.randomInt(2 ** 40), crypto.randomUUID(), crypto.getRandomValues(new Uint32Array(2)).join(), "
    "c.randomFillSync(Buffer.alloc(8)).toString('hex')]; const drawn = many(); "
)


def test_a_copy_draws_other_numbers(kernel: KernelClient) -> None:
    """The kernel cannot be copied here; what it draws after it was told so must come from somewhere else."""
    kernel.ok(DRAW)
    kernel.control.setblocking(True)
    kernel.control.sendall(frames.encode(frames.RESEED))
    assert kernel.ok("new Set([...drawn, ...many(), ...many()]).size").text == "21"
    assert kernel.ok("Math.random.toString().includes('native')").text == "false"
    assert (
        kernel.ok(
            "[c.randomInt(5, 6), c.randomBytes(3).length, c.randomUUID().length, crypto.randomUUID()[14], "
            "c.randomFillSync(new Uint16Array(4), 1, 2).map(Boolean)[0], Math.random() < 1].join()"
        ).text
        == "'5,3,36,4,0,true'"
    )
    assert kernel.ok("await new Promise((r) => c.randomBytes(4, (e, b) => r(b.length)))").text == "4"
    assert kernel.ok("await new Promise((r) => c.randomInt(3, (e, n) => r(n < 3)))").text == "true"
    for code in ("c.randomBytes(-1)", "c.randomInt(2, 1)", "crypto.getRandomValues([])"):
        assert kernel.run(code).error["name"] in ("RangeError", "TypeError", "TypeMismatchError")


def test_the_code_is_not_touched(shared: KernelClient) -> None:
    assert shared.run('"use strict"; undeclared = 1').error["name"] == "ReferenceError"
    assert shared.ok("sloppy = 1; sloppy").text == "1"
    assert shared.ok("this === globalThis").text == "true"
    assert shared.ok("#!/usr/bin/env node\n1").text == "1"
    assert shared.ok("1 // the end").text == "1"
    assert shared.ok("[process.argv.length, typeof module.exports, typeof exports, require.main]").text == (
        "[ 1, 'object', 'object', undefined ]"
    )


def test_unicode(shared: KernelClient) -> None:
    answer = shared.ok("console.log('é€😀'); 'größe 😀'")
    assert answer.stdout == "é€😀\n"
    assert answer.text == "'größe 😀'"
    assert shared.ok("({[Symbol.for('Jupyter.display')]: () => ({'text/plain': '\\ud800'})})").text == "\ufffd"


def test_environment_of_a_cell(shared: KernelClient) -> None:
    assert shared.ok("process.env.WHO", env={"WHO": "cell"}).text == "'cell'"
    assert shared.ok("process.env.WHO").events == []
    shared.ok("process.env.WHO = 'mine'", env={"WHO": "cell"})
    assert shared.ok("process.env.WHO").text == "'mine'"
    shared.ok("1", env={"BAD=NAME": "x", "NUL": "a\0b"})


def test_standard_input_is_at_its_end(shared: KernelClient) -> None:
    assert (
        shared.ok("process.stdin.resume(); await new Promise(r => process.stdin.on('end', r)); 'eof'").text == "'eof'"
    )
    assert shared.ok("require('fs').readFileSync(0, 'utf8')").text == "''"


def test_background_work(kernel: KernelClient) -> None:
    kernel.ok("let n = 0; const ticking = new Promise(r => setInterval(() => ++n === 3 && r(n), 1)); undefined")
    assert kernel.ok("await ticking").text == "3"
    kernel.ok("let release; new Promise(r => { release = r }).then(() => console.log('later')); undefined")
    assert kernel.ok("release(); await new Promise(setImmediate)").stdout == "later\n"


def test_what_cells_break_by_accident(kernel: KernelClient) -> None:
    kernel.ok(
        "JSON.stringify = JSON.parse = Object.entries = setImmediate = globalThis.Buffer = null;"
        "console.log = process.stdout.write = () => {}; globalThis.process = undefined"
    )
    assert kernel.ok("({a: 1})").text == "{ a: 1 }"
    assert kernel.run("null.x").error["name"] == "TypeError"


# --- modules --------------------------------------------------------------------------------------------------------


def test_require(kernel: KernelClient, tmp_path: Path) -> None:
    (tmp_path / "mine.js").write_text("exports.value = 5")
    assert kernel.ok("const {value} = require('./mine'); value").text == "5"
    assert kernel.ok("require('node:path').sep").text == "'/'"
    assert kernel.run("require('./nosuch')").error["line"] == 1


def test_static_imports(kernel: KernelClient, tmp_path: Path) -> None:
    (tmp_path / "mine.mjs").write_text("export default 1; export const two = 2, three = 3")
    (tmp_path / "data.json").write_text('{"a": 4}')
    code = (
        "import one, { two, three as drei } from './mine.mjs'\n"
        "import * as all from './mine.mjs' // a comment\n"
        "import {\n  sep, // of paths\n  join as join_,\n} from \"node:path\"; import './mine.mjs'\n"
        "import data from './data.json' with { type: 'json' }\n"
        "import assert from 'assert'\nassert.equal(1, 1)\n"
        "import def, * as again from './mine.mjs'; import {default as eins} from './mine.mjs'; import {} from 'os'\n"
        "[one, two, drei, all.two, sep, typeof join_, data.a, def, again.three, eins]"
    )
    for _ in range(2):
        assert " ".join(kernel.ok(code).text.split()) == "[ 1, 2, 3, 2, '/', 'function', 4, 1, 3, 1 ]"
    assert kernel.ok("import './mine.mjs'").events == []
    assert kernel.run(f"{code}\nthrow new Error('x')").error["line"] == 12
    error = kernel.run("import { nosuch } from './mine.mjs'").error
    assert (error["name"], error["line"]) == ("SyntaxError", 1)
    assert "does not provide an export named 'nosuch'" in error["value"]
    assert kernel.run("\nimport { from 'os'").error["line"] == 2


def test_dynamic_imports(kernel: KernelClient, tmp_path: Path) -> None:
    (tmp_path / "mine.mjs").write_text("export const two = 2")
    assert kernel.ok("(await import('./mine.mjs')).two").text == "2"
    assert kernel.ok("const load = (name) => import (name); (await load('node:path')).sep").text == "'/'"
    assert (
        kernel.ok("[...[await import('./mine.mjs')], ...await import('./mine.mjs').then(m => [m.two])].length").text
        == "2"
    )
    assert kernel.run("await import('./nosuch.mjs')").error["line"] == 1


def test_what_only_looks_like_an_import(shared: KernelClient) -> None:
    code = "const o = {import: x => x}; /* import a from 'a' */ `import('b') ${o.import(1)} import c from 'c'` // import('d')"
    assert shared.ok(code).text == "\"import('b') 1 import c from 'c'\""
    assert shared.ok("/import (x)/.source + 'import y from \"z\"'").text == "'import (x)import y from \"z\"'"
    assert shared.run("import.meta.url").error["name"] == "SyntaxError"


def test_installed_later(kernel: KernelClient, tmp_path: Path) -> None:
    assert kernel.run("require('fresh')").status == "error"
    assert kernel.run("import fresh from 'fresh'").status == "error"
    package = tmp_path / "node_modules" / "fresh"
    package.mkdir(parents=True)
    (package / "package.json").write_text('{"name": "fresh", "main": "lib.js"}')
    (package / "lib.js").write_text("module.exports = 42")
    assert kernel.ok("require('fresh')").text == "42"
    assert kernel.ok("import fresh from 'fresh'; fresh").text == "42"


def test_modules_of_the_directory_that_a_cell_enters(kernel: KernelClient, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "mine.js").write_text("module.exports = 7")
    kernel.ok("process.chdir('sub')")
    assert kernel.ok("require('./mine') + (await import('./mine.js')).default").text == "14"


def test_modules_in_node_path(zygote: Zygote, tmp_path: Path) -> None:
    (tmp_path / "theirs.js").write_text("module.exports = 6")
    client = zygote.kernel(env={"PATH": os.environ["PATH"], "NODE_PATH": str(tmp_path)}, language="javascript")
    try:
        assert client.ok("require('theirs')").text == "6"
        assert client.ok("import theirs from 'theirs'; theirs").text == "6"
    finally:
        client.close()


# --- results --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("1 + 1", "2"),
        ("'abc'", "'abc'"),
        ("null", "null"),
        ("({a: [1, {b: 2}]})", "{ a: [ 1, { b: 2 } ] }"),
        ("new Map([[1, 2]])", "Map(1) { 1 => 2 }"),
        ("10n", "10n"),
        ("if (true) { 3 }", "3"),
        ("class K {}; new K()", "K {}"),
    ],
)
def test_values(shared: KernelClient, code: str, text: str) -> None:
    answer = shared.ok(code)
    assert answer.main == {"text/plain": text}


def test_values_have_no_colours(shared: KernelClient) -> None:
    assert shared.ok("({a: 1})", ansi=True).text == "{ a: 1 }"


def test_large_values(shared: KernelClient) -> None:
    assert shared.ok("'é'.repeat(10_000_000)").text == "'" + "é" * 10_000_000 + "'"
    text = shared.ok("Object.fromEntries(Array.from({length: 200_000}, (_, i) => [`key${i}`, i]))").text
    assert "characters left out" in text
    assert len(text) < 2 << 20
    result = shared.ok("'x'.repeat(70_000_000)").results[0]
    assert result["data"] == {}
    assert result["metadata"] == {"omitted": {"text/plain": 70_000_002}}


def test_pictures(shared: KernelClient) -> None:
    signature = b"\x89PNG\r\n\x1a\n"
    bundle = shared.ok(f"Buffer.from('{signature.hex()}00', 'hex')").main
    assert base64.b64decode(bundle["image/png"]) == signature + b"\0"
    assert bundle["text/plain"].startswith("<Buffer 89 50")
    assert "image/jpeg" in shared.ok("new Uint8Array([255, 216, 255, 0])").main
    assert shared.ok("Buffer.from('PNG')").main.keys() == {"text/plain"}


def test_display(shared: KernelClient) -> None:
    answer = shared.ok(
        "display({a: 1}); await display({'text/html': '<b>', 'application/json': {b: [1]}, 'image/png': Buffer.from([1])}, {raw: true});"
        "display(1, {display_id: 'x'}); display(2, {display_id: 'x', update: true}); 3"
    )
    first, second, third, fourth, main = answer.results
    assert first["data"] == {"text/plain": "{ a: 1 }"}
    assert second["data"] == {"text/html": "<b>", "application/json": '{"b":[1]}', "image/png": "AQ=="}
    assert (third["display_id"], fourth["display_id"], fourth["update"]) == ("x", "x", True)
    assert [event["is_main_result"] for event in answer.results] == [False] * 4 + [True]
    assert main["data"] == {"text/plain": "3"}


def test_values_that_show_themselves(shared: KernelClient) -> None:
    hook = "[Symbol.for('Jupyter.display')]"
    assert shared.ok(f"({{ {hook}() {{ return {{'text/html': '<i>'}} }} }})").main == {"text/html": "<i>"}
    assert shared.ok(f"({{ async {hook}() {{ return {{'text/html': '<u>'}} }} }})").main == {"text/html": "<u>"}
    error = shared.run(f"({{ {hook}() {{ throw new RangeError('no') }} }})").error
    assert (error["name"], error["value"]) == ("RangeError", "no")
    shared.ok("const {proxy, revoke} = Proxy.revocable({}, {}); revoke(); proxy")


# --- output ---------------------------------------------------------------------------------------------------------


def test_order(shared: KernelClient) -> None:
    answer = shared.run(
        "console.log('a', {b: 1}); console.error('c'); process.stdout.write('d'); console.warn('e'); display(1);"
        "process.stderr.write(Buffer.from('f')); await 1; console.info('g'); throw new Error('h')"
    )
    seen = [(kind, data if kind in (frames.STDOUT, frames.STDERR) else None) for kind, data in answer.frames]
    assert seen == [
        (b"o", b"a { b: 1 }\n"),
        (b"e", b"c\n"),
        (b"o", b"d"),
        (b"e", b"e\n"),
        (b"m", None),
        (b"e", b"f"),
        (b"o", b"g\n"),
        (b"m", None),
        (b"d", None),
    ]
    assert answer.pipe_out == answer.pipe_err == b""


def test_streams(shared: KernelClient) -> None:
    answer = shared.ok(
        "const {pipeline} = require('stream/promises'); await pipeline(['a', 'b'], process.stdout);"
        "process.stdout.write('63', 'hex'); await new Promise(r => process.stdout.write('d', r)); process.stdout.end('e');"
        "console.table([{x: 1}]); process.stdout.isTTY"
    )
    assert answer.stdout.startswith("abcde┌")
    assert shared.run("process.stdout.write(5)").error["name"] == "TypeError"
    assert shared.ok("console.log('still')").stdout == "still\n"


def test_much_output_in_bounded_memory(kernel: KernelClient) -> None:
    answer = kernel.ok(
        "const before = process.memoryUsage.rss(), line = 'é'.repeat(50);"
        "for (let i = 0; i < 200_000; i++) console.log(line);"
        "process.stdout.write('x'.repeat(1_000_000)); (process.memoryUsage.rss() - before) >> 20"
    )
    assert answer.stdout == ("é" * 50 + "\n") * 200_000 + "x" * 1_000_000
    assert int(answer.text) < 64
    for kind, data in answer.frames:
        if kind == frames.STDOUT:
            assert len(data) <= frames.TEXT_CHUNK_BYTES
            data.decode()


def test_a_crash_loses_no_output(kernel: KernelClient) -> None:
    answer = kernel.run("console.log('last words'); process.kill(process.pid, 'SIGKILL'); while (true);")
    assert answer.done is None
    assert answer.stdout == "last words\n"
    assert os.WTERMSIG(kernel.wait_exit()) == signal.SIGKILL


def test_children(shared: KernelClient) -> None:
    answer = shared.ok(
        "const {execSync, spawn} = require('child_process'); console.log('before');"
        "execSync('echo out; echo err >&2', {stdio: 'inherit'});"
        "await new Promise(r => spawn('echo', ['more'], {stdio: 'inherit'}).on('close', r)); console.log('after')"
    )
    assert answer.stdout == "before\nafter\n"
    assert answer.pipe_out == b"out\nmore\n"
    assert answer.pipe_err == b"err\n"


def test_children_do_not_inherit_the_control_socket(shared: KernelClient) -> None:
    targets = shared.ok(
        "require('child_process').execSync('ls -l /proc/self/fd', {stdio: ['ignore', 'pipe', 'inherit']}) + ''"
    )
    assert "socket:" not in targets.text.split("-> ", 4)[4], "0 to 2 are Node's"
    assert targets.text.count("socket:") <= 3


def test_threads_of_cells(shared: KernelClient) -> None:
    code = (
        "const {Worker} = require('worker_threads');"
        "await new Promise(r => new Worker('console.log(6 * 7)', {eval: true}).on('exit', r));"
        "await new Promise(r => setTimeout(r))"
    )
    assert shared.ok(code).stdout == "42\n"


# --- errors ---------------------------------------------------------------------------------------------------------


def test_errors(shared: KernelClient) -> None:
    answer = shared.run("function f() {\n  null.x\n}\n\nf()")
    count = answer.done and answer.done["execution_count"]
    assert answer.error == {
        "type": "error",
        "name": "TypeError",
        "value": "Cannot read properties of null (reading 'x')",
        "traceback": "TypeError: Cannot read properties of null (reading 'x')\n"
        f"    at f (Cell[{count}]:2:8)\n    at Cell[{count}]:5:1",
        "line": 2,
    }
    error = shared.run("class Mine extends Error {}; await null; throw new Mine('m')").error
    assert (error["name"], error["value"], error["line"]) == ("Mine", "m", 1)
    error = shared.run("1;\nthrow new Error('outer', {cause: new TypeError('inner')})").error
    assert "[cause]: TypeError: inner" in error["traceback"]
    assert error["line"] == 2
    error = shared.run("throw new AggregateError([new Error('one'), 2], 'all')").error
    assert "[errors]: [\n    Error: one" in error["traceback"]
    error = shared.run("require('fs').readFileSync('/nosuch')").error
    assert error["value"].startswith("ENOENT")
    assert "code: 'ENOENT'" in error["traceback"]


def test_stacks_show_nothing_of_the_kernel(shared: KernelClient) -> None:
    answer = shared.ok(
        "console.log(new Error('x').stack); console.log(new Error('y')); setImmediate(() => console.trace('z'))"
    )
    answer.frames += shared.ok("await new Promise(r => setTimeout(r))").frames
    for text in (answer.stdout, answer.stderr):
        assert "javascript" not in text
        assert "inspector" not in text
        assert "Cell[" in text


@pytest.mark.parametrize(
    ("thrown", "value"),
    [
        ("5", "5"),
        ("null", "null"),
        ("undefined", "undefined"),
        ("'words'", "'words'"),
        ("({a: 1})", "{ a: 1 }"),
        ("Symbol('s')", "Symbol(s)"),
        ("Object.create(null)", "[Object: null prototype] {}"),
        ("new Proxy({}, {get() { throw 1 }})", "{}"),
        (
            "{toString() { throw 1 }, [Symbol.for('nodejs.util.inspect.custom')]() { throw 2 }}",
            "a value that cannot be shown",
        ),
    ],
)
def test_anything_can_be_thrown(shared: KernelClient, thrown: str, value: str) -> None:
    error = shared.run(f"throw {thrown}").error
    assert (error["name"], error["value"]) == ("Uncaught", value)


def test_errors_with_hostile_members(shared: KernelClient) -> None:
    assert shared.run("throw Object.assign(new Error('m'), {name: {}, toString: 1})").error["value"] == "m"
    assert shared.run("throw new (class E extends Error { get message() { throw 1 } })").status == "error"
    assert shared.run("throw Object.defineProperty(new Error('m'), 'stack', {get() { throw 1 }})").status == "error"


def test_control_characters_and_colours(shared: KernelClient) -> None:
    code = "throw Object.assign(new Error('a\\x1b[31mb\\r\\0'), {n: 1})"
    error = shared.run(code).error
    assert error["value"] == "a\\x1b[31mb\\r\\x00"
    assert "\x1b" not in error["traceback"]
    assert "\x1b[33m1\x1b[39m" in shared.run(code, ansi=True).error["traceback"]


def test_syntax_errors(shared: KernelClient) -> None:
    answer = shared.run("console.log('not run');\n\tlet y = (;")
    count = answer.done and answer.done["execution_count"]
    assert answer.stdout == ""
    assert answer.error["line"] == 2
    assert answer.error["value"] == "Unexpected token ';'"
    assert answer.error["traceback"] == (
        f"Cell[{count}]:2\n\tlet y = (;\n\t         ^\n\nSyntaxError: Unexpected token ';'"
    )
    error = shared.run("console.log('run');\n\nJSON.parse('{')").error
    assert (error["name"], error["line"]) == ("SyntaxError", 3)
    for code in ("`", "/*", "(", "'", "foo(\n", "return 1", "export const e = 1"):
        assert shared.run(code).error["name"] == "SyntaxError"


def test_rejections_that_nobody_handles(kernel: KernelClient) -> None:
    answer = kernel.run("Promise.reject(new RangeError('r')); 1")
    assert answer.text == "1"
    assert answer.error["name"] == "RangeError"
    assert answer.status == "error"
    kernel.ok("Promise.reject(1).catch(() => {}); undefined")
    assert kernel.run(f"(async () => {{ throw new Error('x') }})(); {NEVER}").error["value"] == "x"
    assert (
        kernel.ok("process.on('unhandledRejection', e => console.log('own', e)); Promise.reject(3); 1").stdout
        == "own 3\n"
    )


def test_exceptions_in_callbacks(kernel: KernelClient) -> None:
    error = kernel.run(f"setTimeout(() => {{\n  throw new Error('late') }}, 1); {NEVER}").error
    assert (error["value"], error["line"]) == ("late", 2)
    assert kernel.run(f"process.nextTick(() => {{ throw 5 }}); {NEVER}").error["name"] == "Uncaught"
    assert kernel.run("queueMicrotask(() => { throw new Error('m') })").error["value"] == "m"
    assert kernel.run(f"setImmediate(() => {{ throw new Error('i') }}); {NEVER}").error["value"] == "i"
    kernel.ok("setTimeout(() => { throw new RangeError('between') }, 1); undefined")
    answer = kernel.run("await new Promise(r => setTimeout(r, 20))")
    assert answer.stderr.startswith("In the background: RangeError: between\n") or answer.error["value"] == "between"
    assert kernel.ok("1").text == "1"


def test_exit_does_not_end_the_kernel(kernel: KernelClient) -> None:
    kernel.ok("let x = 1")
    error = kernel.run("console.log('a');\nprocess.exit(3); console.log('b')").error
    assert (error["name"], error["line"]) == ("SystemExit", 2)
    assert error["value"] == "3"
    assert kernel.run(f"setTimeout(() => process.exit(), 1); {NEVER}").error["name"] == "SystemExit"
    assert kernel.ok("x").text == "1"


# --- interrupts -----------------------------------------------------------------------------------------------------


def test_interrupts_keep_the_state(kernel: KernelClient) -> None:
    kernel.ok("let x = 1, y = 0")
    for code in (
        "go(); while (true);",
        f"go(); {NEVER}",
        "await 1; go(); while (true);",
        "go(); for (;;) await 1",
        "go(); for (;;) await new Promise(r => setImmediate(r))",
        f"setInterval(() => {{}}, 1); go(); {NEVER}",
        f"setInterval(() => {{ go(); while (true); }}, 1); {NEVER}",
        f"setTimeout(() => {{ go(); while (true); }}, 1); {NEVER}",
        f"setImmediate(() => {{}}); setImmediate(() => {{ go(); while (true); }}); setImmediate(() => {{}}); {NEVER}",
        f"process.nextTick(() => {{ go(); while (true); }}); {NEVER}",
        f"require('fs').readFile('/etc/passwd', () => {{ go(); while (true); }}); {NEVER}",
        "new (require('async_hooks').AsyncLocalStorage)().run(1, () => setTimeout(() => { go(); while (true); }));"
        + NEVER,
        "try { go(); while (true); } catch {} finally { y = 1 }",
        "go(); /^(a+)+$/.test('a'.repeat(50) + 'b')",
        "go(); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)",
        "({[require('util').inspect.custom]() { go(); while (true); }})",
        "while (true) console.log('spam')",
        "while (true) process.stdout.write('x'.repeat(100_000))",
        "go(); while (true) display(1)",
    ):
        interrupted(kernel, code)
        again = "await new Promise(r => setTimeout(r, 1)); await new Promise(r => setImmediate(r)); x"
        assert kernel.ok(again).text == "1", code
    assert kernel.ok("y").text == "0"


def test_where_a_cell_was_interrupted(kernel: KernelClient) -> None:
    error = interrupted(kernel, "function f() {\n  go(); while (true);\n}\nf()").error
    assert error["line"] == 3
    assert "(Cell[1]:3:" in error["traceback"]
    assert "javascript" not in error["traceback"]


def test_what_an_earlier_cell_left_running_is_interrupted(kernel: KernelClient) -> None:
    """It keeps the next cell from its turn."""
    kernel.ok("setTimeout(() => { while (true); }, 1); undefined")
    kernel.request("2")
    with interrupting(kernel) as start:
        start()
        answer = kernel.collect()
    assert answer.text == "2" or answer.error["name"] == "KeyboardInterrupt"
    assert kernel.run("3").done is not None


def test_interrupts_outside_a_cell_are_ignored(kernel: KernelClient) -> None:
    for n in range(20):
        kernel.interrupt()
        assert kernel.run(f"{n}").done is not None
    assert kernel.ok("1").text == "1"


def test_interrupts_at_the_edges_of_cells(kernel: KernelClient) -> None:
    """Each cell is answered once, an interrupt ends one cell at most, the kernel lives."""
    kernel.ok("let state = 0; await new Promise(r => setTimeout(r, 100))")
    sent = 0
    hit = 0
    for n in range(100):
        kernel.request(f"state = {n}; console.log('x'); {n}")
        for _ in range(2 if n % 3 == 0 else 1):
            kernel.interrupt()
            sent += 1
        answer = kernel.collect()
        assert answer.done is not None
        names = [error["name"] for error in answer.errors]
        assert names in ([], ["KeyboardInterrupt"]), answer
        assert answer.status == ("error" if names else "ok")
        hit += len(names)
    # The last of them may still be on their way: they pass through another process.
    while (answer := kernel.run("await new Promise(r => setTimeout(r, 1)); typeof state")).errors:
        hit += 1
        assert hit <= sent
    assert answer.text == "'number'"


def test_a_blocked_write_is_interrupted_at_a_frame_boundary(kernel: KernelClient) -> None:
    kernel.ok("await new Promise(r => setTimeout(r, 100))")
    kernel.control.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    kernel.request("const progress = []; for (let i = 0; ; i++) { console.log(i, 'é'.repeat(50_000)) }")
    while len(kernel.control.recv(1 << 20, socket.MSG_PEEK)) < 2000:
        pass
    kernel.interrupt()
    answer = kernel.collect()
    assert answer.error["name"] == "KeyboardInterrupt"
    b"".join(data for kind, data in answer.frames if kind == frames.STDOUT).decode()
    assert kernel.ok("1").text == "1"


# --- the end --------------------------------------------------------------------------------------------------------


def test_it_ends_when_the_socket_is_closed(zygote: Zygote) -> None:
    client = zygote.kernel(language="javascript")
    client.ok(
        "setInterval(() => {}, 1000); require('net').createServer().listen(0); process.on('exit', () => process._rawDebug('bye'))"
    )
    client.control.close()
    assert os.waitstatus_to_exitcode(client.wait_exit()) == 0
    assert os.read(client.err_fd, 100) == b"bye\n"
    client.close()


def test_requests_in_pieces_and_unknown_ones(kernel: KernelClient) -> None:
    kernel.control.sendall(frames.encode_json(frames.INPUT, {"value": "x"}) + frames.encode(b"?", b"junk"))
    for byte in frames.encode_json(frames.RUN, {"code": "'ä'", "ansi": False}):
        kernel.control.sendall(bytes([byte]))
    assert kernel.collect().text == "'ä'"


def test_requests_sent_ahead_wait(kernel: KernelClient) -> None:
    kernel.request("await new Promise(r => setTimeout(r, 5)); console.log(1)")
    kernel.request("console.log(2)")
    seen = kernel.collect().stdout
    while "2" not in seen:
        seen += kernel.collect().stdout
    assert seen == "1\n2\n"


def test_large_requests(shared: KernelClient) -> None:
    text = "x" * (4 << 20)
    assert shared.ok(f"{json.dumps(text)}.length").text == str(4 << 20)


@pytest.mark.parametrize(
    ("code", "key"),
    [
        ("throw new Error(huge)", "value"),
        ("throw huge", "value"),
        ("throw Object.assign(new Error('x'), { name: huge })", "name"),
        ("setTimeout(() => { throw new Error(huge) }); await new Promise(() => {})", "value"),
    ],
)
def test_a_huge_error_is_cut(kernel: KernelClient, code: str, key: str) -> None:
    kernel.ok("var huge = '\\u2028'.repeat(33 << 20); 0")
    answer = kernel.run(code)
    assert re.search(r"\d characters left out \.\.\.]|\d more characters", answer.error[key])
    assert len(json.dumps(answer.error)) < frames.EVENT_FRAME_BYTES
    assert kernel.ok("huge.length").text == str(33 << 20)


def test_a_huge_syntax_error_is_cut(kernel: KernelClient) -> None:
    kernel.ok("var kept = 1")
    answer = kernel.run("'" + "x" * (2 << 20) + "' )")
    assert answer.error["name"] == "SyntaxError"
    assert " characters left out ...]" in answer.error["traceback"]
    assert kernel.ok("kept").text == "1"


@pytest.mark.parametrize(
    "code",
    [
        "display({ 'text/plain': 'x' }, { raw: true, display_id: huge })",
        "display({ [`text/x-${huge}`]: 'x' }, { raw: true })",
        "display(Object.fromEntries(Array.from({ length: 3000 }, (_, n) => [`a/${n}`, 'x'.repeat(16000)])), { raw: true })",
    ],
)
def test_a_result_that_is_too_large_is_dropped_and_says_so(kernel: KernelClient, code: str) -> None:
    kernel.ok("var huge = 'x'.repeat(33 << 20); 0")
    answer = kernel.ok(f"{code}; console.log('after')")
    assert [event["type"] for event in answer.events] == ["dropped"]
    assert answer.events[0]["bytes"] > 32 << 20
    assert answer.stdout == "after\n"


def test_a_cell_that_json_makes_larger(kernel: KernelClient) -> None:
    size = 3 << 20
    assert kernel.ok(f"var x = 1; '{chr(1) * size}'.length").text == str(size)
    assert kernel.ok("x").text == "1"
