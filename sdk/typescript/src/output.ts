// SPDX-License-Identifier: Apache-2.0
// Text that comes in pieces, kept up to a bound: what is over it is counted and dropped, and the text says so.

/** Of each of stdout and stderr, as the server's default for buffered answers. Callbacks get all of it. */
const OUTPUT_CHARS_MAX = 1024 * 1024;

const encoder = new TextEncoder();

class Output {
  #pieces: string[] = [];
  #room = OUTPUT_CHARS_MAX;
  bytes = 0;
  cut = false;

  push(text: string): void {
    this.bytes += encoder.encode(text).length;
    if (text.length > this.#room) {
      text = text.slice(0, this.#room).replace(/[\uD800-\uDBFF]$/, "");
      this.cut = true;
    }
    this.#room -= text.length;
    if (text) this.#pieces.push(text);
  }

  clear(): void {
    this.#pieces = [];
    this.#room = OUTPUT_CHARS_MAX;
    this.bytes = 0;
    this.cut = false;
  }

  toString(): string {
    return this.#pieces.join("") + (this.cut ? `\n[cut: ${this.bytes} bytes in all]\n` : "");
  }
}

export interface OutputBytes {
  stdout: number;
  stderr: number;
}

/** Both of what a program writes. */
export class Outputs {
  readonly stdout = new Output();
  readonly stderr = new Output();

  write(to: "stdout" | "stderr", chunk: string): void {
    this[to].push(chunk);
  }

  get cut(): boolean {
    return this.stdout.cut || this.stderr.cut;
  }

  bytesIfCut(): OutputBytes | undefined {
    return this.cut ? { stdout: this.stdout.bytes, stderr: this.stderr.bytes } : undefined;
  }
}
