"""A payment and a key's life through a client that openapi-python-client generated. Usage: python flow.py BASE_URL"""

import sys
import time

from operation_gateway_client import Client
from operation_gateway_client.api.custody import (
    custody_key_create,
    custody_key_operations,
    custody_key_refresh,
    custody_key_reshare,
    custody_key_show,
    custody_key_sign,
    custody_operation_approve,
    custody_operation_execute,
    custody_operation_publish,
    custody_operation_show,
)
from operation_gateway_client.api.operations import (
    operation_approve,
    operation_evidence,
    operation_execute,
    operation_publish,
    operation_show,
    operation_submit,
)
from operation_gateway_client.models import (
    ActionName,
    ApproveOperationRequest,
    ClientBinding,
    CustodyKeyCreateRequest,
    CustodyKeyRefreshRequest,
    CustodyKeyReshareRequest,
    CustodyKeyState,
    CustodyPublishRequest,
    CustodySignRequest,
    ErrorBody,
    ExecuteOperationRequest,
    OperationState,
    PaymentIntent,
    PaymentTermsView,
    PublicationMode,
    PublicationScope,
    PublishOperationRequest,
    SignOperationRequest,
    StepInProgress,
)

api = Client(base_url=sys.argv[1])
run = f"python-{time.time_ns()}"
participants = [0, 1, 2]


def now() -> int:
    return time.time_ns() // 1_000_000


def caller(scope: str) -> ClientBinding:
    return ClientBinding(client_id="python", subject_id="carol", roles=["operator"], scopes=[scope])


def approval(subject: str) -> ApproveOperationRequest:
    return ApproveOperationRequest(subject_id=subject, roles=["approver"], approved_at_ms=now())


def ok(answer):
    assert answer is not None and not isinstance(answer, ErrorBody), answer
    return answer


def pay() -> None:
    body = SignOperationRequest(
        idempotency_key=run,
        payment=PaymentIntent(
            from_account="acct-operating", to_account="acct-supplier", amount_minor=12_500, currency="EUR"
        ),
        requested_participants=participants,
        publication_mode=PublicationMode.MANUAL,
        client=caller("operations.sign"),
    )
    operation_id = ok(operation_submit.sync(client=api, body=body)).operation.operation_id
    for subject in ["alice", "bob"]:
        ok(operation_approve.sync(operation_id, client=api, body=approval(subject)))
    view = ok(operation_execute.sync(operation_id, client=api, body=ExecuteOperationRequest()))
    assert view.state == OperationState.EXECUTED, view
    publication = PublishOperationRequest(scope=PublicationScope.SIGNATURE, requested_at_ms=now())
    view = ok(operation_publish.sync(operation_id, client=api, body=publication))
    assert view.state == OperationState.PUBLISHED, view
    assert isinstance(view.intent, PaymentTermsView) and view.intent.amount_minor == 12_500, view.intent
    assert len(view.result.signature_hex) == 128, view.result
    evidence = ok(operation_evidence.sync(operation_id, client=api))
    assert len(evidence.events) == evidence.total_events and evidence.decision is not None
    print(f"payment    {operation_id} {view.state}")


def complete(submitted):
    """Approves and executes a custody operation, and publishes it or waits until the gateway has."""
    operation_id = submitted.operation_id
    for subject in ["alice", "bob"]:
        ok(custody_operation_approve.sync(operation_id, client=api, body=approval(subject)))
    view = ok(custody_operation_execute.sync(operation_id, client=api, body=ExecuteOperationRequest()))
    if ActionName.PUBLISH in view.next_actions:
        publication = CustodyPublishRequest(scope="signature", requested_at_ms=now())
        view = ok(custody_operation_publish.sync(operation_id, client=api, body=publication))
    while view.in_progress == StepInProgress.PUBLICATION:
        time.sleep(0.05)
        view = ok(custody_operation_show.sync(operation_id, client=api))
    assert view.state == OperationState.PUBLISHED, view
    print(f"{view.operation_type:10} {operation_id} {view.state}")
    return view


def custody() -> None:
    key_ref = f"vault-{run}"
    key = CustodyKeyCreateRequest(
        key_ref=key_ref,
        tenant_id="default",
        asset_id="btc",
        purpose="cold storage",
        threshold=2,
        participants=participants,
        signature_profile="frost-secp256k1-sha256-tr",
        chains=["bitcoin"],
        client=caller("custody.manage"),
    )
    complete(ok(custody_key_create.sync(client=api, body=key)).operation)
    transfer = CustodySignRequest(
        idempotency_key=run,
        asset_id="btc",
        action="transfer",
        chain_id="bitcoin",
        request_digest="5a" * 32,
        typed_data_root="6b" * 32,
        requested_participants=participants,
        publication_mode=PublicationMode.MANUAL,
        client=caller("custody.sign"),
    )
    signed = complete(ok(custody_key_sign.sync(key_ref, client=api, body=transfer)).operation)
    assert signed.result.signed_digest == transfer.request_digest
    change = {"reason": "drill", "publication_mode": PublicationMode.AUTOMATIC, "client": caller("custody.manage")}
    refresh = CustodyKeyRefreshRequest(target_epoch="2", **change)
    complete(ok(custody_key_refresh.sync(key_ref, client=api, body=refresh)).operation)
    reshare = CustodyKeyReshareRequest(target_epoch="3", new_participants=[0, 1, 2, 3], threshold=3, **change)
    complete(ok(custody_key_reshare.sync(key_ref, client=api, body=reshare)).operation)
    shown = ok(custody_key_show.sync(key_ref, client=api))
    assert (shown.state, shown.active_epoch, shown.threshold) == (CustodyKeyState.ACTIVE, "3", 3), shown
    page = ok(custody_key_operations.sync(key_ref, client=api, limit=3))
    last = ok(custody_key_operations.sync(key_ref, client=api, limit=3, cursor=page.next_cursor))
    assert len(page.operations) + len(last.operations) == 4


def errors() -> None:
    missing = operation_show.sync("00" * 32, client=api)
    assert isinstance(missing, ErrorBody) and missing.error == "operation_not_found", missing
    print(f"error      {missing.error}")


pay()
custody()
errors()
