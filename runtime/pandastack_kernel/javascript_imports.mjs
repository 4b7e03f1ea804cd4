// SPDX-License-Identifier: Apache-2.0
/*
 * Modules in cells: `require`, `import()` and static imports.
 *
 * Theory of operation. A script that the inspector evaluates may neither contain static imports nor call import(), as
 * Node.js attaches no loader to it. Both are therefore rewritten to calls of a global function of ours:
 *
 *	import a, { b as c } from "m";      const {default: a, b: c} = await $mport("m", undefined, ["default","b"]);
 *	import("m")                         $mport("m")
 *
 * V8's own parser finds them: it reports where an `import` stands that is no call, in exactly these words. For it to
 * report the calls as well, it is given the code with their parentheses replaced. What is in a string or a comment is
 * thus never mistaken for code, and no parser of JavaScript is needed but one for the clause of an import. Lines are
 * kept, and columns but for those after a static import. Static imports happen where they stand, not ahead of all.
 *
 * The global function imports on behalf of a CommonJS module that lies in the working directory, as `require` does.
 */
import { existsSync } from 'node:fs';
import { Module } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

/** As long as `import`, so that columns stay. */
export const GLOBAL_IMPORT = '$mport';

const OUTSIDE_MODULE = /^SyntaxError: Cannot use import statement outside a module/;
const CALL = /(?<=^|\.\.\.|[^.\w$#\u0080-\uffff])import(\s*)\(/g;
const NEWLINE = /\r\n|[\n\r\u2028\u2029]/g;
const GLOBAL_MODULES = path.resolve(process.execPath, '../../lib/node_modules');

const SPACE = String.raw`(?:\s|//[^\n\r\u2028\u2029]*|/\*[^]*?\*/)*`;
const NAME = String.raw`[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*`;
const STRING = String.raw`"(?:[^"\\\n]|\\[^])*"|'(?:[^'\\\n]|\\[^])*'`;
const TOKEN = new RegExp(`${SPACE}(${NAME}|${STRING}|[*{},;:])?`, 'uy');

/**
 * Returns code without imports of its own.
 * @param {function(string): ({message: string, line: number, column: number} | undefined)} firstSyntaxError
 */
export function rewriteImports(code, firstSyntaxError) {
	if (!/\bimport\b/.test(code)) return code;
	let text = code;
	for (;;) {
		const error = firstSyntaxError(text.replace(CALL, 'import$1;'));
		if (!error || !OUTSIDE_MODULE.test(error.message)) return text;
		const start = offset(text, error.line, error.column);
		const [end, replacement] = isCall(text, start)
			? [start + GLOBAL_IMPORT.length, GLOBAL_IMPORT]
			: rewriteStatement(text, start);
		if (!replacement) return text;
		text = text.slice(0, start) + replacement + text.slice(end);
	}
}

function offset(text, line, column) {
	let start = 0;
	NEWLINE.lastIndex = 0;
	for (let i = 0; i < line && NEWLINE.exec(text); i++) start = NEWLINE.lastIndex;
	return start + column;
}

function isCall(text, start) {
	return /^import\s*\(/.test(text.slice(start, start + 200));
}

/** Returns the end of the import statement and what takes its place; nothing if it is none. */
function rewriteStatement(text, start) {
	const tokens = tokenize(text, start + 'import'.length);
	const clause = parseClause(tokens);
	if (!clause) return [];
	const lines = text.slice(start, tokens.end).match(NEWLINE) ?? [];
	return [tokens.end, `${statement(clause)}${lines.join('')};`];
}

function tokenize(text, start) {
	const tokens = { end: start, value: undefined, next };
	let ahead = start;
	function next() {
		tokens.end = ahead;
		TOKEN.lastIndex = ahead;
		const match = TOKEN.exec(text);
		tokens.value = match?.[1];
		ahead = match ? TOKEN.lastIndex : ahead;
		return tokens;
	}
	return next();
}

/** ImportClause FromClause WithClause of ECMA-262; `bindings` are pairs of an exported and a local name. */
function parseClause(tokens) {
	const clause = { module: undefined, bindings: [], named: false, namespace: undefined, attributes: undefined };
	const take = () => {
		const { value } = tokens;
		tokens.next();
		return value;
	};
	if (isName(tokens.value)) {
		clause.bindings.push(['default', take()]);
		if (tokens.value === ',') take();
	}
	if (tokens.value === '*') {
		take();
		if (take() !== 'as') return undefined;
		clause.namespace = take();
	} else if (tokens.value === '{') {
		take();
		while (tokens.value && tokens.value !== '}') {
			const exported = take();
			const renamed = tokens.value === 'as';
			if (renamed) take();
			clause.bindings.push([exported, renamed ? take() : exported]);
			if (tokens.value === ',') take();
		}
		clause.named = take() === '}';
	}
	const hasBindings = clause.bindings.length || clause.namespace || clause.named;
	if (hasBindings && take() !== 'from') return undefined;
	clause.module = take();
	if (!isString(clause.module)) return undefined;
	if (tokens.value === 'with') {
		take();
		clause.attributes = '';
		do clause.attributes += tokens.value;
		while (take() !== '}' && tokens.value);
	}
	return clause;
}

function isName(token) {
	return token !== undefined && /^[^"'*{},;:]/.test(token);
}

function isString(token) {
	return token !== undefined && /^["']/.test(token);
}

function statement({ module, bindings, namespace, named, attributes }) {
	const exported = bindings.map(([name]) => (isString(name) ? name : JSON.stringify(name)));
	const options = attributes ? `{with: ${attributes}}` : 'undefined';
	const load = `await ${GLOBAL_IMPORT}(${module}, ${options}, [${exported}])`;
	const pattern = `{${bindings.map(([name, local]) => `${name}: ${local}`)}}`;
	if (namespace) return `const ${namespace} = ${load}, ${pattern} = ${namespace}`;
	return bindings.length || named ? `const ${pattern} = ${load}` : `void ${load}`;
}

/** What cells in a directory load modules with: { module, require, import }. */
export function loaderAt(directory) {
	const module = new Module(path.join(directory, '[cell]'));
	module.filename = module.id;
	module.paths = [...Module._nodeModulePaths(directory), GLOBAL_MODULES];
	module._compile('module.exports = { require, import: (name, options) => import(name, options) }', module.filename);
	const loader = { module, ...module.exports };
	module.exports = {};
	return loader;
}

/** Imports for a cell; `names` are those that its static import needs. */
export async function importFrom(loader, specifier, options, names) {
	const namespace = await importOrRequire(loader, specifier, options);
	const missing = names?.find((name) => !(name in namespace));
	if (missing !== undefined) {
		throw new SyntaxError(`The requested module '${specifier}' does not provide an export named '${missing}'`);
	}
	return namespace;
}

/** import() knows no folder of global modules: what it does not find there is looked for as require() does. */
async function importOrRequire(loader, specifier, options) {
	try {
		return await loader.import(specifier, options);
	} catch (error) {
		const file = error?.code === 'ERR_MODULE_NOT_FOUND' && globalFile(loader, `${specifier}`);
		if (!file) throw error;
		return loader.import(pathToFileURL(file).href, options);
	}
}

function globalFile(loader, specifier) {
	if (/^[./]|^\w+:/.test(specifier)) return undefined;
	try {
		const file = loader.require.resolve(specifier);
		return existsSync(file) ? file : undefined;
	} catch {
		return undefined;
	}
}
