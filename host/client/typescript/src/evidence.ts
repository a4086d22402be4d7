// checks.js and checks.wasm are the console's: the code of `operation-gateway evidence verify`, compiled for `wasm32-wasip1`.
import { check } from "./checks.js";

/** One thing that evidence must show. */
export interface Check {
  name: string;
  /** What was found, what is wrong and where, or why it was not checked. */
  status: { holds: string } | { fails: { at: string; what: string }[] } | { not_checked: string };
}

/** What became of the checks. Only `holds` means that all of them were made and hold. */
export interface Report {
  verdict: "holds" | "fails" | "not_checked";
  checks: Check[];
}

let program: Promise<WebAssembly.Module> | undefined;

/**
 * Verifies evidence on this machine, without the gateway.
 *
 * `pages` are the answers of `.../evidence`, as texts: `gateway.evidence(operation)`, or the content of a file. `roots` is the text of
 * the operator's `roots.json`, which must not come from the gateway that is checked. Throws if they cannot be read.
 */
export async function verifyEvidence(pages: readonly string[], roots: string, operationId?: string): Promise<Report> {
  program ??= load();
  const request = { call: "verify", pages, roots, operation_id: operationId ?? null, now_ms: Date.now() };
  return (await check(request, program)) as Report;
}

async function load(): Promise<WebAssembly.Module> {
  const url = new URL("checks.wasm", import.meta.url);
  if (url.protocol !== "file:") return WebAssembly.compileStreaming(fetch(url));
  const { readFile } = await import("node:fs/promises");
  return WebAssembly.compile(await readFile(url));
}
