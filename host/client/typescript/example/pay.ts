// Makes a payment, approves it as two people, executes and publishes it, and verifies its evidence: node pay.js BASE_URL ROOTS.JSON
import { readFile } from "node:fs/promises";
import { Gateway, GatewayError, verifyEvidence } from "operation-gateway-client";

const [base = "http://localhost:9200", roots = "roots.json"] = process.argv.slice(2);
const gateway = new Gateway(base);

const payment = (amount_minor: number) => ({
  idempotency_key: "typescript-1",
  payment: { from_account: "acct-operating", to_account: "acct-supplier", amount_minor, currency: "EUR" },
  requested_participants: [0, 1, 2],
  publication_mode: "manual" as const,
  client: { client_id: "example", subject_id: "carol", roles: [], scopes: [] },
});
const operation = await gateway.submit(payment(12_500));
console.log(`submitted ${operation.operation_id}: ${operation.state}`);

// The idempotency key names this payment, so another amount under it is refused.
try {
  await gateway.submit(payment(99_999));
  throw new Error("another payment was taken for the same");
} catch (error) {
  if (!(error instanceof GatewayError)) throw error;
  console.log(`another amount: ${error.code}`);
}

// Someone waits for the decision while two people approve.
const admitted = gateway.waitUntil(operation, (now) => now.state === "admitted", 60_000);
for (const subject_id of ["alice", "bob"]) {
  await gateway.approve(operation, { subject_id, roles: ["approver"], approved_at_ms: Date.now() });
}
console.log(`admitted with ${(await admitted).approvals.approved} approvals`);

await gateway.execute(operation);
const published = await gateway.publish(operation, "signature");
console.log(published.state);

for await (const event of gateway.events({ from: 0, operation_id: operation.operation_id })) {
  console.log(`event ${event.seq}: ${event.type}`);
  if (event.state === "published") break;
}

// In production the roots come from the operator, not from the gateway.
const { verdict, checks } = await verifyEvidence(await gateway.evidence(published), await readFile(roots, "utf8"), operation.operation_id);
for (const { name, status } of checks) console.log(`${name}: ${Object.keys(status)[0]}`);
console.log(verdict);
if (verdict === "fails") process.exitCode = 1;
