// SPDX-License-Identifier: Apache-2.0
// Best of several: the same machine goes on in several ways at once, and the best one stays.
import type { CallOptions } from "./client.js";
import { ExploreError } from "./errors.js";
import type { Sandbox } from "./sandbox.js";

export interface ExploreOptions<R> extends CallOptions {
  /** Of what the attempt gave; the highest wins. */
  score: (value: R) => number | Promise<number>;
}

/** What became of one candidate: a value, or what its attempt threw. */
export interface Outcome<C, R> {
  candidate: C;
  sandboxId: string;
  value?: R;
  error?: unknown;
  /** -Infinity where it failed. */
  score: number;
}

export interface Exploration<C, R> {
  /** The sandbox that is left. */
  winner: Sandbox;
  /** What became of its candidate. */
  outcome: Outcome<C, R>;
  /** In the order of the candidates. */
  outcomes: Array<Outcome<C, R>>;
}

export async function explore<C, R>(
  parent: Sandbox,
  candidates: readonly C[],
  attempt: (sandbox: Sandbox, candidate: C) => Promise<R>,
  { score, ...call }: ExploreOptions<R>,
): Promise<Exploration<C, R>> {
  const children = await parent.forkTree({ count: candidates.length, ...call });
  let winner: Sandbox | undefined;
  try {
    const outcomes = await Promise.all(
      children.map(async (child, i): Promise<Outcome<C, R>> => {
        const candidate = candidates[i] as C;
        try {
          const value = await attempt(child, candidate);
          return { candidate, sandboxId: child.id, value, score: await score(value) };
        } catch (error) {
          return { candidate, sandboxId: child.id, error, score: -Infinity };
        }
      }),
    );
    call.signal?.throwIfAborted();
    const outcome = outcomes.reduce((a, b) => (b.score > a.score ? b : a));
    if ("error" in outcome)
      throw new ExploreError(`all ${outcomes.length} candidates failed; the first: ${String(outcome.error)}`, {
        details: outcomes,
      });
    const best = children[outcomes.indexOf(outcome)] as Sandbox;
    await best.promote(call);
    return { winner: (winner = best), outcome, outcomes };
  } finally {
    await Promise.allSettled(children.filter((child) => child !== winner).map((child) => child.kill()));
  }
}
