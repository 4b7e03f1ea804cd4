// SPDX-License-Identifier: Apache-2.0
// An agent of the Vercel AI SDK with a Python of its own, whose output is seen while it runs.
import { writeFile } from "node:fs/promises";
import { openai } from "@ai-sdk/openai";
import { Sandbox, type CodeContext, type Picture } from "@pandastack/sdk";
import { isStepCount, streamText, tool, type LanguageModel } from "ai";
import { z } from "zod";

const TAIL_CHARS = 2_000; // of the output, while there is more to come

interface Shown {
  text: string;
  pictures: Picture[];
}

function runPython(ctx: CodeContext) {
  return tool({
    description: "Run Python. Variables stay from one call to the next; the last value and charts are shown to you.",
    inputSchema: z.object({ code: z.string() }),
    /** The output as it comes: preliminary results, for people. The last one is what the model gets. */
    async *execute({ code }, { abortSignal: signal }): AsyncGenerator<Shown> {
      yield* new ReadableStream<Shown>({
        async start(results) {
          let text = "";
          const onStdout = (chunk: string) => {
            text = (text + chunk).slice(-TAIL_CHARS);
            results.enqueue({ text, pictures: [] });
          };
          const ex = await ctx.runCode(code, { onStdout, timeoutSeconds: 120, signal });
          results.enqueue(ex.forModel());
          results.close();
        },
      });
    },
    toModelOutput: ({ output: { text, pictures } }) => ({
      type: "content",
      value: [
        { type: "text", text },
        ...pictures.map(({ base64, mimeType }) => ({
          type: "file" as const,
          data: { type: "data" as const, data: base64 },
          mediaType: mimeType,
        })),
      ],
    }),
  });
}

export type Part = ReturnType<typeof stream>["stream"] extends AsyncIterable<infer P> ? P : never;

function stream(question: string, model: LanguageModel, ctx: CodeContext) {
  const tools = { run_python: runPython(ctx) };
  return streamText({ model, tools, prompt: question, stopWhen: isStepCount(20), onError: () => undefined });
}

/** All that happens, to its end. One sandbox and one kernel for it, whatever that is. */
export async function* answer(question: string, model: LanguageModel): AsyncGenerator<Part> {
  const sandbox = await Sandbox.create({ ttlSeconds: 600, metadata: { recipe: "vercel-ai-sdk" } });
  try {
    for await (const part of stream(question, model, await sandbox.createCodeContext()).stream) {
      if (part.type === "error") throw part.error;
      yield part;
    }
  } finally {
    await sandbox.kill();
  }
}

if (process.argv[1] === import.meta.filename) {
  let charts = 0;
  for await (const part of answer(process.argv.slice(2).join(" "), openai("gpt-5"))) {
    if (part.type === "text-delta") process.stdout.write(part.text);
    if (part.type !== "tool-result" || part.dynamic || part.preliminary) continue;
    console.log(part.output.text);
    for (const { data } of part.output.pictures) await writeFile(`chart-${++charts}.png`, data);
  }
}
