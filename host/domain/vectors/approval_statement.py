#!/usr/bin/env python3
"""Prints approval_statement.json: the statements that approvers sign, built from the specification.

Uses the standard library only, and shares no code with the gateway. Run it in this folder:

    python3 approval_statement.py > approval_statement.json
"""
import hashlib
import json

# By the member that has the time.
TAGS = {
    "approved_at_ms": "svc/approval-statement/v2",
    "rejected_at_ms": "svc/rejection-statement/v1",
    "aborted_at_ms": "svc/abort-statement/v1",
}
HEX = {"intent_hash": "11", "key_id": "22", "operation_id": "33"}


def text(value):
    """A string as ECMAScript's JSON.stringify writes it (RFC 8785, section 3.2.2.2)."""
    short = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
    return '"' + "".join(short.get(c, c if ord(c) >= 32 else f"\\u{ord(c):04x}") for c in value) + '"'


def message(statement):
    roles = "[" + ",".join(text(role) for role in statement["roles"]) + "]"
    time = next(name for name in TAGS if name in statement)
    lost = statement.get("lost_participants")
    members = sorted([
        (time, text(str(statement[time]))),  # integers are decimal strings
        *([("reason", text(statement["reason"]))] if "reason" in statement else []),
        *([("lost_participants", "[" + ",".join(text(str(one)) for one in lost) + "]")] if lost is not None else []),
        ("intent_hash", text(statement["intent_hash"])),
        ("key_id", text(statement["key_id"])),
        ("operation_id", text(statement["operation_id"])),
        ("roles", roles),
        ("subject_id", text(statement["subject_id"])),
        ("submitter", text(statement["submitter"])),
        ("tenant", text(statement["tenant"])),
    ])
    return TAGS[time] + "{" + ",".join(f"{text(name)}:{value}" for name, value in members) + "}"


def statement(subject_id="alice", roles=("approver",), approved_at_ms=1790000000000, submitter="carol",
              tenant="default", **other):
    hashes = {name: byte * 32 for name, byte in HEX.items()}
    return {**hashes, "subject_id": subject_id, "roles": list(roles), "approved_at_ms": approved_at_ms,
            "submitter": submitter, "tenant": tenant, **other}


def rejection(reason, **other):
    rejected = statement(**other)
    rejected["rejected_at_ms"] = rejected.pop("approved_at_ms")
    return {**rejected, "reason": reason}


def abort(reason, lost, **other):
    aborted = rejection(reason, **other)
    aborted["aborted_at_ms"] = aborted.pop("rejected_at_ms")
    return {**aborted, "lost_participants": lost}


STATEMENTS = {
    "an approver in one role": statement(),
    "two roles, in their order": statement(roles=["treasurer", "approver"]),
    "the same roles, in the other order": statement(roles=["approver", "treasurer"]),
    "no role": statement(roles=[]),
    "another tenant": statement(tenant="other"),
    "another submitter": statement(submitter="dave"),
    "another operation": statement(operation_id="34" * 32),
    "another key": statement(key_id="23" * 32),
    "another intent": statement(intent_hash="12" * 32),
    "before the epoch": statement(approved_at_ms=-1),
    "a time that a double rounds": statement(approved_at_ms=9007199254740993),
    "names with quotes, controls and other scripts": statement(
        subject_id='ålice "A" \\ 🔑', roles=["a,b", "c\u0001\n\u007f"], submitter="{subject_id}",
        tenant="{roles}"),
    "a rejection": rejection("not our supplier"),
    "a rejection with quotes, controls and other scripts": rejection(
        'wrong "account" \\ {roles}\n\u0001 🔑', subject_id="{reason}", roles=["{subject_id}"], submitter="{rejected_at_ms}",
        tenant="{reason}"),
    "an abort before the result is certain": abort("a node is lost", []),
    "an abort without two nodes": abort("a node is lost", [2, 10]),
    "an abort with quotes, controls and other scripts": abort(
        'wrong "node" \\ {roles}\n\u0001 🔑', [0], subject_id="{lost_participants}", roles=["{reason}"], submitter="{aborted_at_ms}",
        tenant="{lost_participants}"),
}
VECTORS = [
    {"name": name, "statement": one, "message": message(one),
     "sha256": hashlib.sha256(message(one).encode()).hexdigest()}
    for name, one in STATEMENTS.items()
]
if __name__ == "__main__":
    print(json.dumps(VECTORS, indent=2, ensure_ascii=False))
