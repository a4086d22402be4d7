// Runs checks.wasm: the code of `evidence verify` and `approvers sign`, compiled for `wasm32-wasip1`. The program reads a request from
// standard input and writes the answer to standard output. It gets nothing else: no files, no clock, no network.

let module = null;

/** Loads the program, so that later checks need no connection. */
export function prepare() {
  module ??= WebAssembly.compileStreaming(fetch('checks.wasm')).catch((error) => { module = null; throw error; });
  module.catch(() => {});
  return module;
}

/** The program refuses what it was given. */
export class Unsound extends Error {}

/** The answer to a request; if there is none, [`Unsound`] is thrown. Each request runs in a new instance. */
export async function check(request, program = prepare()) {
  const answer = JSON.parse(run(await program, JSON.stringify(request)));
  if (answer.error !== undefined) throw new Unsound(answer.error);
  return answer;
}

const OK = 0;
const BAD_DESCRIPTOR = 8;

class Exit extends Error {}

function run(compiled, input) {
  let unread = new TextEncoder().encode(input);
  const written = [[], [], []];
  let memory = null;
  const view = () => new DataView(memory.buffer);

  // Each vector is an address and a length.
  const vectors = (at, n) => Array.from({ length: n }, (_, nth) =>
    new Uint8Array(memory.buffer, view().getUint32(at + 8 * nth, true), view().getUint32(at + 8 * nth + 4, true)));

  const system = {
    environ_sizes_get(count, size) {
      view().setUint32(count, 0, true);
      view().setUint32(size, 0, true);
      return OK;
    },
    environ_get: () => OK,
    fd_read(descriptor, at, n, result) {
      if (descriptor !== 0) return BAD_DESCRIPTOR;
      let total = 0;
      for (const space of vectors(at, n)) {
        const part = unread.subarray(0, space.length);
        space.set(part);
        unread = unread.subarray(part.length);
        total += part.length;
      }
      view().setUint32(result, total, true);
      return OK;
    },
    fd_write(descriptor, at, n, result) {
      if (descriptor !== 1 && descriptor !== 2) return BAD_DESCRIPTOR;
      let total = 0;
      for (const bytes of vectors(at, n)) {
        written[descriptor].push(bytes.slice());
        total += bytes.length;
      }
      view().setUint32(result, total, true);
      return OK;
    },
    proc_exit(status) {
      throw new Exit(String(status));
    },
  };
  const instance = new WebAssembly.Instance(compiled, { wasi_snapshot_preview1: system });
  memory = instance.exports.memory;
  try {
    instance.exports._start();
  } catch (error) {
    if (!(error instanceof Exit && error.message === '0')) throw new Error(`the check ended early: ${texts(written[2]) || error}`);
  }
  return texts(written[1]);
}

function texts(parts) {
  const decoder = new TextDecoder();
  return parts.map((part) => decoder.decode(part, { stream: true })).join('') + decoder.decode();
}
