#!/usr/bin/env python3
"""Verifies an operation's evidence from host/docs/evidence.md alone, section "Writing a verifier". Shares no code with the gateway.

Usage: verify_evidence.py ROOTS EVIDENCE [LOG ...]

ROOTS     the output of `operation-gateway evidence roots`, from the operator
EVIDENCE  the answer of GET .../evidence, complete (`truncated` is false), - for standard input
LOG       a node's log: the output of `operation-gateway nodes log`, from the node's operator

Needs the packages cryptography and coincurve. Prints each check; exits with 1 at the first one that does not hold. It does not check
what the command `operation-gateway evidence verify` checks in addition: approvers' signatures, a second run of the policy, and which
and how many people and nodes had to act. Of logs it checks that they hide no share, not whether enough of them were given.
"""
import base64
import hashlib
import itertools
import json
import re
import sys
import unicodedata

from coincurve import PublicKeyXOnly
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

ZERO = "0" * 64


class Refused(Exception):
    pass


def need(holds, why):
    if not holds:
        raise Refused(why)


# Canonical bytes and digests.


def text(value):
    """A string as RFC 8785 writes it: json.dumps escapes the same characters in the same way."""
    return json.dumps(value, ensure_ascii=False)


def canonical(value):
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int):
        return f'"{value}"'
    if isinstance(value, str):
        return text(value)
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    need(isinstance(value, dict), f"{value!r} has no canonical form")
    names = sorted(value, key=lambda name: name.encode("utf-16-be"))
    return "{" + ",".join(f"{text(name)}:{canonical(value[name])}" for name in names) + "}"


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).hexdigest()


def digest(tag, value):
    return sha256(tag.encode(), canonical(value).encode())


def unique(pairs):
    need(len(pairs) == len(dict(pairs)), "a member appears twice")
    return dict(pairs)


def without(value, *names):
    return {name: member for name, member in value.items() if name not in names}


# Signatures.


def ed25519(public_key, signature, message):
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key)).verify(signature, message)
        return True
    except (InvalidSignature, ValueError):
        return False


def dsse(payload_type, payload):
    return f"DSSEv1 {len(payload_type)} {payload_type} {len(payload)} ".encode() + payload


def note_is_signed(note, keys):
    """A C2SP signed note: its text, if one of these verifier keys signed it."""
    body, _, signatures = note.rpartition("\n\n")
    body += "\n"
    for key in keys:
        name, key_hash, encoded = key.split("+", 2)
        public_key = base64.b64decode(encoded)[1:]
        for line in signatures.splitlines():
            signed = re.fullmatch(r"\u2014 (\S+) (\S+)", line)
            if signed and signed[1] == name:
                raw = base64.b64decode(signed[2])
                if raw[:4].hex() == key_hash and ed25519(public_key.hex(), raw[4:], body.encode()):
                    return body
    raise Refused("no trusted log key signed the note")


# The key for payments: the public key, and a hash of it and of the key's id times the generator.

P_25519 = 2**255 - 19
D_25519 = -121665 * pow(121666, -1, P_25519) % P_25519
ORDER_25519 = 2**252 + 27742317777372353535851937790883648493
ORDER_SECP256K1 = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


def point_25519(encoded):
    """The point of an encoding (RFC 8032, section 5.1.3)."""
    y, sign = int.from_bytes(encoded, "little") & (1 << 255) - 1, encoded[31] >> 7
    need(y < P_25519, "not a point of Ed25519")
    square = (y * y - 1) * pow(D_25519 * y * y + 1, -1, P_25519) % P_25519
    x = pow(square, (P_25519 + 3) // 8, P_25519)
    x = x if x * x % P_25519 == square else x * pow(2, (P_25519 - 1) // 4, P_25519) % P_25519
    need(x * x % P_25519 == square and not (x == 0 and sign), "not a point of Ed25519")
    return (x if x & 1 == sign else P_25519 - x), y


def add_25519(a, b):
    product = D_25519 * a[0] * b[0] * a[1] * b[1] % P_25519
    x = (a[0] * b[1] + b[0] * a[1]) * pow(1 + product, -1, P_25519) % P_25519
    return x, (a[1] * b[1] + a[0] * b[0]) * pow(1 - product, -1, P_25519) % P_25519


def payments_key(key_id, public_key_artifact_ref):
    """The public key for payments of a key, hexadecimal."""
    profile, _, public = public_key_artifact_ref.partition(":")
    tweak = hashlib.sha256(b"svc/payments-key/v1" + bytes.fromhex(key_id) + bytes.fromhex(public)).digest()
    if profile == "frost-ed25519-sha512":
        point, scalar = point_25519(bytes.fromhex(public)), int.from_bytes(tweak, "little") % ORDER_25519
        power = point_25519((4 * pow(5, -1, P_25519) % P_25519).to_bytes(32, "little"))
        while scalar:
            point, power, scalar = add_25519(point, power) if scalar & 1 else point, add_25519(power, power), scalar >> 1
        return (point[1] | (point[0] & 1) << 255).to_bytes(32, "little").hex()
    need(profile == "frost-secp256k1-sha256-tr", "an unknown signature profile")
    key = PublicKeyXOnly(bytes.fromhex(public))
    key.tweak_add((int.from_bytes(tweak, "big") % ORDER_SECP256K1).to_bytes(32, "big"))
    return key.format().hex()


# The Merkle tree (RFC 9162, sections 2.1.3.2 and 2.1.4.2).


def node(left, right):
    return hashlib.sha256(b"\1" + left + right).digest()


def inclusion_root(leaf, index, size, path):
    need(index < size, "the index is outside the log")
    fn, sn, root = index, size - 1, leaf
    for sibling in path:
        need(sn > 0, "the inclusion proof is too long")
        if fn & 1 or fn == sn:
            root = node(sibling, root)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            root = node(root, sibling)
        fn, sn = fn >> 1, sn >> 1
    need(sn == 0, "the inclusion proof is too short")
    return root


def check_consistency(first, second, first_root, second_root, path):
    if first == second:
        need(first_root == second_root and not path, "logs of one size differ")
        return
    path = ([first_root] if first & (first - 1) == 0 else []) + path
    need(path, "the consistency proof is empty")
    fn, sn = first - 1, second - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    old = new = path[0]
    for part in path[1:]:
        need(sn > 0, "the consistency proof is too long")
        if fn & 1 or fn == sn:
            old, new = node(part, old), node(part, new)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            new = node(new, part)
        fn, sn = fn >> 1, sn >> 1
    need(sn == 0 and old == first_root and new == second_root, "the logs are not consistent")


# The checks, in the order of the page.


def last_four(value):
    return "\u2026" + (value[-4:] if len(value) > 4 else "")


def opened(entry):
    """The event with its disclosed fields in the place of their commitments."""
    event, n_opened = json.loads(json.dumps(entry["event"])), 0
    for field in entry["disclosures"]:
        holder, tokens = event, [part.replace("~1", "/").replace("~0", "~") for part in field["path"].split("/")[1:]]
        for token in tokens[:-1]:
            holder = holder[int(token) if isinstance(holder, list) else token]
        last = int(tokens[-1]) if isinstance(holder, list) else tokens[-1]
        hidden = holder[last]
        need(hidden["commitment"] == digest("svc/field/v1", field), f"event {entry['seq']}: {field['path']} was altered")
        need(hidden.get("shown", last_four(str(field["value"]))) == last_four(str(field["value"])), "a masked form was altered")
        holder[last], n_opened = field["value"], n_opened + 1
    need('"commitment"' not in json.dumps(event), f"event {entry['seq']}: not every field is disclosed")
    return event, n_opened


def check_chain(document):
    head, total = ZERO, 0
    events = []
    for number, entry in enumerate(document["events"], 1):
        need(entry["seq"] == number, f"event {number} is missing")
        head = sha256(b"svc/event/v2", bytes.fromhex(head), canonical(entry["event"]).encode())
        need(entry["event_hash"] == head, f"event {number} was altered")
        event, n_opened = opened(entry)
        total += n_opened
        need(not events or events[-1]["at_ms"] <= event["at_ms"], f"event {number} is earlier than the one before it")
        events.append(event)
    need(document["record_root"] == head and document["total_events"] == len(events), "not the last event")
    need(document["previous_hash"] == ZERO and document["next_after_seq"] is None, "not the only page")
    return events, f"{len(events)} events, {total} opened fields"


STATES = {
    "submitted": "submitted",
    "approval_requested": "pending_approval",
    "admission_applied": "admitted",
    "receipt_materialized": "receipt_materialized",
    "ceremony_started": "executing",
    "executed": "executed",
    "published": "published",
    "aborted": "executing",
    "discard_acked": "failed",
    "failed": "failed",
}
STEPS = {
    "admission_applied": "admission",
    "receipt_materialized": "policy-receipt",
    "executed": "execute",
    "epoch_decided": "execute",
    "epoch_acked": "commit-epoch",
    "published": "publish",
    "discard_acked": "discard",
    "failed": "discard",
}
MOMENTS = {"submitted": "submit", "approval_recorded": "approval", "rejection_recorded": "approval", "approvals_waived": "approval"}


def summary(submission, events):
    """The members of a document that follow from its events alone."""
    custody = submission["intent"]["kind"] != "payment"
    found = {
        **{name: submission[name] for name in ["operation_id", "tenant", "submitter", "intent", "intent_hash"]},
        **{"key_id": submission["key"]["key_id"], "key_ref": submission["key"]["key_ref"]},
        **{"family": "custody" if custody else "product", "approvals": [], "policy": [], "receipts": [], "effects": []},
        **{"decision": None, "result": {}, "result_ref": None, "publication_receipt": None, "external_export": None},
    }
    signature = None
    for number, event in enumerate(events, 1):
        change = event["change"]
        kind = change["type"]
        found["state"] = STATES.get(kind, found.get("state"))
        if kind == "approval_recorded":
            found["approvals"].append(change["approval"])
        if change.get("policy"):
            names = ["decision", "bundle_id", "bundle_hash", "input_hash", "output_hash", "fuel_used"]
            outcome = {name: change["policy"][name] for name in names}
            found["policy"].append({"seq": number, "moment": MOMENTS.get(kind, "admission"), **outcome})
        if kind == "decision_signed":
            found["decision"] = {name: change["admission"][name] for name in ["admission_hash", "envelope"]}
        if change.get("receipts") and kind in STEPS:
            for package, receipts in itertools.groupby(change["receipts"], lambda receipt: "package_hash" in receipt):
                receipts = [without(receipt, "package_hash") for receipt in receipts]
                found["receipts"].append({"step": "execute" if package else STEPS[kind], "receipts": receipts})
        if event.get("settles"):
            effect = event["settles"]["id"]
            effect_id = f"{effect['operation']}.{effect['step']}.{effect['attempt']}"
            found["effects"].append({"effect_id": effect_id, "result_root": event["settles"]["result_root"]})
        if kind == "executed":
            found["result_ref"], signature = change["result_ref"], change["signature"]
        if kind == "published":
            found["publication_receipt"], found["result"] = change["publication_receipt"], signature or {}
        if kind == "externally_exported":
            found["external_export"] = without(change, "type")
    return found


def check_operation(document, events):
    submission = events[0]["change"]
    need(submission["type"] == "submitted", "the first event is not a submission")
    need(submission["intent_hash"] == digest("svc/intent/v1", submission["intent"]), "another intent hash")
    key = {"tenant_id": submission["tenant"], "key_ref": submission["key"]["key_ref"]}
    need(submission["key"]["key_id"] == digest("svc/key-id/v1", key), "another key id")
    for name, value in summary(submission, events).items():
        need(document[name] == value, f"`{name}` does not follow from the events")
    return submission


# Default_Ignorable_Code_Point and White_Space of the Unicode Character Database.
IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"


def person(subject_id):
    """The form in which subject ids are compared: two spellings of one form are one person."""
    folded = unicodedata.normalize("NFKC", IGNORABLE.sub("", subject_id)).casefold()
    return unicodedata.normalize("NFKC", folded).strip(WHITE_SPACE)


def check_people(approvals, quorum):
    approved = [person(approval["subject_id"]) for approval in approvals]
    counted = [person(subject) for subject in quorum["subjects"]]
    need(len(set(approved)) == len(approved), "a person has approved twice")
    need(len(set(counted)) == len(counted) and set(counted) <= set(approved), "the quorum counts a person twice, or one who did not approve")
    need(not quorum["satisfied"] or len(counted) >= quorum["required"], "the quorum counts too few people")


def check_policy(submission, events):
    approvals, evaluated = [], 0
    admitted_over, admission = [], None
    for event in events:
        change = event["change"]
        if change["type"] == "approval_recorded":
            approvals.append(change["approval"])
        outcome = change.get("policy")
        if outcome is None:
            continue
        considered = approvals
        if change["type"] == "rejection_recorded":
            # The policy was asked whether an approval of the subject would count.
            rejection = without(change["rejection"], "reason", "lost", "rejected_at_ms", "signature")
            considered = [*approvals, {**rejection, "approved_at_ms": change["rejection"]["rejected_at_ms"]}]
        request = {
            "moment": MOMENTS.get(change["type"], "admission"),
            "key_ref": submission["key"]["key_ref"],
            "approvals": considered,
            **{name: submission[name] for name in ["intent_hash", "tenant", "submitter", "intent"]},
        }
        need(outcome["input_hash"] == digest("svc/policy-input/v1", request), "another policy input")
        output = {name: outcome[name] for name in ["decision", "reasons", "obligations", "quorum"]}
        need(outcome["output_hash"] == digest("svc/policy-output/v1", output), "another policy output")
        check_people(considered, outcome["quorum"])
        if change["type"] == "decision_signed":
            admitted_over, admission = list(approvals), change
        evaluated += 1
    return admitted_over, admission, f"{evaluated} evaluations"


def check_admission(roots, submission, approvals, signed):
    admission, outcome = signed["admission"], signed["policy"]
    envelope, kind = admission["envelope"], "application/vnd.svc.admission-decision.v2+json"
    need(envelope["payloadType"] == kind, "another payload")
    payload = base64.b64decode(envelope["payload"], validate=True)
    authorities = {sha256(b"svc/key/v1", bytes.fromhex(key))[:32]: key for key in roots["authorities"]}
    valid = [
        ed25519(authorities[one["keyid"]], base64.b64decode(one["sig"]), dsse(kind, payload))
        for one in envelope["signatures"]
        if one["keyid"] in authorities
    ]
    need(all(valid), "the signature of an authority is wrong")
    need(len(envelope["signatures"]) <= len(authorities), "the decision has more signatures than there are authorities")
    signers = {one["keyid"] for one in envelope["signatures"] if one["keyid"] in authorities}
    threshold = roots.get("authority_threshold", 1)
    need(1 <= threshold <= len(signers), "too few authorities signed the decision")
    decision = admission["decision"]
    need(payload == canonical(decision).encode(), "the decision is not the one that is signed")
    need(admission["admission_hash"] == sha256(b"svc/admission/v1", payload), "another admission hash")
    root = digest("svc/approvals/v1", {"intent_hash": submission["intent_hash"], "approvals": approvals})
    expected = {
        "operation_id": submission["operation_id"],
        "intent_hash": submission["intent_hash"],
        "key_id": submission["key"]["key_id"],
        "approvals_root": root,
        "bundle_hash": outcome["bundle_hash"],
        "policy_input_hash": outcome["input_hash"],
        "policy_output_hash": outcome["output_hash"],
    }
    for name, value in expected.items():
        need(decision[name] == value, f"the decision has another `{name}`")
    if submission["intent"]["kind"] == "asset_action":
        request = submission["intent"]["request_digest"]
    else:
        request = {"intent": submission["intent"], "key_id": decision["key_id"], "operation_id": decision["operation_id"]}
        request = digest("svc/signing-request/v2", request)
    need(decision["request_digest"] == request, "the decision has another `request_digest`")
    derived, intent = decision.get("derivation", {}), submission["intent"]
    asked = {"path": intent.get("bip32", {}).get("path"), "taproot": intent.get("taproot")}
    pays = intent["kind"] == "payment"
    need({name: derived.get(name) for name in asked} == asked, "the decision is for another derived key")
    need(derived.get("payments", False) == pays, "the decision is for the key of the other family")
    need(bool(derived) == (pays or any(value is not None for value in asked.values())), "the decision is for another derived key")
    return admission["admission_hash"], decision


def check_receipts(roots, events, admission_hash, decision):
    attempt, epoch_root, result_ref, signed_statements = 1, None, None, {}
    signs = decision["operation_type"] == "sign"

    def transition(participant, *steps):
        head = admission_hash
        for step, number in steps:
            link = {"previous": head, "step": step, "attempt": number, "operation_id": decision["operation_id"]}
            head = digest("svc/node-transition/v1", {**link, "participant": participant})
        return head

    for event in events:
        change = event["change"]
        kind, subject, number = change["type"], admission_hash, 1
        start = [("admission", 1)]
        after_execute = [*start, ("policy-receipt", 1), ("execute", attempt)]
        after_commit = after_execute if signs else [*after_execute, ("commit-epoch", 1)]
        if kind == "epoch_decided":
            epoch_root, result_ref = change["staged"]["epoch"]["root"], digest("svc/result/v1", change["staged"])
        elif kind == "executed" and change["signature"]:
            result_ref = digest("svc/result/v1", change["signature"])
        if kind == "executed":
            need(change["result_ref"] == result_ref, "another result_ref")
        basis = ["bundle_hash", "policy_input_hash", "policy_output_hash", "approvals_root"]
        if kind == "attempt_lost":
            steps, number = [*start, ("policy-receipt", 1), ("discard", change["attempt"])], change["attempt"]
            packages = {receipt.get("package_hash") for receipt in change.get("receipts", [])}
            need(None in packages or len(packages) > 1, "an attempt was lost, and no node signed that it will not complete it")
            attempt = change["attempt"] + 1
        elif kind == "admission_applied":
            steps = start
        elif kind == "receipt_materialized":
            steps = [*start, ("policy-receipt", 1)]
            subject = digest("svc/receipt/policy/v1", {name: decision[name] for name in basis})
        elif kind == "executed" and change["signature"]:
            steps, number = after_execute, attempt
            share = {name: change["signature"][name] for name in ["signed_digest", "package_hash"]}
            subject = digest("svc/receipt/share/v1", share)
        elif kind == "epoch_decided":
            steps, number, subject = after_execute, attempt, epoch_root
        elif kind == "epoch_acked":
            steps, subject = after_commit, epoch_root
        elif kind == "published":
            steps, subject = [*after_commit, ("publish", 1)], result_ref
        elif kind in ("discard_acked", "failed"):
            steps = [*start, ("discard", 1)]
        else:
            continue
        for receipt in change.get("receipts", []):
            made, about = steps, subject
            if kind == "attempt_lost" and "package_hash" in receipt:
                # The node signed another package in the attempt.
                share = {"signed_digest": decision["request_digest"], "package_hash": receipt["package_hash"]}
                made, about = [*start, ("policy-receipt", 1), ("execute", number)], digest("svc/receipt/share/v1", share)
            statement = {
                "operation_id": decision["operation_id"],
                "participant": receipt["participant"],
                "step": made[-1][0],
                "attempt": number,
                "admission_hash": admission_hash,
                "transition_hash": transition(receipt["participant"], *made),
                "subject": about,
            }
            need(receipt["transition_hash"] == statement["transition_hash"], f"{kind}: another transition")
            payload = canonical({**statement, "log_index": receipt["log_index"]}).encode()
            signed = dsse("application/vnd.svc.node-receipt.v1+json", payload)
            key = roots["nodes"][str(receipt["participant"])]
            need(ed25519(key, bytes.fromhex(receipt["node_signature"]), signed), f"{kind}: a receipt was altered")
            signed_statements[receipt["participant"], receipt["log_index"]] = statement
    return signed_statements


def read_node_log(roots, lines):
    """The entries of a node's log, if they are exactly those under a head that the node signed."""
    header, *lines = [json.loads(line, object_pairs_hook=unique) for line in lines]
    need(header["format"] == "svc/node-log/v1", "not a node's log")
    node_id = header["participant"]
    heads = [line for line in lines if "head" in line]
    entries = [line for line in lines if "head" not in line]
    roots_by_size = {0: hashlib.sha256().digest()}
    peaks = []
    for index, entry in enumerate(entries):
        need(entry["log_index"] == index, f"node {node_id}: entry {index} is at another position")
        peaks.append((1, hashlib.sha256(b"\0" + bytes.fromhex(digest("svc/node-log/v1", entry))).digest()))
        while len(peaks) > 1 and peaks[-1][0] == peaks[-2][0]:
            (width, left), (_, right) = peaks[-2:]
            peaks[-2:] = [(2 * width, node(left, right))]
        root = peaks[-1][1]
        for _, left in reversed(peaks[:-1]):
            root = node(left, root)
        roots_by_size[index + 1] = root
    for signed in heads:
        head = signed["head"]
        payload = dsse("application/vnd.svc.node-log-head.v1+json", canonical(head).encode())
        need(head["participant"] == node_id, f"node {node_id}: the head of another node")
        need(ed25519(roots["nodes"][str(node_id)], bytes.fromhex(signed["node_signature"]), payload), f"node {node_id}: a forged head")
        need(roots_by_size.get(head["size"], b"").hex() == head["root"], f"node {node_id}: the head is of another log")
    need(max((signed["head"]["size"] for signed in heads), default=None) == len(entries), f"node {node_id}: no head over all entries")
    return node_id, entries


def check_node_logs(logs, events, decision, signed_statements):
    """Each receipt is at its position, and each share in the logs is in a receipt or of a package that was not completed."""
    logs, shares, abandoned = dict(logs), 0, {}
    ended = {event["change"]["attempt"] for event in events if event["change"]["type"] == "attempt_lost"}
    if any(event["change"]["type"] == "aborted" for event in events):
        ended.add(max(ended, default=0) + 1)
    signature = next((event["change"]["signature"] for event in events if event["change"].get("signature")), None)
    for (participant, index), statement in signed_statements.items():
        if participant in logs:
            need(index < len(logs[participant]), f"node {participant}: the log does not reach position {index}")
            entry = logs[participant][index]
            need(entry["type"] == "lost" or entry.get("statement") == statement, f"node {participant}: another entry at {index}")
    for participant, entries in logs.items():
        need(not any(entry["type"] == "lost" for entry in entries), f"node {participant}: a rollback lost entries")
        for entry in entries:
            statement = entry.get("statement", {})
            if statement.get("operation_id") != decision["operation_id"] or "share" not in entry:
                continue
            released = {name: entry["share"][name] for name in ["signed_digest", "package_hash"]}
            need(statement["subject"] == digest("svc/receipt/share/v1", released), f"node {participant}: another share")
            shares += 1
            if (participant, entry["log_index"]) in signed_statements:
                continue
            explained = statement["attempt"] in (ended if signature is None else {*ended, max(ended, default=0) + 1})
            need(explained, f"node {participant}: the share at {entry['log_index']} is not shown")
            signers = abandoned.setdefault(released["package_hash"], set())
            signers.add(participant)
            need(len(signers) < int(decision["threshold"]), f"{sorted(signers)}: shares of a signature that is not shown")
    return f"{len(logs)} nodes, {shares} shares, all shown"


def check_signature(document, events, decision):
    signature = next((event["change"]["signature"] for event in events if event["change"].get("signature")), None)
    if signature is None:
        return "none made"
    need(signature["signed_digest"] == decision["request_digest"], "another digest was signed")
    key, message = bytes.fromhex(signature["public_key_hex"]), bytes.fromhex(signature["signed_digest"])
    raw, profile = bytes.fromhex(signature["signature_hex"]), signature["signature_profile"]
    if profile == "frost-ed25519-sha512":
        holds = ed25519(key.hex(), raw, message)
    else:
        need(profile == "frost-secp256k1-sha256-tr", "an unknown signature profile")
        holds = PublicKeyXOnly(key).verify(raw, message)
    need(holds, "the signature does not verify")
    key, derived = document["key"], decision.get("derivation", {})
    own = key["payments_public_key_hex"] if derived.get("payments") else key["public_key_artifact_ref"].split(":")[1]
    stated = derived.get("public_key_hex") or own
    if derived and not derived.keys() & {"taproot", "path"}:
        need(own == stated, "the derived key is not the key for payments")
    if "taproot" in derived and "path" not in derived:
        tag, root = hashlib.sha256(b"TapTweak").digest(), bytes.fromhex(derived["taproot"].get("merkle_root", ""))
        output = PublicKeyXOnly(bytes.fromhex(own))
        output.tweak_add(hashlib.sha256(tag + tag + bytes.fromhex(own) + root).digest())
        need(output.format().hex() == stated, "the derived key is not the output key of the key")
    need(signature["public_key_hex"] == stated, "the signature is by another key")
    return profile


def check_log(roots, document):
    header, rest = document["log"]["proof"].split("\n", 1)
    need(header == "c2sp.org/tlog-proof@v1", "not a tlog-proof")
    index, _, rest = rest.partition("\n")
    lines, _, checkpoint = rest.partition("\n\n") if not rest.startswith("\n") else ("", "", rest[1:])
    path = [base64.b64decode(line, validate=True) for line in lines.splitlines()]
    _, size, root, *_ = note_is_signed(checkpoint, roots["logs"]).split("\n")
    index, size, root = int(index.removeprefix("index ")), int(size), base64.b64decode(root)
    need(index == document["log"]["index"], "another index")
    leaf = hashlib.sha256(b"\0" + bytes.fromhex(document["record_root"])).digest()
    need(inclusion_root(leaf, index, size, path) == root, "the last event is not in the log")
    proof = [bytes.fromhex(part) for part in document["log"]["consistency"]]
    check_consistency(index + 1, size, bytes.fromhex(document["ledger_root"]), root, proof)
    return size, f"event {index} of {size}"


def check_key(roots, document, log_size):
    statement = {
        "operation_id": document["operation_id"],
        "record_root": document["record_root"],
        "log_size": log_size,
        "stated_at_ms": document["key_stated_at_ms"],
        "key": document["key"],
    }
    subject, stated, *_ = note_is_signed(document["key_note"], roots["logs"]).split("\n")
    need(subject.endswith("/key-state") and stated == canonical(statement), "another statement about the key")
    public = (document["key"] or {}).get("public_key_artifact_ref")
    need(document["intent"].get("public_key_artifact_ref", public) == public, "another key than the intent names")
    payments = payments_key(document["key_id"], public) if public else ""
    need((document["key"] or {}).get("payments_public_key_hex", "") == payments, "another key for payments")
    return (document["key"] or {}).get("state", "no key")


def verify(roots, document, logs=()):
    need(document["format"] == "svc/evidence/v4" and not document["truncated"], "not complete evidence of format v3")
    events, shown = check_chain(document)
    print(f"chain      ok  {shown}")
    submission = check_operation(document, events)
    print(f"operation  ok  {submission['operation_id']} {submission['intent']['kind']} {document['state']}")
    approvals, signed, shown = check_policy(submission, events)
    print(f"policy     ok  {shown}")
    if signed:
        admission_hash, decision = check_admission(roots, submission, approvals, signed)
        print(f"admission  ok  signed over {len(approvals)} approvals")
        receipts = check_receipts(roots, events, admission_hash, decision)
        print(f"receipts   ok  {len(receipts)} signed by their nodes")
        if logs:
            print(f"node logs  ok  {check_node_logs(logs, events, decision, receipts)}")
        print(f"signature  ok  {check_signature(document, events, decision)}")
    log_size, shown = check_log(roots, document)
    print(f"log        ok  {shown}")
    print(f"key        ok  {check_key(roots, document, log_size)}")


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    try:
        with open(sys.argv[1], encoding="utf-8") as file:
            roots = json.load(file)
        logs = []
        for name in sys.argv[3:]:
            with open(name, encoding="utf-8") as file:
                logs.append(read_node_log(roots, file))
        with sys.stdin if sys.argv[2] == "-" else open(sys.argv[2], encoding="utf-8") as file:
            verify(roots, json.load(file, object_pairs_hook=unique), logs)
    except (Refused, KeyError, IndexError, TypeError, ValueError) as refused:
        print(f"FAIL: {refused!r}" if not isinstance(refused, Refused) else f"FAIL: {refused}")
        sys.exit(1)


if __name__ == "__main__":
    main()
