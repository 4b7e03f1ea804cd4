# SPDX-License-Identifier: Apache-2.0
"""The npm package `@pandastack/sdk`, unmodified, in all that this server does (docs/clients.md)."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from harness import Daemon
from harness.node import Node
from harness.terminal import Terminal

HEAD = """
import assert from "node:assert/strict";
import * as fs from "node:fs";
import { Sandbox, Client, CodeContext, SandboxTimeout, NotFoundError, BadRequestError, AuthError, ServerError,
  CommandError }
  from "@pandastack/sdk";
const png = (b64) => Buffer.from(b64 ?? "", "base64").subarray(1, 4).toString();
"""

WITH_BOX = """
const metadata = { agent: "ts", x: "é" };
const box = await Sandbox.create({ template: "code-interpreter", ttlSeconds: 900, metadata });
try {
%s
} finally {
  await box.kill();
}
"""

WITH_CONTEXT = WITH_BOX % "const ctx = await box.createCodeContext();\n%s\nawait ctx.close();"


@pytest.fixture
def run(daemon: Daemon, node: Node) -> Callable[[str], str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PANDASTACK_", "XDG_"))}
    env.update(PANDASTACK_API=daemon.url, PANDASTACK_API_KEY=daemon.key, HOME=str(daemon.home), NO_PROXY="127.0.0.1")
    return lambda code: node.run_module(HEAD + code, env)


def test_create_get_list_kill(run: Callable[[str], str]) -> None:
    run(
        WITH_BOX
        % """
        assert.equal(box.status, "running");
        assert.equal(box.template, "code-interpreter");
        assert.deepEqual(box.info.metadata, { agent: "ts", x: "é" });
        assert.equal((await Sandbox.get(box.id)).id, box.id);
        const found = (await Sandbox.list()).filter((s) => s.info.metadata?.agent === "ts");
        assert.deepEqual(found.map((s) => s.id), [box.id]);
        const other = await Sandbox.create();  // the default template, "ubuntu-24.04"
        assert.equal((await other.exec("echo hi")).stdout, "hi\\n");
        await other.kill();
        await assert.rejects(Sandbox.get(other.id), NotFoundError);
        """
    )


def test_exec(run: Callable[[str], str]) -> None:
    run(
        WITH_BOX
        % """
        const got = await box.exec("echo out; echo err >&2; exit 3");
        assert.deepEqual([got.stdout, got.stderr, got.exitCode, got.exit_code], ["out\\n", "err\\n", 3, 3]);
        assert.equal((await box.commands.run("echo c")).stdout, "c\\n");
        await assert.rejects(box.exec("exit 9", { check: true }), CommandError);
        await assert.rejects(box.exec("sleep 60", { timeoutSeconds: 1 }), SandboxTimeout);
        assert.equal((await box.runCode("echo $((6*7))")).stdout, "42\\n");
        assert.equal((await box.runCode("print(6 * 7)", "python")).stdout, "42\\n");
        """
    )


def test_exec_stream(run: Callable[[str], str]) -> None:
    run(
        WITH_BOX
        % """
        let out = "", err = "";
        const code = await box.execStream("echo eins; sleep 0.1; echo 'é … ☕'; echo err >&2; exit 4",
          { onStdout: (c) => { out += c; }, onStderr: (c) => { err += c; } });
        assert.deepEqual([code, out, err], [4, "eins\\né … ☕\\n", "err\\n"]);
        await assert.rejects(box.execStream("sleep 60", { timeoutSeconds: 1 }), SandboxTimeout);
        """
    )


def test_logs(run: Callable[[str], str]) -> None:
    run(
        WITH_BOX
        % """
        await box.exec("echo eins; echo 'zwei é'; echo err >&2");
        const all = async (options) => {
          const got = [];
          for await (const line of box.logs(options)) got.push(line);
          return got;
        };
        assert.deepEqual(await all({ stream: "stdout" }), ["eins", "zwei é"]);
        assert.deepEqual((await all()).sort(), ["eins", "err", "zwei é"]);
        const following = box.logs({ stream: "stdout", follow: true });
        const next = async () => (await following.next()).value;
        assert.deepEqual([await next(), await next()], ["eins", "zwei é"]);
        await box.exec("echo drei");
        assert.equal(await next(), "drei");
        await following.return();
        """
    )


def test_context(run: Callable[[str], str]) -> None:
    run(
        WITH_CONTEXT
        % """
        assert.equal((await ctx.runCode("x = 41")).text, undefined);
        assert.equal((await ctx.runCode("x + 1")).text, "42");
        const printed = await ctx.runCode("print('hi')");
        assert.deepEqual([printed.text, printed.stdout], [undefined, "hi\\n"]);
        const failed = await ctx.runCode("1/0");
        assert.match(failed.error, /ZeroDivisionError/);
        assert.equal(failed.exit_code, 1);
        const table = await ctx.runCode("import pandas as pd\\npd.DataFrame({'a': [1, 2]})");
        assert.match(table.results[0].html, /<table/);
        const chart = await ctx.runCode("import matplotlib.pyplot as plt\\nplt.plot([1, 2])\\nplt.show()");
        assert.equal(png(chart.png), "PNG");
        assert.equal(chart.results[0].chart, chart.png);
        const data = await ctx.runCode("from IPython.display import JSON\\nJSON({'a': [1]})");
        assert.deepEqual(data.results[0].json, { a: [1] });
        await assert.rejects(ctx.runCode("while True: pass", { timeoutSeconds: 1 }), SandboxTimeout);
        assert.equal((await ctx.runCode("x")).text, "41");
        """
    )


def test_filesystem(run: Callable[[str], str]) -> None:
    run(
        WITH_BOX
        % """
        const bytes = new Uint8Array(256).map((_, i) => i);
        assert.equal((await box.filesystem.write("/workspace/d/b.bin", bytes)).bytes, 256);
        await box.filesystem.write("/workspace/d/é b", "größe");
        assert.equal(await box.filesystem.read("/workspace/d/é b"), "größe");
        const listed = await box.filesystem.list("/workspace/d");
        assert.deepEqual(listed.map((f) => f.name).sort(), ["b.bin", "é b"]);
        assert.equal(listed.find((f) => f.name === "b.bin").size, 256);
        assert.equal((await box.filesystem.stat("/workspace/d")).is_dir, true);
        assert.equal(await box.filesystem.exists("/workspace/d/none"), false);
        assert.equal(await box.filesystem.exists("/workspace/d/b.bin"), true);
        await assert.rejects(box.filesystem.read("/workspace/d/none"), NotFoundError);
        """
    )


def test_snapshot_and_fork(run: Callable[[str], str]) -> None:
    """The template that is sent along, "ubuntu-24.04", is ignored."""
    run(
        WITH_CONTEXT
        % """
        await ctx.runCode("x = 41");
        const { id } = await box.snapshot();
        const resumed = await Sandbox.create({ fromSnapshot: id });
        assert.equal((await new CodeContext(resumed.client, resumed.id, ctx.id).runCode("x + 1")).text, "42");
        await resumed.kill();
        const client = new Client();
        assert.ok((await client.snapshots.list()).some((s) => s.id === id));
        await client.snapshots.delete(id);
        await assert.rejects(Sandbox.create({ fromSnapshot: id }), NotFoundError);
        const child = await box.fork({ metadata: { branch: "a" } });
        assert.deepEqual(child.info.metadata, { agent: "ts", x: "é", branch: "a" });
        assert.equal((await new CodeContext(child.client, child.id, ctx.id).runCode("x + 1")).text, "42");
        await child.kill();
        const tree = await box.forkTree({ count: 3 });
        assert.deepEqual(tree.map((s) => s.info.metadata.fork_index), ["0", "1", "2"]);
        const got = await tree[1].promote({ cleanupSiblings: true });
        assert.equal(got.winner, tree[1].id);
        assert.deepEqual(got.deleted.sort(), [tree[0].id, tree[2].id].sort());
        await tree[1].kill();
        """
    )


def test_explore(run: Callable[[str], str]) -> None:
    run(
        WITH_BOX
        % """
        const got = await box.explore(
          ["echo PASS > /root/out; echo PASS", "echo FAIL", { label: "env", cmd: "test $A = 1", env: { A: 2 } }],
          { scoreFn: (sb, o) => (o.ok && o.stdoutTail.includes("PASS") ? 1 : 0) },
        );
        assert.deepEqual(got.errors, []);
        assert.equal(got.outcomes.length, 3);
        assert.equal(got.reaped.length, 2);
        assert.deepEqual(got.reapFailures, {});
        assert.equal(got.winnerOutcome.stdoutTail, "PASS\\n");
        assert.deepEqual(got.winnerOutcome.filesChanged, ["/root/out"]);
        assert.equal((await got.winner.exec("cat /root/out")).stdout, "PASS\\n");
        await assert.rejects(Sandbox.get(got.reaped[0]), NotFoundError);
        await got.winner.kill();
        await assert.rejects(box.explore(["exit 1", "exit 2"]), /no viable branch/);
        """
    )


def test_lifecycle(run: Callable[[str], str]) -> None:
    run(
        WITH_BOX
        % """
        const status = async () => (await Sandbox.get(box.id)).status;
        await box.pause();
        assert.equal(await status(), "paused");
        await box.resume();
        await box.hibernate();
        assert.equal(await status(), "hibernated");
        await box.wake();
        assert.equal(await status(), "running");
        await box.hibernate();
        assert.equal((await box.exec("echo woken")).stdout, "woken\\n");
        assert.equal((await box.setTtl(800)).ttl_seconds, 800);
        assert.equal((await box.setPersistent(true)).persistent, true);
        assert.equal((await box.lifecycle()).ttl_seconds, 800);
        """
    )


def test_errors(run: Callable[[str], str], daemon: Daemon) -> None:
    run(
        """
        await assert.rejects(Sandbox.list({ apiKey: "pds_wrong" }), AuthError);
        await assert.rejects(Sandbox.create({ template: "no-such" }), (e) => {
          assert.ok(e instanceof BadRequestError);
          assert.match(e.message, /code-interpreter/);
          return true;
        });
        await assert.rejects(Sandbox.get("nothing"), NotFoundError);
        """
    )


def test_body_over_the_limit(run: Callable[[str], str]) -> None:
    """The refusal arrives, although the client is still sending: no broken connection."""
    run(
        WITH_BOX
        % """
        await assert.rejects(box.exec("#" + "x".repeat(40 << 20)), BadRequestError);
        assert.equal((await box.exec("echo fine")).stdout, "fine\\n");
        """
    )


def test_a_shell_of_its_command_line(daemon: Daemon, node: Node) -> None:
    """Which shows text messages as they are: none may come."""
    box = daemon.api.create("base")
    program = node.folder / "node_modules" / "@pandastack" / "sdk" / "dist" / "cli.js"
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PANDASTACK_", "XDG_"))}
    env.update(PANDASTACK_API_URL=daemon.url, PANDASTACK_API_KEY=daemon.key, HOME=str(daemon.home))
    with Terminal([node.node, str(program), "ssh", box.id], env) as t:
        t.until("# ")
        t.type("stty size; echo $((6 * 7))-\n")
        assert "31 97" in t.until("42-")
        t.resize(20, 60)
        t.type("until [ \"$(stty size)\" = '20 60' ]; do sleep 0.1; done; echo $((1 + 1))-\n")
        t.until("2-")
        t.type("exit\n")
        assert t.wait() == (0, "")
        assert "{" not in t.rest()
    box.discard()
