// SPDX-License-Identifier: Apache-2.0
/*
 * The thread that sees SIGINT while the main thread is busy, and interrupts the cell there.
 *
 * Theory of operation. JavaScript handlers of signals run in the main thread's event loop, which a busy cell does not
 * get to. But a script that is run with `breakOnSigint` is terminated by the signal at once, in whichever thread it
 * runs; here it is one that only sleeps. The cell is then interrupted through an inspector session, whose requests
 * reach the main thread in the midst of a loop as well.
 *
 * While no such script runs, the signal would kill the process. So LEVELS of them run, each inside of the next: one
 * signal ends the innermost only, and another that comes before that runs again ends the one around it.
 */
import { Session } from 'node:inspector';
import { Script } from 'node:vm';
import { parentPort, workerData } from 'node:worker_threads';

const LEVELS = 8;
const AGAIN_MS = 50;

const { runningCell, watching, interruptName } = workerData;
const sleeper = new Int32Array(new SharedArrayBuffer(4));
const watch = new Script('watch()');

/** Number of watching scripts on the stack. */
let level = 0;

globalThis.watch = () => {
	const mine = ++level;
	if (mine === LEVELS) {
		Atomics.store(watching, 0, 1);
		parentPort.postMessage('watching');
		Atomics.wait(sleeper, 0, 0);
	}
	for (;;) {
		try {
			level = mine;
			watch.runInThisContext({ breakOnSigint: true });
		} catch {
			interruptCell();
		}
	}
};

/** Interrupts what runs now; if that is a cell, again until it is over. */
function interruptCell() {
	const cell = Atomics.load(runningCell, 0);
	const session = new Session();
	session.connectToMainThread();
	let tries = 0;
	do {
		const call = `globalThis[Symbol.for("${interruptName}")](${cell}, ${tries++})`;
		session.post('Runtime.evaluate', { expression: `${call}\n//# sourceURL=${import.meta.url}`, silent: true });
		Atomics.wait(runningCell, 0, cell, AGAIN_MS);
	} while (cell && Atomics.load(runningCell, 0) === cell);
	session.disconnect();
}

globalThis.watch();
