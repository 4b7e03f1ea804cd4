// SPDX-License-Identifier: Apache-2.0
// What the SDK has from the contracts: api/errors.def and the schemas of api/openapi.yaml, as src/codes.ts and
// src/models.ts; and the reference that is made of its own sources. A unit test fails when they are not what comes out here.
import { readFileSync, writeFileSync } from "node:fs";
import { format } from "prettier";
import { parse } from "yaml";
import { reference } from "./reference.mjs";

const root = new URL("../", import.meta.url);
const api = new URL("../../api/", root);

/** The schemas that callers get to see, by the name of their interface. */
const INTERFACES = {
  SandboxInfo: "Sandbox",
  Snapshot: "Snapshot",
  Template: "Template",
  FileInfo: "FileInfo",
  Lifecycle: "Lifecycle",
  Network: "Network",
  NetworkState: "NetworkState",
  SandboxEvent: "Event",
  Metrics: "Metrics",
  ProcessInfo: "Process",
  ExecResult: "ExecResult",
  CellResult: "CellResult",
  Port: "Port",
};
/** Members that are there for the clients of other servers, and are empty or have another name beside them. */
const LEFT_OUT = ["exit", "guest_ip", "host_tap", "mac", "vsock_cid", "mem_path", "state_path"];
const isOther = (description) => /^The same( as .*)?$/.test(description ?? "");

const camel = (name) => name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase());

function codes() {
  const rows = readFileSync(new URL("errors.def", api), "utf8").matchAll(/^X\(\w+, "([^"]+)", (\d+),/gm);
  const lines = [...rows].map(([, code, status]) => `  "${code}": ${status},`);
  return `export const statusOfCode = {\n${lines.join("\n")}\n} as const;\n`;
}

function typeOf(schema, schemas) {
  const { $ref, allOf, oneOf, type, items, properties, additionalProperties } = schema;
  const name = ($ref ?? (allOf?.length === 1 ? allOf[0].$ref : undefined))?.split("/").pop();
  if (name) return Object.keys(INTERFACES).find((key) => INTERFACES[key] === name) ?? typeOf(schemas[name], schemas);
  if (oneOf) return oneOf.map((one) => typeOf(one, schemas)).join(" | ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (type === "array") return `Array<${typeOf(items, schemas)}>`.replace("Array<string>", "string[]");
  if (properties) return `{\n${members(schema, schemas)}}${schema.nullable ? " | null" : ""}`;
  if (type === "object")
    return `Record<string, ${additionalProperties ? typeOf(additionalProperties, schemas) : "unknown"}>`;
  return { integer: "number", number: "number", string: "string", boolean: "boolean" }[type];
}

function members(schema, schemas) {
  const own = Object.entries(schema.properties).filter(
    ([key, { description }]) => !LEFT_OUT.includes(key) && !isOther(description),
  );
  const lines = own.map(([key, value]) => {
    const doc = value.description ? `/** ${value.description} */\n` : "";
    return `${doc}${camel(key)}${schema.required?.includes(key) ? "" : "?"}: ${typeOf(value, schemas)};\n`;
  });
  return lines.join("");
}

function interfaceOf(name, schema, schemas) {
  const [base, own] = schema.allOf ?? [undefined, schema];
  return `export interface ${name}${base ? ` extends ${typeOf(base, schemas)}` : ""} {\n${members(own, schemas)}}\n`;
}

/** The files, by their names. */
export async function generate() {
  const { schemas } = parse(readFileSync(new URL("openapi.yaml", api), "utf8")).components;
  const interfaces = Object.entries(INTERFACES).map(([name, of]) => interfaceOf(name, schemas[of], schemas));
  const file = (from, parts) =>
    format(
      [
        `// SPDX-License-Identifier: Apache-2.0\n// Made of ${from} by scripts/generate.mjs; not to be edited.\n`,
        ...parts,
      ].join("\n"),
      { parser: "typescript", printWidth: 120 },
    );
  return {
    "src/codes.ts": await file("api/errors.def", [codes()]),
    "src/models.ts": await file("api/openapi.yaml", interfaces),
    "../../docs/reference-typescript.md": reference(),
  };
}

if (process.argv[1] === new URL(import.meta.url).pathname)
  for (const [name, text] of Object.entries(await generate())) writeFileSync(new URL(name, root), text);
