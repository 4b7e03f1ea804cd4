// SPDX-License-Identifier: Apache-2.0
// The agent with the AI SDK's MockLanguageModelV4, which Mastra takes, too.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { MastraModelConfig } from "@mastra/core/llm";
import { call, say, scripted, shown } from "../../tests/recipes/scripted_model.mts";
import * as story from "../../tests/recipes/story.mts";
import { answer, chartsOf } from "./agent.ts";

/** Runs it with these words of the model's. */
async function run(...script: Parameters<typeof scripted>) {
  const model = scripted(...script);
  const result = await answer(story.question, model as unknown as MastraModelConfig); // which is of an older release
  return { ...shown(model), result };
}

test("it corrects itself and draws", async () => {
  const cells = story.cells.map((code) => call("run_python", { code }));
  const { texts, pictures, result } = await run(...cells, say(story.answer));
  assert.equal(result.text, story.answer);
  story.check(texts, pictures);
  assert.equal(chartsOf(result).length, 1);
});

test("the workspace's shell is of the same machine", async () => {
  const write = call("run_python", { code: "open('/workspace/from_python', 'w').write('seen')" });
  const command = "cat /workspace/from_python; echo oops >&2; exit 3";
  const { texts } = await run(write, call("mastra_workspace_execute_command", { command }), say("Done."));
  const text = texts.at(-1) ?? "";
  for (const word of ["seen", "oops", "3"]) assert.ok(text.includes(word), text);
});

test("a model that fails leaves no sandbox", async () => {
  await assert.rejects(run(call("run_python", { code: "1" })), /the script is over/);
});
