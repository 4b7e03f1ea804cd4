// SPDX-License-Identifier: Apache-2.0
/*
 * The kernel's end of the control socket: frames out, frames in, and the standard streams that write to it.
 *
 * Theory of operation. What a cell writes is in the socket when the write returns: neither a crash nor an endless loop
 * just after it can lose it, and nothing piles up in memory. libuv reads the socket, so it does not block; where it is
 * full, the writer sleeps and tries again. An interrupt must not terminate a write while it is not known how much of a
 * frame was sent; between two tries it may (`whenSafe`): what is left of the frame stays at the head of `#unsent` and
 * goes out before anything later.
 */
import { Buffer } from 'node:buffer';
import { writeSync } from 'node:fs';
import process from 'node:process';
import { Writable } from 'node:stream';

const HEADER_BYTES = 5;
const TEXT_BYTES = 64 << 10;
const BODY_BYTES = 8 << 20;
/** As frames.py: what is more, the agent would take for nonsense and end the kernel. */
const EVENT_BYTES = 31 << 20;
/** As frames.py: a cell of 16 MiB and 256 KiB of environment, each byte an escape at worst. */
const MAX_REQUEST_BYTES = 6 * ((16 << 20) + (256 << 10)) + 4096;
/** From here on a value is not worth escaping and parsing as JSON. */
const DETACH_CHARS = 16 << 10;
const RETRY_MS = 1;
/** A UTF-16 unit is three bytes in UTF-8 at most. */
const SHORT_CHARS = Math.floor(TEXT_BYTES / 3);

// Taken before cells may change them by accident.
const { stringify } = JSON;
const { entries } = Object;
const { wait } = Atomics;
const reallyExit = process.reallyExit.bind(process);

export class Channel {
	#inFrame = false;
	#postponed = null;
	#fd;
	#unsent = [];
	#scratch = Buffer.allocUnsafeSlow(HEADER_BYTES + TEXT_BYTES);
	#clock = new Int32Array(new SharedArrayBuffer(4));

	constructor(fd) {
		this.#fd = fd;
	}

	/** Sends what was written to a standard stream: `kind` is 'o' or 'e', `data` a string or bytes. */
	text(kind, data) {
		if (typeof data !== 'string') {
			this.#chunks(kind, Buffer.from(data.buffer, data.byteOffset, data.byteLength));
		} else if (data.length > SHORT_CHARS) {
			this.#chunks(kind, Buffer.from(data));
		} else if (data) {
			const size = this.#scratch.write(data, HEADER_BYTES);
			writeHeader(this.#scratch, kind, size);
			this.#send([this.#scratch.subarray(0, HEADER_BYTES + size)]);
		}
	}

	/** Sends an event, or if it is too large the one that says so; large values of its `data` go ahead of it as bytes. */
	event(event) {
		const { frames, rest } = detach(event);
		const last = jsonFrame('m', rest);
		const bytes = last.length - HEADER_BYTES;
		this.#send(bytes > EVENT_BYTES ? [jsonFrame('m', { type: 'dropped', bytes })] : [...frames, last]);
	}

	/** Sends any other frame with a JSON payload. */
	json(kind, value) {
		this.#send([jsonFrame(kind, value)]);
	}

	/** Calls `terminate` now, or as soon as what is being written may be terminated. */
	whenSafe(terminate) {
		if (this.#inFrame) this.#postponed = terminate;
		else terminate();
	}

	#chunks(kind, bytes) {
		for (let start = 0, end; start < bytes.length; start = end) {
			end = chunkEnd(bytes, start);
			this.#send([frame(kind, bytes.subarray(start, end))]);
		}
	}

	#send(frames) {
		this.#unsent.push(...frames);
		while (this.#unsent.length) {
			this.#inFrame = true;
			const head = this.#unsent[0];
			const sent = tryWrite(this.#fd, head);
			if (sent === head.length) this.#unsent.shift();
			else this.#unsent[0] = Buffer.from(head.subarray(sent)); // a copy: the scratch buffer is used again
			this.#inFrame = false;
			if (this.#postponed) this.#runPostponed();
			if (sent < head.length) wait(this.#clock, 0, 0, RETRY_MS);
		}
	}

	#runPostponed() {
		const postponed = this.#postponed;
		this.#postponed = null;
		postponed();
	}
}

function tryWrite(fd, bytes) {
	try {
		return writeSync(fd, bytes, 0, bytes.length);
	} catch (error) {
		if (error.code === 'EAGAIN') return 0;
		return reallyExit(1); // The agent is gone, nobody is left to hear it.
	}
}

function writeHeader(buffer, kind, size) {
	buffer.writeUInt32LE(size, 0);
	buffer[4] = kind.charCodeAt(0);
}

function frame(kind, payload) {
	const bytes = Buffer.allocUnsafe(HEADER_BYTES + payload.length);
	writeHeader(bytes, kind, payload.length);
	payload.copy(bytes, HEADER_BYTES);
	return bytes;
}

/** The agent takes no lone surrogates, not even escaped. */
function jsonFrame(kind, value) {
	return frame(kind, Buffer.from(stringify(value, (_, item) => (typeof item === 'string' ? item.toWellFormed() : item))));
}

function detach(event) {
	const frames = [];
	const data = {};
	const body = {};
	for (const [mime, text] of entries(event.data ?? {})) {
		if (text.length < DETACH_CHARS) {
			data[mime] = text;
			continue;
		}
		const bytes = Buffer.from(text);
		body[mime] = bytes.length;
		for (let start = 0; start < bytes.length; start += BODY_BYTES) {
			frames.push(frame('b', bytes.subarray(start, start + BODY_BYTES)));
		}
	}
	return { frames, rest: frames.length ? { ...event, data, body } : event };
}

/** Where the next text frame ends: never inside a UTF-8 character. */
function chunkEnd(bytes, start) {
	const end = start + TEXT_BYTES;
	if (end >= bytes.length) return bytes.length;
	let cut = end;
	while (end - cut < 4 && (bytes[cut] & 0xc0) === 0x80) cut--;
	return (bytes[cut] & 0xc0) === 0x80 ? end : cut;
}

/** Cuts what comes from the agent into frames. */
export class Decoder {
	#parts = [];
	#size = 0;
	#needed = HEADER_BYTES;

	/** Takes bytes; yields the frames that are whole now as { kind, payload }. */
	*feed(bytes) {
		this.#parts.push(bytes);
		this.#size += bytes.length;
		while (this.#size >= this.#needed) {
			const all = this.#parts.length === 1 ? this.#parts[0] : Buffer.concat(this.#parts);
			const end = HEADER_BYTES + all.readUInt32LE(0);
			if (end > HEADER_BYTES + MAX_REQUEST_BYTES) throw new RangeError('a frame that is too large');
			const whole = all.length >= end;
			this.#parts = [whole ? all.subarray(end) : all];
			this.#size = this.#parts[0].length;
			this.#needed = whole ? HEADER_BYTES : end;
			if (whole) yield { kind: String.fromCharCode(all[4]), payload: all.subarray(HEADER_BYTES, end) };
		}
	}
}

/** process.stdout or process.stderr: writes at once, and cannot be ended. */
class KernelStream extends Writable {
	_type = 'pipe';
	#channel;
	#kind;

	constructor(channel, kind, fd) {
		super({ decodeStrings: false, autoDestroy: false, emitClose: false });
		this.#channel = channel;
		this.#kind = kind;
		this.fd = fd;
	}

	write(chunk, encoding, callback) {
		const done = typeof encoding === 'function' ? encoding : callback;
		if (typeof chunk !== 'string' && !ArrayBuffer.isView(chunk)) return super.write(chunk, encoding, callback);
		this.#put(chunk, encoding);
		if (done) process.nextTick(done);
		return true;
	}

	_write(chunk, encoding, done) {
		this.#put(chunk, encoding);
		done();
	}

	end(chunk, encoding, callback) {
		const done = [chunk, encoding, callback].find((argument) => typeof argument === 'function');
		if (typeof chunk === 'string' || ArrayBuffer.isView(chunk)) this.#put(chunk, encoding);
		if (done) this.once('finish', done);
		process.nextTick(() => this.emit('finish')); // a pipeline waits for it
		return this;
	}

	destroy() {
		return this;
	}

	#put(chunk, encoding) {
		const isText = typeof chunk !== 'string' || typeof encoding !== 'string' || /^(utf-?8|buffer)$/i.test(encoding);
		this.#channel.text(this.#kind, isText ? chunk : Buffer.from(chunk, encoding));
	}
}

/** Makes the process's standard streams and its console write to the channel. */
export function replaceStreams(channel) {
	const streams = { stdout: new KernelStream(channel, 'o', 1), stderr: new KernelStream(channel, 'e', 2) };
	for (const [name, value] of entries(streams)) {
		Object.defineProperty(process, name, { value, configurable: true, enumerable: true, writable: true });
	}
	// The global console also tells the inspector, which would keep what is logged; a callback per write, too, is memory.
	const plain = new console.Console({ ...streams, ignoreErrors: false });
	for (const [name, method] of entries(plain)) {
		if (typeof method === 'function' && Object.hasOwn(console, name)) console[name] = method;
	}
}
