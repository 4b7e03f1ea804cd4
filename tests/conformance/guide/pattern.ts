import { Sandbox } from "@pandastack/sdk";

// One sandbox + one persistent kernel for the whole agent session.
const sandbox = await Sandbox.create({ template: "code-interpreter", ttlSeconds: 3600 });
const ctx = await sandbox.createCodeContext(); // state persists across runCode calls

async function runPython(code: string): Promise<string> {
  const ex = await ctx.runCode(code);          // -> Execution
  if (ex.error) return ex.error;               // formatted traceback; the model can fix it
  // ex.png is a base64 PNG when the cell drew a chart — hand it to your UI/message.
  return ex.text ?? ex.stdout;                 // last text repr, or captured stdout
}
