// SPDX-License-Identifier: Apache-2.0
// What the package has for its users.
export { Client } from "./client.js";
export type * from "./client.js";
export { Commands, Process } from "./commands.js";
export type * from "./commands.js";
export type { ClientOptions } from "./config.js";
export { CodeContext } from "./context.js";
export type * from "./context.js";
export * from "./errors.js";
export { Execution, Picture, Result, type ForModelOptions } from "./execution.js";
export type { Exploration, ExploreOptions, Outcome } from "./explore.js";
export { Filesystem } from "./filesystem.js";
export type * from "./filesystem.js";
export type * from "./models.js";
export { Pty, type PtyOptions } from "./pty.js";
export { Snapshots, Templates } from "./resources.js";
export { Sandbox } from "./sandbox.js";
export type * from "./sandbox.js";
export type { OutputCallbacks } from "./stream.js";
export type { ProgressOptions, Source, Target } from "./transfer.js";
export { VERSION } from "./version.js";
