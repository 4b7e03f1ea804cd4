// SPDX-License-Identifier: Apache-2.0
// The package as a user has it: packed, and installed into a folder of its own.
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect } from "vitest";

const sdk = new URL("../../", import.meta.url).pathname;
const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");

function npm(folder: string, ...args: string[]): string {
  const options = ["--ignore-scripts", "--offline", "--no-audit", "--no-fund", "--loglevel=error"];
  return execFileSync("npm", [...args, ...options], { cwd: folder, encoding: "utf8" });
}

export class Installed {
  readonly folder = mkdtempSync(join(tmpdir(), "sdk-installed-"));

  constructor() {
    afterAll(() => rmSync(this.folder, { recursive: true }));
    const tarball = npm(sdk, "pack", "--pack-destination", this.folder).trim();
    writeFileSync(join(this.folder, "package.json"), '{"private": true, "type": "module"}');
    npm(this.folder, "install", join(this.folder, tarball));
    // What Node before 22 needs for a terminal.
    symlinkSync(join(sdk, "node_modules/ws"), join(this.folder, "node_modules/ws"));
  }

  write(name: string, text: string): string {
    const path = join(this.folder, name);
    writeFileSync(path, text);
    return path;
  }

  /** Runs a program to its end, which must be a good one; what it printed. */
  run(program: string, ...args: string[]): string {
    const done = spawnSync(program, args, {
      cwd: this.folder,
      encoding: "utf8",
      env: { ...process.env, HOME: this.folder },
    });
    if (done.error) throw done.error;
    expect(done.status, `${done.stdout}\n${done.stderr}`).toBe(0);
    return done.stdout;
  }

  /** Checks the types of a module as strictly as can be, compiles and runs it. */
  runTypescript(text: string): string {
    const source = this.write("program.mts", text);
    const strict = ["--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess"];
    const types = ["--typeRoots", join(sdk, "node_modules/@types"), "--types", "node"];
    this.run(process.execPath, tsc, ...strict, "--target", "es2022", "--module", "nodenext", ...types, source);
    return this.run(process.execPath, source.replace(".mts", ".mjs"));
  }
}
