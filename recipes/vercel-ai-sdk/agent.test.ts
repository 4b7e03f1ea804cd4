// SPDX-License-Identifier: Apache-2.0
// The agent with the AI SDK's MockLanguageModelV4.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Sandbox } from "@pandastack/sdk";
import { call, say, scripted, shown } from "../../tests/recipes/scripted_model.mts";
import * as story from "../../tests/recipes/story.mts";
import { answer } from "./agent.ts";

test("it corrects itself and draws", async () => {
  const cells = story.cells.map((code) => call("run_python", { code }));
  const model = scripted(...cells, say(story.answer));
  let text = "";
  for await (const part of answer(story.question, model)) if (part.type === "text-delta") text += part.text;
  assert.equal(text, story.answer);
  const { texts, pictures } = shown(model);
  story.check(texts, pictures);
});

test("output is seen while the code runs", async () => {
  const code =
    "import os, time\nprint('one', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.05)\nprint('two')";
  const model = scripted(call("run_python", { code }), say("Done."));
  const seen: string[] = [];
  for await (const part of answer("?", model)) {
    if (part.type !== "tool-result" || part.dynamic) continue;
    const [sandbox] = await Sandbox.list({ metadata: { recipe: "vercel-ai-sdk" } });
    if (!seen.length) await sandbox?.filesystem.write("/workspace/go", "");
    seen.push(part.output.text);
  }
  assert.equal(seen.at(0)?.trim(), "one");
  assert.equal(seen.at(-1), "one\ntwo");
});

test("a model that fails leaves no sandbox", async () => {
  await assert.rejects(async () => {
    for await (const _ of answer(story.question, scripted(call("run_python", { code: "1" }))));
  }, /the script is over/);
});

test("a reader who stops halfway leaves no sandbox", async () => {
  const model = scripted(call("run_python", { code: "print('one', flush=True)\nwhile True: pass" }), say("Never."));
  for await (const part of answer("?", model)) if (part.type === "tool-result") break;
  assert.deepEqual(await Sandbox.list(), []);
});
