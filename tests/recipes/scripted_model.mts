// SPDX-License-Identifier: Apache-2.0
// The AI SDK's fake model with a script of tool calls. It keeps what it was shown, and fails when the script is over.
import { convertArrayToReadableStream, MockLanguageModelV4 } from "ai/test";

type Generated = Awaited<ReturnType<MockLanguageModelV4["doGenerate"]>>;
type Said = Extract<Generated["content"][number], { type: "text" | "tool-call" }>;

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};
let ids = 0;

/** The model's last word. */
export function say(text: string): Said {
  return { type: "text", text };
}

/** The model wants a tool called. */
export function call(toolName: string, input: object): Said {
  return { type: "tool-call", toolCallId: `call-${++ids}`, toolName, input: JSON.stringify(input) };
}

export function scripted(...script: Said[]): MockLanguageModelV4 {
  const steps = script.values();
  const next = (): Omit<Generated, "content"> & { said: Said } => {
    const said = steps.next().value;
    if (!said) throw new Error("the script is over");
    const unified = said.type === "text" ? "stop" : "tool-calls";
    return { said, finishReason: { unified, raw: undefined }, usage, warnings: [] };
  };
  return new MockLanguageModelV4({
    doGenerate: async () => {
      const { said, ...end } = next();
      return { content: [said], ...end };
    },
    doStream: async () => {
      const { said, finishReason, usage, warnings } = next();
      const parts = said.type === "text" ? textParts(said.text) : [said];
      const end = { type: "finish", finishReason, usage } as const;
      return { stream: convertArrayToReadableStream([{ type: "stream-start", warnings }, ...parts, end]) };
    },
  });
}

function textParts(delta: string) {
  return [
    { type: "text-start", id: "1" } as const,
    { type: "text-delta", id: "1", delta } as const,
    { type: "text-end", id: "1" } as const,
  ];
}

/** What tools gave, as the model was shown it at last. */
export function shown({ doGenerateCalls, doStreamCalls }: MockLanguageModelV4) {
  const prompt = [...doGenerateCalls, ...doStreamCalls].at(-1)?.prompt ?? [];
  const results = prompt.flatMap(({ role, content }) => (role === "tool" ? content : []));
  const outputs = results.flatMap((result) => (result.type === "tool-result" ? [result.output] : []));
  const texts: string[] = [];
  const pictures: Uint8Array[] = [];
  for (const output of outputs) {
    if (output.type === "text" || output.type === "error-text") texts.push(output.value);
    if (output.type !== "content") continue;
    for (const part of output.value) {
      if (part.type === "text") texts.push(part.text);
      if (part.type === "file" && part.mediaType === "image/png" && part.data.type === "data")
        pictures.push(Buffer.from(part.data.data as string, "base64"));
    }
  }
  return { texts, pictures };
}
