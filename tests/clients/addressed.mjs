// The addresses that the TypeScript client asks, and events that the gateway does not have. Usage: node addressed.mjs BASE_URL
import assert from "node:assert/strict";
import { Gateway } from "operation-gateway-client";

const base = process.argv[2];

const good = ["https://g.example", "https://g.example/", "https://g.example/one/gateway", "https://g.example/one/gateway/"];
for (const text of good) {
  const asked = [];
  const fetch = async (request) => {
    asked.push([request.url, request.headers.get("authorization"), request.redirect]);
    return new Response("{}", { status: 200, headers: { "content-type": "application/json" } });
  };
  const gateway = new Gateway(text, { token: "secret", fetch });
  const at = (href) => ({ links: { self: { href } } });
  await gateway.refresh(at("/v1/operations/1"));
  await gateway.api.GET("/v1/caller");
  const prefix = text.replace(/\/$/, "");
  const expected = ["/v1/operations/1", "/v1/caller"].map((path) => [prefix + path, "Bearer secret", "error"]);
  assert.deepEqual(asked, expected);
  for (const wrong of ["//other.example/v1", "/\\other.example/v1", "https://other.example/v1", "v1", ""]) {
    await assert.rejects(gateway.refresh(at(wrong)), /is not a path of the gateway/, wrong);
  }
  if (prefix.endsWith("gateway")) {
    for (const wrong of ["/../v1", "/v1/../../v1", "/%2e%2e/v1"]) await assert.rejects(gateway.refresh(at(wrong)), /is not a path of the gateway/, wrong);
  }
  assert.equal(asked.length, 2);
}
for (const wrong of ["https://u:secret@g.example", "https://u@g.example", "https://g.example/?a=b", "https://g.example?", "https://g.example/#a", "ftp://g.example", "g.example", ""]) {
  assert.throws(() => new Gateway(wrong), (error) => error instanceof TypeError && !error.message.includes("secret"), wrong);
}

const own = new Gateway(base);
assert.equal((await own.api.GET("/v1/caller")).response.status, 200);
const redirected = new Gateway(new URL("/elsewhere", base).href, { retryForMs: 0 });
await assert.rejects(redirected.api.GET("/v1/caller"), "a redirect is not followed");
for (const after of ["999999-0123456789abcdef", "0-0123456789abcdef"]) {
  await assert.rejects(own.events({ after }).next(), (error) => error.code === "event_not_in_log" && error.status === 410, after);
}
const { value: first } = await own.events({ from: 0 }).next();
const { value: second } = await own.events({ after: first.id }).next();
assert(Number(second.id.split("-")[0]) > Number(first.id.split("-")[0]), `${first.id} ${second.id}`);
process.exit();
