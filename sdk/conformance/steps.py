# SPDX-License-Identifier: Apache-2.0
"""The steps that both SDKs go through: what this prints, steps.ts prints, too. Both are compared with steps.txt."""

import json

import httpx
from pandastack import Client, CodeContext, PandastackError, Sandbox


def show(*values):
    print(json.dumps(values, ensure_ascii=False, separators=(",", ":")))


def failure(call):
    try:
        call()
    except PandastackError as error:
        return type(error).__name__, error.status, error.code
    return "none"


sandbox = Sandbox.create(metadata={"made": "é"}, env={"WORD": "wörd"}, ttl_seconds=900)
show("create", sandbox.template, sandbox.status, sandbox.metadata)
show("list", [s.id == sandbox.id for s in Sandbox.list(metadata={"made": "é"})])

# Commands.
result = sandbox.exec("echo $WORD; cat; pwd >&2; exit 3", cwd="/tmp", stdin="in\n")
show("exec", result.stdout, result.stderr, result.exit_code, result.truncated)
show("check", failure(lambda: sandbox.exec("exit 9", check=True)))
show("timeout", failure(lambda: sandbox.exec("sleep 60", timeout=0.5)))
heard = []
code = sandbox.exec_stream("echo one; echo two", on_stdout=heard.append)
show("exec_stream", "".join(heard), code)

# Commands in the background.
process = sandbox.commands.start("read x; echo got $x; cat; echo é >&2; exec sleep 300", stdin=True)
show("start", process.status, process.stdin)
process.write("é\n")
process.write(b"hi", eof=True)
out, err = [], []


def on_stderr(chunk):
    err.append(chunk)
    process.send_signal("TERM")


show("stream", process.stream(out.append, on_stderr), "".join(out), "".join(err))
show("wait", process.wait(), process.signal, process.status, process.output_bytes)
show("processes", [p.id == process.id for p in sandbox.commands.list()])
show("get", sandbox.commands.get(process.id).exit_code, failure(lambda: sandbox.commands.get(1000000)))
show("kill an ended one", failure(process.kill))
slow = sandbox.commands.start("sleep 300")
show("wait 0", slow.wait(0))
slow.kill()
show("killed", slow.wait(), slow.signal)

# Terminals.
shown = bytearray()
with sandbox.open_pty(shown.extend, cmd="read x; echo got $x; stty size; exit 4", rows=40, cols=100) as pty:
    pty.write("é☕\n")
    show("open_pty", pty.wait(), shown.decode().splitlines()[-2:])
pty = sandbox.open_pty(print, cmd="sleep 300")
pty.close()
show("closed", failure(pty.wait))
show("no size", failure(lambda: sandbox.open_pty(print, rows=0)))

# Logs.
sandbox.exec("echo from the log; printf 'no end'")
show("logs", sandbox.logs(stream="stdout", tail=2))
with sandbox.follow_logs(tail=0) as lines:
    sandbox.exec("echo followed; echo too")
    show("follow_logs", next(lines), next(lines))
show("events", [event.type for event in sandbox.events()])
with sandbox.follow_events(tail=1) as events:
    sandbox.pause()
    sandbox.resume()
    show("follow_events", *[next(events).type for _ in range(3)])

# Files, and what changes.
fs = sandbox.filesystem
fs.write("/workspace/a/b.bin", bytes(range(256)))
show("read", list(fs.read("/workspace/a/b.bin")) == list(range(256)))
show("list", [[f.name, f.path, f.is_dir, f.size] for f in fs.list("/workspace/a")])
with fs.watch("/workspace/a") as changes:
    fs.move("/workspace/a/b.bin", "/workspace/a/c")
    change = next(changes)
    show("watch", change.type, change.path, change.is_dir, change.to)
    fs.remove("/workspace/a")
    show("watched", list(changes)[-1].type)
show("no file", fs.exists("/workspace/a"), failure(lambda: fs.read("/workspace/a/c")))
show("no folder", failure(lambda: next(fs.watch("/workspace/a"))))

# Servers.
fs.write("/srv/x.txt", "größe")
server = sandbox.commands.start("python3 -m http.server 8000", cwd="/srv")
sandbox.exec("until curl -s localhost:8000; do :; done", timeout=60)
show("label_port", sandbox.label_port(8000, "web").label)
show("ports", [[p.port, p.label, p.listening, p.source] for p in sandbox.ports()])
sandbox.unlabel_port(8000)
show("unlabelled", [[p.port, p.label, p.listening, p.source] for p in sandbox.ports()])
show("preview_url", httpx.get(sandbox.preview_url(8000, paths=["/x.txt"]) + "x.txt").content.decode())
show("no port", failure(lambda: sandbox.preview_url(0)))

# Code, and copies of a machine.
ctx = sandbox.create_code_context()
ex = ctx.run_code("print('é'); x = 41; x")
show("run_code", ex.status, ex.stdout, ex.text)
ex = ctx.run_code("1 / 0")
show("error", ex.status, ex.error_name, ex.exit_code)
snapshot = sandbox.snapshot()
with Sandbox.create(from_snapshot=snapshot) as restored, sandbox.fork(metadata={"copy": "b"}) as child:
    show("restored", CodeContext(restored, ctx.id).run_code("x + 1").text)
    show("fork", CodeContext(child, ctx.id).run_code("x + 2").text, child.metadata)
sandbox.client.snapshots.delete(snapshot)

# The end, and what is wrong then.
show("kill", sandbox.kill(), sandbox.kill())
show("gone", failure(lambda: sandbox.exec("true")), failure(slow.refresh), failure(sandbox.logs))
show("gone", failure(lambda: next(sandbox.follow_events())), failure(lambda: sandbox.open_pty(print)))
with Client("http://127.0.0.1:9", "k") as nobody:
    show("nobody there", failure(lambda: Sandbox.list(client=nobody)))
with Client(api_key="wrong") as stranger:
    show("wrong key", failure(lambda: Sandbox.list(client=stranger)))
