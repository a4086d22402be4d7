// A payment and a key's life through a client that openapi-typescript generated. Writes the evidence of each operation.
// Usage: node flow.js BASE_URL EVIDENCE_FOLDER
import { writeFileSync } from "node:fs";
import createClient from "openapi-fetch";
import type { components, paths } from "./openapi.js";

type View = components["schemas"]["OperationView"];
type CustodyView = components["schemas"]["CustodyOperationView"];

const api = createClient<paths>({ baseUrl: process.argv[2] });
const run = `typescript-${Date.now()}`;
const caller = (scope: string) => ({ client_id: "typescript", subject_id: "carol", roles: ["operator"], scopes: [scope] });
const approval = (subject_id: string) => ({ subject_id, roles: ["approver"], approved_at_ms: Date.now() });
const publication = { scope: "signature" as const, requested_at_ms: Date.now() };

function ok<T>(answer: { data?: T; error?: components["schemas"]["ErrorBody"] }): T {
  if (answer.data === undefined) throw new Error(`${answer.error?.error}: ${answer.error?.message}`);
  return answer.data;
}

function expect(view: View | CustodyView, state: components["schemas"]["OperationState"]): void {
  if (view.state !== state) throw new Error(`${view.operation_id} is ${view.state}, not ${state}: ${view.failure?.message}`);
}

function save(name: string, evidence: components["schemas"]["EvidenceDocument"], isDecided = true): void {
  if (evidence.events.length !== evidence.total_events || (evidence.decision !== null) !== isDecided) throw new Error("no evidence");
  writeFileSync(`${process.argv[3]}/${name}.json`, JSON.stringify(evidence));
}

async function pay(): Promise<void> {
  const body: components["schemas"]["SignOperationRequest"] = {
    idempotency_key: run,
    payment: { from_account: "acct-operating", to_account: "acct-supplier", amount_minor: 12_500, currency: "EUR" },
    requested_participants: [0, 1, 2],
    publication_mode: "manual",
    client: caller("operations.sign"),
  };
  const { operation_id: operationId } = ok(await api.POST("/v1/operations/sign", { body })).operation;
  const params = { path: { operationId } };
  for (const subject of ["alice", "bob"]) {
    ok(await api.POST("/v1/operations/{operationId}/approve", { params, body: approval(subject) }));
  }
  expect(ok(await api.POST("/v1/operations/{operationId}/execute", { params })), "executed");
  const view = ok(await api.POST("/v1/operations/{operationId}/publish", { params, body: publication }));
  expect(view, "published");
  if (view.intent.kind !== "payment" || view.intent.amount_minor !== 12_500) throw new Error("another intent");
  if (view.result.signature_hex?.length !== 128) throw new Error("no signature");
  save("payment", ok(await api.GET("/v1/operations/{operationId}/evidence", { params })));
  console.log(`payment    ${operationId} ${view.state}`);
}

// Approves a payment once, has another approver reject it, and cancels another payment.
async function end(): Promise<void> {
  const body = (name: string): components["schemas"]["SignOperationRequest"] => ({
    idempotency_key: `${run}-${name}`,
    payment: { from_account: "acct-operating", to_account: "acct-supplier", amount_minor: 12_500, currency: "EUR" },
    requested_participants: [0, 1, 2],
    publication_mode: "manual",
    client: caller("operations.sign"),
  });
  const { operation_id: operationId } = ok(await api.POST("/v1/operations/sign", { body: body("rejected") })).operation;
  const params = { path: { operationId } };
  ok(await api.POST("/v1/operations/{operationId}/approve", { params, body: approval("alice") }));
  const rejection = { subject_id: "bob", roles: ["approver"], reason: "not our supplier", rejected_at_ms: Date.now() };
  const view = ok(await api.POST("/v1/operations/{operationId}/reject", { params, body: rejection }));
  expect(view, "failed");
  save("rejected", ok(await api.GET("/v1/operations/{operationId}/evidence", { params })), false);
  console.log(`rejected   ${operationId} ${view.failure?.code}`);
  const other = { path: { operationId: ok(await api.POST("/v1/operations/sign", { body: body("cancelled") })).operation.operation_id } };
  expect(ok(await api.POST("/v1/operations/{operationId}/cancel", { params: other, body: { reason: "twice" } })), "failed");
  save("cancelled", ok(await api.GET("/v1/operations/{operationId}/evidence", { params: other })), false);
}

// Approves and executes a custody operation, and publishes it or waits until the gateway has.
async function complete(submitted: CustodyView): Promise<CustodyView> {
  const params = { path: { operationId: submitted.operation_id } };
  for (const subject of ["alice", "bob"]) {
    ok(await api.POST("/v1/custody/operations/{operationId}/approve", { params, body: approval(subject) }));
  }
  let view = ok(await api.POST("/v1/custody/operations/{operationId}/execute", { params }));
  if (view.next_actions.includes("publish")) {
    view = ok(await api.POST("/v1/custody/operations/{operationId}/publish", { params, body: publication }));
  }
  while (view.in_progress === "publication") {
    await new Promise((resolve) => setTimeout(resolve, 50));
    view = ok(await api.GET("/v1/custody/operations/{operationId}", { params }));
  }
  expect(view, "published");
  save(view.operation_type, ok(await api.GET("/v1/custody/operations/{operationId}/evidence", { params })));
  console.log(`${view.operation_type.padEnd(10)} ${view.operation_id} ${view.state}`);
  return view;
}

// Approves and executes a signature whose epoch is over, and waits until its nodes have discarded it.
async function fail(submitted: CustodyView): Promise<void> {
  const params = { path: { operationId: submitted.operation_id } };
  for (const subject of ["alice", "bob"]) {
    ok(await api.POST("/v1/custody/operations/{operationId}/approve", { params, body: approval(subject) }));
  }
  const refused = await api.POST("/v1/custody/operations/{operationId}/execute", { params });
  if (refused.error?.error !== "epoch_fence_mismatch") throw new Error(`not refused: ${JSON.stringify(refused.data)}`);
  let view = ok(await api.GET("/v1/custody/operations/{operationId}", { params }));
  while (view.in_progress !== null) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    view = ok(await api.GET("/v1/custody/operations/{operationId}", { params }));
  }
  expect(view, "failed");
  save("failed", ok(await api.GET("/v1/custody/operations/{operationId}/evidence", { params })));
  console.log(`failed     ${view.operation_id} ${view.failure?.code}`);
}

async function custody(): Promise<void> {
  const keyRef = `vault-${run}`;
  const params = { path: { keyRef } };
  const key: components["schemas"]["CustodyKeyCreateRequest"] = {
    key_ref: keyRef, tenant_id: "default", asset_id: "btc", purpose: "cold storage", threshold: 2, participants: [0, 1, 2],
    signature_profile: "frost-ed25519-sha512", chains: ["bitcoin"], client: caller("custody.manage"),
  };
  await complete(ok(await api.POST("/v1/custody/keys", { body: key })).operation);
  const transfer: components["schemas"]["CustodySignRequest"] = {
    idempotency_key: run, asset_id: "btc", action: "transfer", chain_id: "bitcoin", request_digest: "5a".repeat(32),
    typed_data_root: "6b".repeat(32), requested_participants: [0, 1, 2], publication_mode: "manual",
    client: caller("custody.sign"),
  };
  const signed = await complete(ok(await api.POST("/v1/custody/keys/{keyRef}/sign", { params, body: transfer })).operation);
  if (signed.result.signed_digest !== transfer.request_digest) throw new Error("another digest");
  // Fenced to the epoch that the refresh below ends.
  const { active_epoch_root } = ok(await api.GET("/v1/custody/keys/{keyRef}", { params }));
  const late = { ...transfer, idempotency_key: `${run}-late`, epoch_fence_token_hex: active_epoch_root };
  const fenced = ok(await api.POST("/v1/custody/keys/{keyRef}/sign", { params, body: late })).operation;
  const change = { reason: "drill", publication_mode: "automatic" as const, client: caller("custody.manage") };
  const refresh = { ...change, target_epoch: "2" };
  await complete(ok(await api.POST("/v1/custody/keys/{keyRef}/refresh", { params, body: refresh })).operation);
  await fail(fenced);
  const reshare = { ...change, target_epoch: "3", new_participants: [0, 1, 2, 3], threshold: 3 };
  await complete(ok(await api.POST("/v1/custody/keys/{keyRef}/reshare", { params, body: reshare })).operation);
  const recover = {
    ...change, target_epoch: "4", recovery_case_ref: "case-1", recovering_participant: 3, helper_participants: [0, 1, 2],
    helper_share_cids: ["cid-0", "cid-1", "cid-2"],
  };
  await complete(ok(await api.POST("/v1/custody/keys/{keyRef}/recover", { params, body: recover })).operation);
  const shown = ok(await api.GET("/v1/custody/keys/{keyRef}", { params }));
  if (shown.state !== "active" || shown.active_epoch !== "4" || shown.threshold !== 3) throw new Error("another key");
  const page = ok(await api.GET("/v1/custody/keys/{keyRef}/operations", { params: { ...params, query: { limit: 3 } } }));
  const query = { limit: 3, cursor: page.next_cursor };
  const last = ok(await api.GET("/v1/custody/keys/{keyRef}/operations", { params: { ...params, query } }));
  if (page.operations.length + last.operations.length !== 6) throw new Error("not all operations listed");
  const rotate = { ...change, target_epoch: "1", new_key_ref: `${keyRef}-2`, participants: [0, 1, 2], threshold: 2 };
  await complete(ok(await api.POST("/v1/custody/keys/{keyRef}/rotate", { params, body: rotate })).operation);
}

async function errors(): Promise<void> {
  const missing = await api.GET("/v1/operations/{operationId}", { params: { path: { operationId: "00".repeat(32) } } });
  if (missing.error?.error !== "operation_not_found") throw new Error("no error");
  console.log(`error      ${missing.error.error}`);
}

await pay();
await custody();
await end();
await errors();
