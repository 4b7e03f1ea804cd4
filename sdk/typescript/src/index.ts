// SPDX-License-Identifier: Apache-2.0
// What the package has for its users.
export { Client, type CallOptions, type Version } from "./client.js";
export type { ExecOptions, ExecResult } from "./commands.js";
export type { ClientOptions } from "./config.js";
export { CodeContext, type RunCodeOptions } from "./context.js";
export {
  APIConnectionError,
  APITimeoutError,
  AuthError,
  BadRequestError,
  CommandError,
  ConfigError,
  ConflictError,
  ExecInterrupted,
  ExploreError,
  LimitError,
  NotFoundError,
  NotSupportedError,
  PandastackError,
  SandboxFailed,
  SandboxTimeout,
  ServerError,
  type ErrorCode,
} from "./errors.js";
export { Execution, Result, type CellStatus } from "./execution.js";
export type { Exploration, ExploreOptions, Outcome } from "./explore.js";
export { Filesystem } from "./filesystem.js";
export type {
  FileInfo,
  Lifecycle,
  Metrics,
  Network,
  NetworkState,
  SandboxEvent,
  SandboxInfo,
  Snapshot,
  Template,
} from "./generated.js";
export type { OutputBytes } from "./output.js";
export { Pty, type PtyOptions } from "./pty.js";
export { Snapshots, Templates } from "./resources.js";
export {
  Sandbox,
  type ConnectOptions,
  type ContextOptions,
  type CreateOptions,
  type EventOptions,
  type ForkOptions,
  type ListOptions,
  type PersistentOptions,
  type PromoteOptions,
  type Promotion,
  type RunOnceOptions,
} from "./sandbox.js";
export type { OutputCallbacks } from "./stream.js";
export type { ProgressOptions, Source, Target } from "./transfer.js";
export { VERSION } from "./version.js";
