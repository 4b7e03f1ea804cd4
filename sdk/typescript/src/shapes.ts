// SPDX-License-Identifier: Apache-2.0
// What is read of answers, and the members without which one is none: those that the Python SDK insists on, too.
import type * as models from "./models.js";
import { reader } from "./names.js";

export const sandboxOf = reader<models.SandboxInfo>("id", "template", "status");
export const snapshotOf = reader<models.Snapshot>("id", "sandboxId", "template", "createdAt");
export const templateOf = reader<models.Template>("name", "version", "engine", "cpu", "memoryMb");
export const processOf = reader<models.ProcessInfo>("id", "pid", "cmd", "status", "stdin", "startedAt", "outputBytes");
export const fileOf = reader<models.FileInfo>("name", "isDir", "size", "mode", "mtime");
export const portOf = reader<models.Port>("port", "listening", "source", "proxyUrl");
export const lifecycleOf = reader<models.Lifecycle>("ttlSeconds", "persistent", "idleSeconds", "status");
export const networkOf = reader<models.NetworkState>("egress");
export const sandboxEventOf = reader<models.SandboxEvent>("time", "sandboxId", "type");
export const metricsOf = reader<models.Metrics>(
  "status",
  "pid",
  "uptimeSeconds",
  "threads",
  "hostCpuSeconds",
  "hostCpuPercent",
  "hostRssBytes",
  "hostVszBytes",
);
