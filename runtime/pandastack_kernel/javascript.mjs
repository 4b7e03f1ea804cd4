// SPDX-License-Identifier: Apache-2.0
/*
 * The JavaScript kernel: runs cells in this Node.js process.
 *
 * Usage: node javascript.mjs FD INTERRUPTS, FD being the control socket (see README.md), and INTERRUPTS a pipe from its
 * parent (javascript.py), whose every byte is an interrupt.
 *
 * Theory of operation. Cells are evaluated by V8 itself in its REPL mode, through an inspector session of this thread:
 * the one way in which code runs untouched, with its own line numbers, and yet may await at its top level, may declare
 * again what an earlier cell has declared by the same keyword, and has a value.
 *
 * A REPL script is an async function. Its promise is the first one made while `Runtime.evaluate` runs; a promise hook
 * catches it there. (No promise, then, means that the cell did not compile.) The session is closed at once, as
 * variables belong to the context: were it to wait for the promise itself, it would write out whole values as JSON; and
 * if the promise were collected, it would call JavaScript from within the collector, which aborts Node.js 24.
 *
 * When a cell is over. When its promise is settled, and after one more turn of the event loop, so that a rejection
 * that nobody handles still fails the cell. An exception that nobody catches in a callback ends it at once, as it would
 * end a script. A promise as value is awaited, and what it becomes is shown: cells often end in `main()`.
 * Timers and servers go on between cells; what they print then is kept by the agent for the next cell.
 *
 * Interrupts. A thread (javascript_watcher.mjs) reads them and calls `interrupt` in this one, even in the midst of a
 * loop. Code that runs is terminated, which it cannot catch; a cell that only waits is just declared over. A terminated
 * callback does not undo what Node.js has noted for async_hooks, which aborts when it finds out: see `leaveCallbacks`;
 * and Node's loop over setImmediate callbacks does not survive termination: see `safeImmediate`.
 *
 * process.exit() throws. Only a death that JavaScript has no part in (a signal, abort, no memory) ends the kernel.
 */
import { Session } from 'node:inspector';
import { syncBuiltinESMExports } from 'node:module';
import { Socket } from 'node:net';
import process from 'node:process';
import timers from 'node:timers';
import { types } from 'node:util';
import { promiseHooks } from 'node:v8';
import { Worker } from 'node:worker_threads';

import { Channel, Decoder, replaceStreams } from './javascript_channel.mjs';
import { drawFreshNumbers } from './javascript_random.mjs';
import { GLOBAL_IMPORT, importFrom, loaderAt, rewriteImports } from './javascript_imports.mjs';
import {
	bundleEvent,
	errorEvent,
	errorText,
	hideOwnFrames,
	resultEvent,
	syntaxErrorEvent,
} from './javascript_values.mjs';

const CELL_FRAME = /\n {4}at .*Cell\[\d+\]:/;
/** Not of Node.js itself, whose own loops do not survive termination. */
const FOREIGN_FRAME = /\n {4}at (?!.*\bnode:)/;
const INTERRUPT_NAME = 'pandastack.interrupt';

// Taken before cells may change them by accident.
const { parse } = JSON;
const { entries } = Object;
const nextTurn = setImmediate;
const exit = process.exit.bind(process);
const { queueMicrotask } = globalThis;
const then = Function.prototype.call.bind(Promise.prototype.then);

const [fd, interrupts] = process.argv.slice(2).map(Number);
const channel = new Channel(fd);
/** Shared with the watcher, which waits on it: the number of the running cell or 0. */
const runningCell = new Int32Array(new SharedArrayBuffer(4));
const requests = [];
let cell = null;
let cellsStarted = 0;
let executionCount = 1;
let loader = null;
let directory = null;

class SystemExit extends Error {
	name = 'SystemExit';
	#code;

	constructor(code) {
		super(`${code ?? 0}`); // the words of Python's
		this.#code = Number(code) & 0xff;
	}

	static codeOf(error) {
		return #code in Object(error) ? error.#code : undefined;
	}
}

// --- a cell -----------------------------------------------------------------------------------------------------

function runNext() {
	if (cell || !requests.length) return;
	const { code, ansi = false, env = {} } = requests.shift();
	cell = { number: ++cellsStarted, count: executionCount, name: `Cell[${executionCount}]`, code, ansi, failed: false };
	const mine = cell;
	if (code.trim()) executionCount++;
	mine.environment = overrideEnvironment(env);
	followDirectory();
	Atomics.store(runningCell, 0, mine.number);
	const { promise, problem } = evaluate(rewriteImports(code, firstSyntaxError), mine.name);
	if (promise) {
		const onFailure = (error) => onError(mine, error);
		const onValue = ({ '.repl_result': value }) => {
			if (types.isPromise(value)) then(value, (settled) => showValue(mine, settled), onFailure);
			else showValue(mine, value);
		};
		then(promise, onValue, onFailure);
	} else if (problem) {
		fail(mine, syntaxErrorEvent(problem, mine));
		finishSoon(mine);
	}
	// Neither: it was interrupted before it began, and `interrupt` sees to the rest.
}

/** Starts a script. Returns its promise, or what is wrong with its syntax. */
function evaluate(code, name) {
	const session = new Session();
	session.connect();
	let promise;
	let problem;
	const stop = promiseHooks.onInit((made) => {
		promise ??= made;
	});
	session.post(
		'Runtime.evaluate',
		{ expression: `${code}\n//# sourceURL=${name}`, replMode: true, silent: true },
		(_, answer) => {
			problem = answer?.exceptionDetails;
		},
	);
	stop();
	session.disconnect();
	return promise ? { promise } : { problem };
}

/** Lets V8 parse code without running it: no script can go on after such a character. */
function firstSyntaxError(code) {
	const { problem } = evaluate(`${code}\n\u0001`, 'check');
	return problem && { message: problem.exception.description, line: problem.lineNumber, column: problem.columnNumber };
}

async function showValue(mine, value) {
	try {
		if (value !== undefined && mine === cell) {
			const event = await resultEvent(value, { main: true });
			if (mine === cell) channel.event(event);
		}
	} catch (error) {
		fail(mine, errorEvent(error, mine));
	}
	finishSoon(mine);
}

function onError(mine, error) {
	if (mine !== cell) {
		reportInBackground(error);
		return;
	}
	mine.exitCode = SystemExit.codeOf(error);
	fail(mine, errorEvent(error, mine));
	finishSoon(mine);
}

function onUncaught(error) {
	if (!cell) {
		reportInBackground(error);
		return;
	}
	cell.exitCode = SystemExit.codeOf(error);
	finish(cell, errorEvent(error, cell));
}

function fail(mine, event) {
	if (mine !== cell) return;
	mine.failed = true;
	channel.event(event);
}

function reportInBackground(error) {
	channel.text('e', `In the background: ${errorText(error)}\n`);
}

function finishSoon(mine) {
	nextTurn(() => finish(mine));
}

/** Ends a cell, with an error if there is one. From its first step on, it cannot be interrupted. */
function finish(mine, error) {
	if (mine !== cell) return;
	cell = null;
	Atomics.store(runningCell, 0, 0);
	Atomics.notify(runningCell, 0);
	if (error) {
		mine.failed = true;
		channel.event(error);
	}
	restoreEnvironment(mine.environment);
	const status = mine.failed ? 'error' : 'ok';
	channel.json('d', { status, execution_count: mine.count, exit_code: mine.exitCode });
	safeImmediate(runNext);
}

/** Sets variables; returns [name, value set, value before] of each for restoreEnvironment. */
function overrideEnvironment(env) {
	const saved = [];
	for (const [name, value] of entries(env)) {
		if (!name || /[=\0]/.test(name) || value.includes('\0')) continue;
		saved.push([name, value, process.env[name]]);
		process.env[name] = value;
	}
	return saved;
}

/** Undoes overrideEnvironment, but for variables that the cell itself has changed. */
function restoreEnvironment(saved) {
	for (const [name, value, before] of saved) {
		if (process.env[name] !== value) continue;
		if (before === undefined) delete process.env[name];
		else process.env[name] = before;
	}
}

// --- interrupts -------------------------------------------------------------------------------------------------

/**
 * Ends cell `number`, or if that is 0 what an earlier one has left running, which keeps the next from its turn. The
 * watcher calls this in the midst of what runs or from the event loop, and again until the cell is over. Endless chains
 * of promises may show no frame, so from the second of the `tries` on, code is assumed to run. If none does, what is
 * terminated is the next callback; should that be ours, there is another try.
 */
function interrupt(number, tries) {
	channel.whenSafe(() => interruptNow(number, tries));
}

function interruptNow(number, tries) {
	const mine = cell;
	if (number !== (mine?.number ?? 0)) return;
	const error = new Error('the cell was interrupted');
	error.name = 'KeyboardInterrupt';
	if (mine) {
		const event = errorEvent(error, mine);
		nextTurn(() => finish(mine, event));
	}
	if (tries || (mine ? FOREIGN_FRAME : CELL_FRAME).test(error.stack)) {
		leaveCallbacks();
		terminator.post('Runtime.terminateExecution');
	}
}

/** Makes Node.js forget which callbacks it is in, as it does when it has handled an uncaught exception in one. */
function leaveCallbacks() {
	try {
		process.setUncaughtExceptionCaptureCallback(() => {});
	} catch {
		return; // The cells' own callback, or that of a domain, would get to see an exception of ours.
	}
	process._fatalException(new Error('interrupted'), false);
	process.setUncaughtExceptionCaptureCallback(null);
}

/** setImmediate, but that the callback runs as a microtask after Node's loop over such callbacks rather than in it. */
function safeImmediate(callback, ...args) {
	if (typeof callback !== 'function') return nextTurn(callback); // which says what is wrong
	return nextTurn(() => queueMicrotask(() => callback(...args)));
}

function replaceSetImmediate() {
	Object.defineProperties(safeImmediate, Object.getOwnPropertyDescriptors(nextTurn));
	globalThis.setImmediate = safeImmediate;
	timers.setImmediate = safeImmediate;
	syncBuiltinESMExports();
}

/** Calls back once it is up: an interrupt before that would be lost on a busy cell. */
function startWatcher(whenUp) {
	const watcher = new Worker(new URL('./javascript_watcher.mjs', import.meta.url), {
		workerData: { fd: interrupts, runningCell, interruptName: INTERRUPT_NAME },
		env: {},
		execArgv: [],
	});
	watcher.once('message', whenUp);
	watcher.unref();
}

// --- what cells find --------------------------------------------------------------------------------------------

/** Defines a global that does not show when the globals are listed. */
function hide(name, value) {
	Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
}

/** Shows a value, or with `raw` a MIME bundle, before the cell is over: Deno.jupyter.display(). */
function display(value, { raw = false, update = false, display_id: displayId } = {}) {
	const event = raw ? bundleEvent(value, { update, displayId }) : resultEvent(value, { update, displayId });
	return event instanceof Promise ? event.then((made) => channel.event(made)) : channel.event(event);
}

/** Loads modules from where the process is now. */
function followDirectory() {
	let now;
	try {
		now = process.cwd();
	} catch {
		return; // it was removed
	}
	if (now === directory) return;
	directory = now;
	loader = loaderAt(directory);
	hide('module', loader.module);
	hide('exports', loader.module.exports);
	hide('require', loader.require);
}

function prepareGlobals() {
	replaceStreams(channel);
	hideOwnFrames();
	replaceSetImmediate();
	hide('display', display);
	hide(GLOBAL_IMPORT, (...args) => importFrom(loader, ...args));
	process.argv.length = 1;
	process.execArgv = [];
	process.exit = (code = process.exitCode) => {
		throw new SystemExit(code);
	};
	hide(Symbol.for(INTERRUPT_NAME), interrupt);
	process.on('uncaughtException', onUncaught);
	process.on('unhandledRejection', (reason) => {
		// As without us, it is not an error where the cells' own listeners look after it.
		if (process.listenerCount('unhandledRejection') === 1) onUncaught(reason);
	});
}

// --- requests ---------------------------------------------------------------------------------------------------

function serve() {
	const decoder = new Decoder();
	const socket = new Socket({ fd, readable: true, writable: false });
	socket.on('data', (bytes) => {
		for (const { kind, payload } of decoder.feed(bytes)) {
			if (kind === 'R') requests.push(parse(payload.toString()));
			if (kind === 'S') drawFreshNumbers();
		}
		runNext();
	});
	socket.on('error', () => exit(1));
	socket.on('close', () => exit(0));
}

const terminator = new Session();
terminator.connect();
prepareGlobals();
serve();
startWatcher(() => channel.json('k', { pid: process.ppid }));
