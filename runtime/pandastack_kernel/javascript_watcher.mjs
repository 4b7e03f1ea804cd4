// SPDX-License-Identifier: Apache-2.0
/*
 * The thread that takes interrupts while the main thread is busy, and interrupts the cell there.
 *
 * Theory of operation. Each interrupt is a byte in a pipe (javascript.py), which this thread's event loop waits for. The
 * cell is then interrupted through an inspector session, whose requests reach the main thread in the midst of a loop as
 * well.
 */
import { Session } from 'node:inspector';
import { Socket } from 'node:net';
import { parentPort, workerData } from 'node:worker_threads';

const AGAIN_MS = 50;

const { fd, runningCell, interruptName } = workerData;

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

new Socket({ fd, readable: true, writable: false }).on('data', interruptCell);
parentPort.postMessage('watching');
