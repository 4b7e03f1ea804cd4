// SPDX-License-Identifier: Apache-2.0
// A Mastra agent with a machine of its own: a tool runs Python in its kernel, and a workspace has its shell.
import { writeFile } from "node:fs/promises";
import { Agent } from "@mastra/core/agent";
import type { MastraModelConfig } from "@mastra/core/llm";
import { createTool } from "@mastra/core/tools";
import { Workspace } from "@mastra/core/workspace";
import type { CodeContext } from "@pandastack/sdk";
import { z } from "zod";
import { PandastackSandbox } from "./sandbox.ts";

process.env["MASTRA_TELEMETRY_DISABLED"] ??= "1";

const picture = z.object({ base64: z.string(), mimeType: z.string() });
const shown = z.object({ text: z.string(), pictures: z.array(picture) });
type Shown = z.infer<typeof shown>;

const runPython = (ctx: CodeContext) =>
  createTool({
    id: "run_python",
    description: "Run Python. Variables stay from one call to the next; the last value and charts are shown to you.",
    inputSchema: z.object({ code: z.string() }),
    outputSchema: shown,
    execute: async ({ code }, { abortSignal: signal }) =>
      (await ctx.runCode(code, { timeoutSeconds: 120, signal })).forModel(),
    toModelOutput: ({ text, pictures }) => ({
      type: "content",
      value: [
        { type: "text", text },
        ...pictures.map(({ base64, mimeType }) => ({ type: "image-data", data: base64, mediaType: mimeType })),
      ],
    }),
  });

/** The whole run. One sandbox and one kernel for it, whatever happens. */
export async function answer(question: string, model: MastraModelConfig) {
  const sandbox = new PandastackSandbox({ ttlSeconds: 600, metadata: { recipe: "mastra" } });
  const workspace = new Workspace({ sandbox });
  try {
    await workspace.init();
    const agent = new Agent({
      id: "analyst",
      name: "Analyst",
      instructions: "Compute with run_python; never guess a number. Read a traceback, correct the code, go on.",
      model,
      workspace,
      tools: { run_python: runPython(await sandbox.machine.createCodeContext()) },
    });
    return await agent.generate(question, { maxSteps: 20 });
  } finally {
    await workspace.destroy();
  }
}

/** What was drawn in a run, as base64. */
export function chartsOf({ steps }: Awaited<ReturnType<typeof answer>>): string[] {
  const results = steps.flatMap(({ toolResults }) => toolResults.map(({ payload }) => payload.result));
  return results.flatMap((result) => (result as Partial<Shown>).pictures?.map(({ base64 }) => base64) ?? []);
}

if (process.argv[1] === import.meta.filename) {
  const result = await answer(process.argv.slice(2).join(" "), "openai/gpt-5");
  console.log(result.text);
  for (const [i, chart] of chartsOf(result).entries()) await writeFile(`chart-${i + 1}.png`, chart, "base64");
}
