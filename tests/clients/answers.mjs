// Answers requests, one JSON object a line, with the console's program.
//
// Usage: node answers.mjs PAGE, the folder with checks.js and checks.wasm
import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { join, resolve } from "node:path";

const page = resolve(process.argv[2]);
const { check } = await import(join(page, "checks.js"));
const program = WebAssembly.compile(await readFile(join(page, "checks.wasm")));
for await (const line of createInterface({ input: process.stdin })) {
  const answer = await check(JSON.parse(line), program).catch((error) => ({ error: error.message }));
  console.log(JSON.stringify(answer));
}
