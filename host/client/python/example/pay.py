"""Makes a payment, approves it as two people, executes and publishes it, and verifies its evidence: python pay.py BASE_URL ROOTS.JSON"""

import sys
import time
from pathlib import Path

from operation_gateway import Gateway, GatewayError, verify_evidence
from operation_gateway_client.models import (
    ApproveOperationRequest,
    ClientBinding,
    PaymentIntent,
    PublicationMode,
    SignOperationRequest,
)

base, roots = sys.argv[1:3]
gateway = Gateway(base)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def payment(amount_minor: int) -> SignOperationRequest:
    return SignOperationRequest(
        idempotency_key="python-1",
        payment=PaymentIntent(
            from_account="acct-operating", to_account="acct-supplier", amount_minor=amount_minor, currency="EUR"
        ),
        requested_participants=[0, 1, 2],
        publication_mode=PublicationMode.MANUAL,
        client=ClientBinding(client_id="example", subject_id="carol", roles=[], scopes=[]),
    )


operation = gateway.submit(payment(12_500))
print(f"submitted {operation.operation_id}: {operation.state}")

# The idempotency key names this payment, so another amount under it is refused.
try:
    gateway.submit(payment(99_999))
    sys.exit("another payment was taken for the same")
except GatewayError as error:
    print(f"another amount: {error.code}")

for subject in ("alice", "bob"):
    gateway.approve(operation, ApproveOperationRequest(subject_id=subject, roles=["approver"], approved_at_ms=now_ms()))
admitted = gateway.wait_until(operation, lambda now: now.state == "admitted", seconds=60)
print(f"admitted with {admitted.approvals.approved} approvals")

gateway.execute(operation)
published = gateway.publish(operation, "signature", now_ms())
print(published.state)

for event in gateway.events(start=0, operation_id=operation.operation_id):
    print(f"event {event.seq}: {event.type}")
    if event.state == "published":
        break

# In production the roots come from the operator, not from the gateway.
report = verify_evidence(gateway.evidence(published), Path(roots).read_text(), operation.operation_id)
for check in report.checks:
    print(f"{check.name}: {check.result}")
print(report.verdict)
sys.exit(report.verdict == "fails")
