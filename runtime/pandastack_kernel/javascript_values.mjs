// SPDX-License-Identifier: Apache-2.0
/*
 * What values and errors look like to a client: the events of results and of errors.
 *
 * A value may say so itself, by Deno's convention: a method Symbol.for("Jupyter.display") that returns a MIME bundle or
 * a promise of one. Bytes of a PNG or a JPEG picture are shown as such. All else is what util.inspect says.
 */
import { Buffer } from 'node:buffer';
import { inspect, types } from 'node:util';

const DISPLAY = Symbol.for('Jupyter.display');
const MAX_EVENT_CHARS = 64 << 20;
const MAX_TEXT_CHARS = 1 << 20;
const OWN_FRAME = new URL('javascript', import.meta.url).href;
const STACK_FRAMES = 30;
const EVALUATION_FRAME = 'node:inspector';

// Taken before cells may change them by accident.
const { parse, stringify } = JSON;
const { entries } = Object;
const errorToString = Error.prototype.toString;

// --- results ----------------------------------------------------------------------------------------------------

/** Returns the event that shows a value, or a promise of it where the value's own method returns one. */
export function resultEvent(value, options) {
	const bundle = bundleOf(value);
	return types.isPromise(bundle) ? bundle.then((made) => bundleEvent(made, options)) : bundleEvent(bundle, options);
}

/** Returns the event that shows a MIME bundle. `main`: it is the value of the cell's last expression. */
export function bundleEvent(bundle, { main = false, displayId, update = false } = {}) {
	const data = {};
	for (const [mime, value] of entries(bundle)) {
		if (value !== undefined && value !== null) data[mime] = encode(mime, value);
	}
	const event = { type: 'result', data, metadata: {}, is_main_result: main };
	if (displayId !== undefined) event.display_id = `${displayId}`;
	if (update) event.update = true;
	limit(event);
	return event;
}

function bundleOf(value) {
	if (isDisplayable(value)) return value[DISPLAY]();
	const text = describe(value);
	const picture = pictureType(value);
	return picture ? { [picture]: value, 'text/plain': text } : { 'text/plain': text };
}

function isDisplayable(value) {
	try {
		return typeof value?.[DISPLAY] === 'function';
	} catch {
		return false; // a proxy that was revoked, a getter that throws
	}
}

function describe(value) {
	if (typeof value === 'string') return inspect(value, { maxStringLength: Infinity }); // whole, as `limit` allows
	return shorten(inspect(value));
}

function pictureType(value) {
	if (!types.isUint8Array(value)) return undefined;
	if (startsWith(value, [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])) return 'image/png';
	return startsWith(value, [0xff, 0xd8, 0xff]) ? 'image/jpeg' : undefined;
}

function startsWith(bytes, signature) {
	return signature.every((byte, i) => bytes[i] === byte);
}

/** As bundles.py: JSON types are JSON text, bytes are base64 unless their type is text's, the rest is text. */
function encode(mime, value) {
	const type = mime.split(';')[0].trim();
	if (type === 'application/json' || type.endsWith('+json')) return jsonText(value);
	if (ArrayBuffer.isView(value)) {
		const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
		return bytes.toString(/^text\/|\+xml$/.test(type) ? 'utf8' : 'base64');
	}
	if (typeof value !== 'string') return typeof value === 'object' ? jsonText(value) : String(value);
	const isBinary = /^(image|audio|video|font)\/(?!.*\+xml)|^application\/pdf$/.test(type);
	return isBinary ? value.replace(/\s/g, '') : value;
}

function jsonText(value) {
	if (typeof value === 'string') {
		try {
			parse(value);
			return value;
		} catch {
			// A string that is to become JSON, not JSON already.
		}
	}
	return stringify(value) ?? 'null';
}

/** Leaves out the largest values of what no event may carry; the metadata says so. */
function limit(event) {
	const bySize = entries(event.data).sort(([, a], [, b]) => b.length - a.length);
	let total = bySize.reduce((sum, [, text]) => sum + text.length, 0);
	for (const [mime, { length }] of bySize) {
		if (total <= MAX_EVENT_CHARS) return;
		delete event.data[mime];
		(event.metadata.omitted ??= {})[mime] = length;
		total -= length;
	}
}

function shorten(text) {
	if (text.length <= MAX_TEXT_CHARS) return text;
	const half = MAX_TEXT_CHARS / 2;
	return `${text.slice(0, half)}\n[... ${text.length - 2 * half} characters left out ...]\n${text.slice(-half)}`;
}

// --- errors -----------------------------------------------------------------------------------------------------

/** Returns the event of what a cell has thrown, an Error or any other value. */
export function errorEvent(error, { name: cellName, ansi }) {
	const event = { type: 'error', ...wordsOf(error), traceback: escape(errorText(error, ansi), ansi) };
	const line = lineIn(cellName, error);
	return line ? { ...event, line } : event;
}

/** Returns the event of a cell that does not compile. */
export function syntaxErrorEvent({ exception, lineNumber, columnNumber }, { name, code }) {
	const [, value] = /^SyntaxError: ([^]*?)(?:\n {4}at |$)/.exec(exception.description) ?? [, exception.description];
	const hint = /has already been declared$/.test(value) ? ' (here, or with another keyword in an earlier cell)' : '';
	const source = code.split(/\r\n|[\n\r\u2028\u2029]/)[lineNumber] ?? '';
	const indent = source.slice(0, columnNumber).replace(/[^\t]/g, ' ');
	const where = `${name}:${lineNumber + 1}\n${source}\n${indent}^\n\n`;
	return {
		type: 'error',
		name: 'SyntaxError',
		value: escape(shorten(value + hint)),
		traceback: escape(shorten(`${where}SyntaxError: ${value}${hint}`)),
		line: lineNumber + 1,
	};
}

/** Returns an error as util.inspect shows it, whatever was thrown. */
export function errorText(error, colors = false) {
	try {
		return shorten(`${isError(error) ? '' : 'Uncaught '}${inspect(error, { colors })}`);
	} catch {
		return 'Uncaught value that cannot be shown';
	}
}

/** An error's class and message; what is thrown and is no error is named "Uncaught". */
function wordsOf(error) {
	try {
		if (isError(error)) return { name: className(error), value: escape(shorten(`${error.message}`)) };
		return { name: 'Uncaught', value: escape(shorten(inspect(error))) };
	} catch {
		return { name: 'Uncaught', value: 'a value that cannot be shown' };
	}
}

/** Errors of other contexts are no instances of our Error; a DOMException is no native one. */
function isError(value) {
	return types.isNativeError(value) || value instanceof Error;
}

function className(error) {
	const { name } = error;
	return escape(shorten(`${name === 'Error' ? error.constructor?.name || name : name}`));
}

function lineIn(cellName, error) {
	try {
		const stack = `${error.stack}`;
		const start = stack.indexOf(`${cellName}:`);
		const line = start < 0 ? NaN : Number.parseInt(stack.slice(start + cellName.length + 1), 10);
		return line || undefined;
	} catch {
		return undefined;
	}
}

/** As tracebacks.py: control characters of the user's, and lone surrogates, become escapes. */
function escape(text, keepEsc = false) {
	return text.replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]/g, (character) => {
		if (keepEsc && character === '\x1b') return character;
		if (character === '\r') return '\\r';
		const code = character.charCodeAt(0).toString(16);
		return code.length > 2 ? `\\u${code}` : `\\x${code.padStart(2, '0')}`;
	});
}

/**
 * Keeps frames of the kernel out of all stacks: its own ones, and what lies below a cell. Stacks are made long enough
 * to reach from within a library to the cell.
 */
export function hideOwnFrames() {
	Error.stackTraceLimit = STACK_FRAMES;
	Error.prepareStackTrace = (error, frames) => {
		const shown = [header(error)];
		for (const frame of frames) {
			const file = frame.getFileName() || frame.getScriptNameOrSourceURL() || '';
			if (file === EVALUATION_FRAME) break;
			if (!file.startsWith(OWN_FRAME)) shown.push(`    at ${frame}`);
		}
		return shown.join('\n');
	};
}

function header(error) {
	try {
		return errorToString.call(error);
	} catch {
		return 'Error';
	}
}
