// SPDX-License-Identifier: Apache-2.0
// What the SDK has from the contracts: api/errors.def and the schemas of api/openapi.yaml, as src/generated.ts. A unit
// test fails when that file is not what comes out here.
import { readFileSync, writeFileSync } from "node:fs";
import { parse } from "yaml";

const root = new URL("../", import.meta.url);
const api = new URL("../../api/", root);

/** The schemas that callers get to see, by the name of their interface. */
const INTERFACES = {
  SandboxInfo: "Sandbox",
  Snapshot: "Snapshot",
  Template: "Template",
  FileInfo: "FileInfo",
  Lifecycle: "Lifecycle",
};
/** Members that are there for the clients of other servers: empty, or another name of one beside them. */
const OTHERS = ["guest_ip", "host_tap", "mac", "vsock_cid", "mem_path", "state_path", "snapshot_id"];

const camel = (name) => name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase());

function codes() {
  const rows = readFileSync(new URL("errors.def", api), "utf8").matchAll(/^X\(\w+, "([^"]+)", (\d+),/gm);
  const lines = [...rows].map(([, code, status]) => `  "${code}": ${status},`);
  return `export const statusOfCode = {\n${lines.join("\n")}\n} as const;\n`;
}

function typeOf(schema, schemas) {
  const { $ref, allOf, type, items, additionalProperties } = schema;
  const of = $ref ?? allOf?.[0].$ref;
  if (of) return typeOf(schemas[of.split("/").pop()], schemas);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (type === "array") return `Array<${typeOf(items, schemas)}>`;
  if (type === "object")
    return `Record<string, ${additionalProperties ? typeOf(additionalProperties, schemas) : "unknown"}>`;
  return { integer: "number", number: "number", string: "string", boolean: "boolean" }[type];
}

function interfaceOf(name, schema, schemas) {
  const own = Object.entries(schema.properties).filter(([key]) => !OTHERS.includes(key));
  const members = own.map(([key, value]) => {
    const doc = value.description ? `  /** ${value.description} */\n` : "";
    const mark = schema.required?.includes(key) ? "" : "?";
    return `${doc}  ${camel(key)}${mark}: ${typeOf(value, schemas)};\n`;
  });
  return `export interface ${name} {\n${members.join("")}}\n`;
}

export function generate() {
  const { schemas } = parse(readFileSync(new URL("openapi.yaml", api), "utf8")).components;
  const head =
    "// SPDX-License-Identifier: Apache-2.0\n" +
    "// Made of api/errors.def and api/openapi.yaml by scripts/generate.mjs; not to be edited.\n";
  const interfaces = Object.entries(INTERFACES).map(([name, of]) => interfaceOf(name, schemas[of], schemas));
  return [head, codes(), ...interfaces].join("\n");
}

if (process.argv[1] === new URL(import.meta.url).pathname) writeFileSync(new URL("src/generated.ts", root), generate());
