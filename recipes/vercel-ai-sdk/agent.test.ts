// SPDX-License-Identifier: Apache-2.0
// The agent with the AI SDK's MockLanguageModelV4.
import assert from "node:assert/strict";
import { test } from "node:test";
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
  const code = "print('one'); import time; time.sleep(0.5); print('two')";
  const results = [];
  for await (const part of answer("?", scripted(call("run_python", { code }), say("Done."))))
    if (part.type === "tool-result" && !part.dynamic) results.push([part.preliminary, part.output.text]);
  assert.deepEqual(results.at(0), [true, "one\n"]);
  assert.deepEqual(results.at(-1), [undefined, "one\ntwo"]);
});

test("a model that fails leaves no sandbox", async () => {
  await assert.rejects(async () => {
    for await (const _ of answer(story.question, scripted(call("run_python", { code: "1" }))));
  }, /the script is over/);
});
