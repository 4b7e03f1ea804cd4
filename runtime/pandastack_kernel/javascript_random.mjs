// SPDX-License-Identifier: Apache-2.0
/*
 * Randomness for a process that is a copy of another one.
 *
 * Copies share the state of V8's Math.random, of OpenSSL's generator and of Node's stock of UUIDs, and none of them can
 * be seeded from here. From the first `drawFreshNumbers` on the public functions therefore draw from the operating
 * system, which has been reseeded by then. Keys that OpenSSL generates by itself (generateKeyPair) are not reached.
 */
import { Buffer } from 'node:buffer';
import crypto from 'node:crypto';
import { openSync, readSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

const STOCK_BYTES = 4096;
const RANDOM_BITS = 53;

let source = -1;
let stock = Buffer.alloc(0);

/** Makes this process draw numbers that no copy of it draws; again after each copy. */
export function drawFreshNumbers() {
	stock = Buffer.alloc(0);
	if (source >= 0) return;
	source = openSync('/dev/urandom', 'r');
	Math.random = () => Number(fresh(8).readBigUInt64LE() >> 11n) / 2 ** RANDOM_BITS;
	replace(crypto);
	syncBuiltinESMExports();
}

/** Returns `size` bytes; few of them come from a stock, as a read costs more than they do. */
function fresh(size) {
	if (size > STOCK_BYTES / 8) return read(size);
	if (stock.length < size) stock = read(STOCK_BYTES);
	const bytes = stock.subarray(0, size);
	stock = stock.subarray(size);
	return bytes;
}

function read(size) {
	const bytes = Buffer.allocUnsafeSlow(size);
	let at = 0;
	while (at < size) at += readSync(source, bytes, at, size - at);
	return bytes;
}

function refill(view) {
	const bytes = ArrayBuffer.isView(view) ? view : new Uint8Array(view);
	new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength).set(fresh(bytes.byteLength));
	return view;
}

function uuid() {
	const bytes = Buffer.from(fresh(16));
	bytes[6] = (bytes[6] & 0x0f) | 0x40;
	bytes[8] = (bytes[8] & 0x3f) | 0x80;
	return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

/** An integer below `range`, which is at most 2 ** 48; numbers that would favour some are drawn again. */
function below(range) {
	const limit = 2 ** 48 - (2 ** 48 % range);
	let number;
	do number = fresh(6).readUIntLE(0, 6);
	while (number >= limit);
	return number % range;
}

/** Node's own functions still check the arguments and make the buffers; only what is in them is replaced. */
function replace({ randomBytes, randomFillSync, randomFill, randomInt, randomUUID, webcrypto }) {
	const answering = (args, make) => {
		const callback = args.at(-1);
		if (typeof callback !== 'function') return args;
		return [...args.slice(0, -1), (error, value) => callback(error, error ? value : make(value))];
	};
	crypto.randomBytes = (...args) => {
		const made = randomBytes(...answering(args, refill));
		return made === undefined ? made : refill(made);
	};
	crypto.pseudoRandomBytes = crypto.randomBytes;
	crypto.randomFillSync = (view, offset = 0, size = undefined) => {
		randomFillSync(view, offset, size);
		part(view, offset, size);
		return view;
	};
	crypto.randomFill = (view, ...args) => {
		const [offset, size] = args.filter((arg) => typeof arg !== 'function');
		return randomFill(view, ...answering(args, (value) => (part(value, offset, size), value)));
	};
	crypto.randomInt = (...args) => {
		const numbers = args.filter((arg) => typeof arg === 'number');
		const [low, high] = numbers.length > 1 ? numbers : [0, numbers[0]];
		const draw = () => low + below(high - low);
		const made = randomInt(...answering(args, draw));
		return made === undefined ? made : draw();
	};
	crypto.randomUUID = (options) => (randomUUID(options), uuid());
	const { getRandomValues } = webcrypto;
	webcrypto.getRandomValues = (view) => refill(getRandomValues.call(webcrypto, view));
	webcrypto.randomUUID = uuid;
}

function part(view, offset = 0, size = undefined) {
	const width = view.BYTES_PER_ELEMENT ?? 1;
	const [buffer, start, length] = ArrayBuffer.isView(view)
		? [view.buffer, view.byteOffset, view.byteLength]
		: [view, 0, view.byteLength];
	const from = offset * width;
	refill(new Uint8Array(buffer, start + from, size === undefined ? length - from : size * width));
}
