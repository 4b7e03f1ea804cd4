// SPDX-License-Identifier: Apache-2.0
// Made of api/openapi.yaml by scripts/generate.mjs; not to be edited.

export interface SandboxInfo {
  id: string;
  template: string;
  status: "creating" | "running" | "paused" | "hibernating" | "hibernated" | "waking" | "failed" | "stopping";
  /** Of a failed one: why */
  failure?: string;
  /** As in Metadata; one of a fork-tree has three more */
  metadata?: Record<string, string>;
  cpu?: number;
  memoryMb?: number;
  engine?: string;
  accel?: "kvm" | "tcg";
  isolation?: string;
  /** From the request to ready */
  bootMs?: number;
  bootMode?: "warm" | "snapshot" | "fork";
  /** Hibernated when idle, instead of expiring */
  persistent?: boolean;
  ttlSeconds?: number;
  idleSeconds?: number;
  /** Id of the sandbox that it was forked from */
  parent?: string;
  /** Id of the snapshot that it was made from */
  fromSnapshot?: string;
  createdAt?: string;
  network?: Network;
  /** Put off by every call but those that only look: lists, events, metrics, the console; not there for a persistent one */
  expiresAt?: string;
}

export interface Snapshot {
  id: string;
  /** Which it was taken of; it may be gone */
  sandboxId: string;
  template: string;
  templateVersion?: string;
  engine?: string;
  createdAt: string;
  /** On the disk */
  sizeBytes?: number;
  /** Pages of memory that had been written; 0 where it was imported with the whole memory */
  deltaBytes?: number;
  memoryMb?: number;
  /** How long the sandbox stood still */
  pauseMs?: number;
}

export interface Template {
  name: string;
  version: string;
  description?: string;
  engine: string;
  accel?: "kvm" | "tcg";
  /** Language of its warm kernel */
  kernel?: string;
  languages?: string[];
  sizeBytes?: number;
  diskBytes?: number;
  cpu: number;
  memoryMb: number;
  builtAt?: string;
  isGlobal: boolean;
}

export interface FileInfo {
  name: string;
  path?: string;
  isDir: boolean;
  type?: string;
  size: number;
  /** Octal */
  mode: string;
  /** Seconds */
  mtime: number;
  /** Of a symbolic link */
  target?: string;
}

export interface Lifecycle {
  ttlSeconds: number;
  persistent: boolean;
  idleSeconds: number;
  status: "creating" | "running" | "paused" | "hibernating" | "hibernated" | "waking" | "failed" | "stopping";
}

export interface Network {
  /** internet: all that is public; none: no way out */
  egress?:
    | "internet"
    | "none"
    | {
        /** Only these; left out: all that is public */
        allow?: string[];
        /** And not these */
        deny?: string[];
      };
  /** Both ways together, at least 1024; 0: no limit */
  bytesPerSecond?: number;
}

export interface NetworkState extends Network {
  /** Since its network helper was started, which is anew at each restore; null where it has none */
  counters?: {
    bytesOut?: number;
    bytesIn?: number;
    /** Of TCP */
    connections?: number;
    /** Connections, datagrams and questions that the policy refused */
    denied?: number;
    /** Frames that no honest guest sends */
    dropped?: number;
  } | null;
}

export interface SandboxEvent {
  /** No two of a sandbox have the same */
  time: string;
  sandboxId: string;
  type: string;
  payload: Record<string, unknown>;
}

export interface Metrics {
  status: "creating" | "running" | "paused" | "hibernating" | "hibernated" | "waking" | "failed" | "stopping";
  pid: number;
  uptimeSeconds: number;
  /** On average since it was started */
  hostCpuPercent: number;
  hostCpuSeconds: number;
  hostRssBytes: number;
  hostVszBytes: number;
  threads: number;
  /** Only of one that is running */
  guest?: {
    memoryTotalBytes?: number;
    memoryAvailableBytes?: number;
    uptimeMs?: number;
  };
}

export interface ProcessInfo {
  /** Rising, never used again; copies of the sandbox have the same */
  id: number;
  /** In the guest */
  pid: number;
  /** The first 256 bytes */
  cmd: string;
  status: "running" | "exited";
  /** Whether it can be written */
  stdin: boolean;
  startedAt: string;
  /** That it has written */
  outputBytes: number;
  /** Once it has ended: 128 + the signal that ended it, 124 at its time limit */
  exitCode?: number;
  signal?: number;
  timedOut?: boolean;
  durationMs?: number;
}

export interface ExecResult {
  /** At most 1 MiB; bytes that are not UTF-8 become U+FFFD */
  stdout: string;
  stderr: string;
  /** 128 + the signal that ended it */
  exitCode: number;
  signal?: number;
  durationMs?: number;
  timedOut: boolean;
  truncated: boolean;
  outputBytes?: {
    stdout?: number;
    stderr?: number;
  };
}

export interface CellResult {
  status: "ok" | "error" | "timeout" | "interrupted" | "died" | "oom";
  /** 0, or 1; that of a cell of bash, of sys.exit(), of a kernel that ended */
  exitCode: number;
  /** At most 1 MiB, or what --max-output says */
  stdout: string;
  /** At most as much */
  stderr: string;
  /** At most 32 MiB in all, or what --max-results says */
  results: Array<Record<string, string>>;
  /** The traceback; absent when all went well */
  error?: string;
  errorName?: string;
  errorValue?: string;
  errorLine?: number;
  executionCount?: number;
  durationMs?: number;
  truncated: boolean;
  outputBytes?: {
    stdout?: number;
    stderr?: number;
  };
  kernelRestarted: boolean;
  stateLost: boolean;
  signal?: number;
  reason?: string;
  /** Files below /workspace that were written while the cell ran */
  filesChanged?: string[];
  /** There were more than these */
  filesChangedTruncated?: boolean;
}

export interface Port {
  port?: number;
  /** Absent without one */
  label?: string;
  listening?: boolean;
  /** user: it has a label */
  source?: "user" | "detected";
  /** Path of the API; `/v1/sandboxes/{id}/proxy/{port}/` */
  proxyUrl?: string;
}
