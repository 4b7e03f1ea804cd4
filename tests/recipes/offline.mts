// SPDX-License-Identifier: Apache-2.0
// Loaded before a recipe's test: it talks to the daemon and to nobody else. Who tries is refused, and the test fails.
import dns from "node:dns";
import net from "node:net";

const tried: string[] = [];

function refused(host: string): Error | undefined {
  if (host === "localhost" || host === "::1" || (net.isIPv4(host) && host.startsWith("127."))) return undefined;
  tried.push(host);
  return new Error(`a recipe's test talks to nobody but the daemon, not to ${host}`);
}

/** Of the arguments of connect(): a port and perhaps a host, a path, options, or a list that begins with one of these. */
function hostOf([first, second]: unknown[]): string | undefined {
  if (Array.isArray(first)) return hostOf(first);
  const options = typeof first === "object" ? (first as { path?: string; host?: string }) : undefined;
  if (options?.path || (typeof first === "string" && !/^\d+$/.test(first))) return undefined;
  return (options?.host ?? (typeof second === "string" ? second : undefined)) || "localhost";
}

type Socket = net.Socket & { connect(...args: unknown[]): net.Socket };
const socket = net.Socket.prototype as Socket;
const connect = socket.connect;
socket.connect = function (this: Socket, ...args: unknown[]): net.Socket {
  const host = hostOf(args);
  const error = host === undefined ? undefined : refused(host);
  if (!error) return connect.apply(this, args);
  process.nextTick(() => this.destroy(error)); // TLS has something to set before that
  return this;
};

type Lookup = (host: string, ...args: unknown[]) => unknown;
for (const resolver of [dns, dns.promises] as unknown as Array<{ lookup: Lookup }>) {
  const lookup = resolver.lookup;
  resolver.lookup = (host, ...args) => {
    const error = refused(host);
    if (error) throw error;
    return lookup(host, ...args);
  };
}

process.on("exit", () => {
  if (!tried.length) return;
  console.error(`it called ${tried.join(", ")}`);
  process.exitCode = 1;
});
