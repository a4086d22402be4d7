//! Request bodies.

pub(crate) fn payment(idempotency_key: &str) -> String {
    format!(
        r#"{{"idempotency_key":"{idempotency_key}","key_ref":"treasury-1","payment":{{"from_account":"acct-operating-0001","to_account":"acct-supplier-0042","amount_minor":12500,"currency":"EUR","reference":"invoice 17"}},"requested_participants":[0,1,2],"threshold":2,"publication_mode":"manual","client":{{"client_id":"treasury-desk","subject_id":"carol","roles":["operator"],"scopes":["operations.sign"]}}}}"#
    )
}

pub(crate) fn approval(subject: &str) -> String {
    format!(r#"{{"subject_id":"{subject}","roles":["approver"],"approved_at_ms":1700000000000}}"#)
}

pub(crate) fn publication() -> String {
    r#"{"scope":"signature","requested_at_ms":1700000000000}"#.to_owned()
}
