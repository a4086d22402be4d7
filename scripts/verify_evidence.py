#!/usr/bin/env python3
"""Verifies an operation's evidence from host/docs/evidence.md alone, section "Writing a verifier". Shares no code with the gateway.

Usage: verify_evidence.py ROOTS EVIDENCE [LOG ...]

ROOTS     the output of `operation-gateway evidence roots`, from the operator
EVIDENCE  the answer of GET .../evidence, complete (`truncated` is false), - for standard input
LOG       a node's log: the output of `operation-gateway nodes log`, from the node's operator

Needs the packages cryptography and coincurve. Prints each check. Exits with 0 if every check that applies was made and holds, with 1 at the
first one that does not hold, with 2 if nothing could be checked, and with 3 if none fails but one could not be made. It does not run the policy again.
"""
import base64
import hashlib
import itertools
import json
import re
import sys
import time
import unicodedata

try:
    from coincurve import PublicKeyXOnly
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
except ImportError as missing:
    print(f"{missing}: python3 -m pip install coincurve cryptography", file=sys.stderr)
    sys.exit(2)

ZERO = "0" * 64


CLOCK_AHEAD_MS_MAX = 5 * 60 * 1000


class Refused(Exception):
    pass


class Report:
    """Lines about the checks, and the names of those that could not be made."""

    def __init__(self):
        self.lines, self.unchecked = [], []

    def holds(self, name, seen):
        self.lines.append(f"{name:<10} ok  {seen}")

    def not_checked(self, name, why):
        self.lines.append(f"{name:<10} --  not checked: {why}")
        self.unchecked.append(name)


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

# The members of each object, as `name:kind`; `name?` may be missing. A kind is text, int, flag, hex (64 characters), any, or another object;
# `[kind]` is a list of it, and `kind|null` may be null. The members of a change have the name of its type.
FORMS = {
    "document": """format:text events:[entry] previous_hash:hex record_root:hex ledger_root:hex log:log truncated:flag total_events:int
        next_after_seq:int|null statement:text stated_at_ms:int operation_id:hex family:text tenant:text submitter:any state:text intent:any
        intent_hash:hex key_id:hex key_ref:text key:any approvals:any policy:any decision:any receipts:any effects:any result:any
        result_ref:any publication_receipt:any external_export:any""",
    "entry": "seq:int event_hash:hex event:any disclosures:[disclosure]",
    "disclosure": "path:text salt:hex value:any",
    "log": "index:int proof:text consistency:[hex]",
    "event": "at_ms:int change:change asked_by?:asked settles?:settles",
    "asked": "client?:client unknown_fields?:[text]",
    "settles": "id:effect result_root:hex",
    "effect": "operation:hex step:text attempt:int",
    "client": "client_id:text subject_id:text roles:[text] registered?:registered scopes:[text] tenant?:text cert_sha256?:credential token_jti?:credential",
    "registered": "person?:text attributes?:any",
    "credential": "salt:hex sha256:hex",
    "slot": "key_ref:text key_id:hex",
    "outcome": """decision:text bundle_id:text bundle_hash:hex reasons:[said] obligations:[said] facts:[fact] proven_by?:[paid] documents?:[envelope] quorum:quorum input_hash:hex
        output_hash:hex fuel_used:int fault?:fault""",
    "said": "code:text operands?:[operand]",
    "operand": "name:text value:text",
    "fault": "kind:text detail?:text",
    "fact": "name:text value:text|null",
    "paid": "intent:any decision:envelope signature:text",
    "quorum": "subjects:[text] required:int satisfied:flag groups?:[group]",
    "group": "name:text needed:int have:[text]",
    "approval": "subject_id:text roles:[text] registered?:registered claimed_at_ms:int approved_at_ms:int signature?:any",
    "rejection": "subject_id:text roles:[text] registered?:registered reason:text lost?:[int] claimed_at_ms:int rejected_at_ms:int signature?:any",
    "admission": "decision:any envelope:envelope admission_hash:hex",
    "envelope": "payloadType:text payload:text signatures:[signature]",
    "signature": "keyid:text sig:text",
    "receipt": "participant:int transition_hash:hex log_index:int node_signature:text",
    "attempt_receipt": "participant:int transition_hash:hex log_index:int node_signature:text package_hash?:hex",
    "staged": "epoch:epoch public:public participants:[int] threshold:int",
    "epoch": "name:text root:hex",
    "public": "public_key_hex:hex package_hex:text",
    "signed": "signature_profile:text public_key_hex:hex signed_digest:hex signature_hex:text signers:[int] package_hash:hex",
    "failure": "code:text detail:text culprits?:[int]",
    "submitted": """operation_id:hex tenant:text submitter:client intent:any intent_hash:hex key:slot successor?:slot body_digest:hex
        unknown_fields?:[text] policy:outcome""",
    "approval_requested": "required:int",
    "approval_recorded": "approval:approval policy:outcome",
    "late_approval_recorded": "approval:approval",
    "rejection_recorded": "rejection:rejection policy?:outcome",
    "approvals_lapsed": "lapsed:[lapsed] policy:outcome",
    "lapsed": "subject_id:text reason:text",
    "approvals_waived": "policy:outcome",
    "quorum_reached": "",
    "admission_postponed": "until_ms:int policy?:outcome",
    "admission_resumed": "",
    "decision_signed": "policy:outcome admission:admission",
    "admission_applied": "receipts:[receipt]",
    "execution_requested": "requested_at_ms:int|null",
    "receipt_materialized": "receipts:[receipt] policy_receipt_id:hex",
    "ceremony_started": "attempt:int",
    "attempt_lost": "attempt:int reason:text receipts?:[attempt_receipt]",
    "epoch_decided": "staged:staged receipts:[receipt]",
    "epoch_acked": "receipts:[receipt]",
    "executed": "result_ref:hex signature:signed|null receipts:[receipt]",
    "publication_requested": "scope:text requested_at_ms:int|null",
    "published": "receipts:[receipt] publication_receipt:hex",
    "aborted": "failure:failure",
    "discard_acked": "receipts:[receipt]",
    "nodes_given_up": "lost:[int] reason:text",
    "failed": "failure:failure policy?:outcome receipts?:[receipt]",
    "replay_noted": "body_digest:hex",
    "recovery_recorded": "effect_id:text outcome:text result_root:hex recovered_at_ms:int participants:[int]",
    "externally_exported": "rail:text export_ref:hex state:text external_id:text exported_at_ms:int",
    "roots": """format:text authorities:[hex] authority_threshold?:int nodes:any logs:[text] keys?:any bundles?:[hex] facts?:any approvers?:any
        signed_approvals?:text""",
}
FORMS = {name: dict(member.split(":", 1) for member in members.split()) for name, members in FORMS.items()}
KINDS = {
    "any": lambda value: True,
    "text": lambda value: isinstance(value, str),
    "flag": lambda value: isinstance(value, bool),
    "int": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "hex": lambda value: isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value),
}


def check_form(value, kind, at=""):
    """The value has this kind, with all members that it must have and no other."""
    if kind.endswith("|null"):
        if value is None:
            return
        kind = kind.removesuffix("|null")
    if kind in KINDS:
        need(KINDS[kind](value), f"{at or 'the document'} is not of the kind {kind}")
    elif kind.startswith("["):
        need(isinstance(value, list), f"{at} is not a list")
        for index, item in enumerate(value):
            check_form(item, kind[1:-1], f"{at}/{index}")
    else:
        need(isinstance(value, dict), f"{at or 'the document'} is not an object")
        if kind == "change":
            kind, value = value.get("type"), without(value, "type")
            need(kind in FORMS, f"{at}/type: an unknown event `{kind}`")
        for name, member in FORMS[kind].items():
            if name.rstrip("?") in value:
                check_form(value[name.rstrip("?")], member, f"{at}/{name.rstrip('?')}")
            else:
                need(name.endswith("?"), f"{at}/{name} is missing")
        more = value.keys() - {name.rstrip("?") for name in FORMS[kind]}
        need(not more, f"{at} has the unknown members {sorted(more)}")


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
    signature = event["change"].get("signature")
    if signature and isinstance(signature.get("signature_hex"), dict):
        # Disclosed after the publication.
        signature["signature_hex"] = ""
    need('"commitment"' not in json.dumps(event), f"event {entry['seq']}: not every field is disclosed")
    check_form(event, "event", f"/events/{entry['seq'] - 1}/event")
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
MOMENTS = {
    "submitted": "submit", "approval_recorded": "approval", "rejection_recorded": "approval", "approvals_lapsed": "approval",
    "approvals_waived": "approval",
}  # fmt: skip


def summary(submission, events):
    """The members of a document that follow from its events alone."""
    custody = submission["intent"]["kind"] != "payment"
    found = {
        **{name: submission[name] for name in ["operation_id", "tenant", "submitter", "intent", "intent_hash"]},
        **{"key_id": submission["key"]["key_id"], "key_ref": submission["key"]["key_ref"]},
        **{"family": "custody" if custody else "product", "approvals": [], "policy": [], "receipts": [], "effects": []},
        **{"decision": None, "result": {}, "result_ref": None, "publication_receipt": None, "external_export": None},
        "key": key_after(submission, events),
    }
    signature = None
    for number, event in enumerate(events, 1):
        change = event["change"]
        kind = change["type"]
        found["state"] = STATES.get(kind, found.get("state"))
        if kind == "approval_recorded":
            found["approvals"].append(change["approval"])
        if kind == "approvals_lapsed":
            found["approvals"] = still_counting(found["approvals"], change)
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


def read_package(package_hex):
    """Profile, threshold, participants and public key of the bytes that the root of an epoch covers."""
    raw = bytes.fromhex(package_hex)
    need(raw.hex() == package_hex and len(raw) > 6 and raw[0] == 1 and raw[1] in (1, 2), "not the public half of new shares")
    profile, parity = [("frost-ed25519-sha512", 0), ("frost-secp256k1-sha256-tr", 1)][raw[1] - 1]
    threshold, count = int.from_bytes(raw[2:4], "big"), int.from_bytes(raw[4:6], "big")
    point = 32 + parity
    need(len(raw) == 6 + point + count * (2 + point) + 32, "not the public half of new shares")
    shares = range(6 + point, 6 + point + count * (2 + point), 2 + point)
    participants = [int.from_bytes(raw[at : at + 2], "big") for at in shares]
    need(participants == sorted(set(participants)), "not the public half of new shares")
    return profile, threshold, participants, raw[6 + parity : 6 + point].hex()


def artifact_ref(staged):
    profile, _, _, public_key = read_package(staged["public"]["package_hex"])
    return f"{profile}:{public_key}"


def change_of(events, kind):
    return next((event["change"] for event in events if event["change"]["type"] == kind), None)


def key_after(submission, events):
    """The key as the events leave it, and the one that replaces it."""
    decided, signed, executed = change_of(events, "epoch_decided"), change_of(events, "decision_signed"), change_of(events, "executed")
    staged, successor = decided and decided["staged"], submission.get("successor")
    epoch = {"active_epoch": None, "active_epoch_root": None}
    if signed and signed["admission"]["decision"]["epoch_root"] != ZERO:
        decision = signed["admission"]["decision"]
        epoch = {"active_epoch": decision["epoch"], "active_epoch_root": decision["epoch_root"]}
    public_key, next_key = submission["intent"].get("public_key_artifact_ref"), None
    of = successor or submission["key"]
    made = staged and {
        "public_key_artifact_ref": artifact_ref(staged),
        "payments_public_key_hex": payments_key(of["key_id"], artifact_ref(staged)),
        "active_epoch": staged["epoch"]["name"],
        "active_epoch_root": staged["epoch"]["root"],
    }
    if successor and executed:
        unmade = dict.fromkeys(["public_key_artifact_ref", "payments_public_key_hex", "active_epoch", "active_epoch_root"])
        next_key = {**successor, **(made or unmade)}
    if made and not successor:
        epoch, public_key = made, made["public_key_artifact_ref"]
    payments = public_key and payments_key(submission["key"]["key_id"], public_key)
    key = {**submission["key"], "public_key_artifact_ref": public_key, "payments_public_key_hex": payments}
    return {**key, **epoch, "successor": next_key}


def check_operation(document, events):
    submission = events[0]["change"]
    need(submission["type"] == "submitted", "the first event is not a submission")
    need(submission["policy"]["decision"] == "ALLOW", "the policy denied the submission")
    need(submission["intent_hash"] == digest("svc/intent/v1", submission["intent"]), "another intent hash")
    slots = [submission["key"]]
    if submission["intent"]["kind"] == "rotate":
        slots.append(submission["successor"])
        need(submission["successor"]["key_ref"] == submission["intent"]["new_key_ref"], "another successor")
    else:
        need("successor" not in submission, "a successor without a rotation")
    for slot in slots:
        key = {"tenant_id": submission["tenant"], "key_ref": slot["key_ref"]}
        need(slot == {"key_ref": slot["key_ref"], "key_id": digest("svc/key-id/v1", key)}, "another key id")
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


def human(said):
    """The person who submitted, approved or rejected: another name than the subject id, if the gateway's registry had one."""
    return person(said.get("registered", {}).get("person", said["subject_id"]))


def still_counting(approvals, change):
    lapsed = [person(one["subject_id"]) for one in change["lapsed"]]
    return [approval for approval in approvals if person(approval["subject_id"]) not in lapsed]


def check_people(approvals, quorum):
    approved = [person(approval["subject_id"]) for approval in approvals]
    people = set(map(human, approvals))
    counted = [person(subject) for subject in quorum["subjects"]]
    need(len(people) == len(approved), "a person has approved twice")
    need(len(set(counted)) == len(counted) and set(counted) <= set(approved), "the quorum counts a person twice, or one who did not approve")
    need(not quorum["satisfied"] or len(counted) >= quorum["required"], "the quorum counts too few people")
    groups = quorum.get("groups", [])
    need(len({group["name"] for group in groups}) == len(groups), "the quorum has a group twice")
    for group in groups:
        members = set(map(person, group["have"]))
        need(len(members) == len(group["have"]) and members <= set(counted), "a group has a person twice, or one who does not count")
        need(not quorum["satisfied"] or len(members) >= group["needed"], "a group lacks a person")


PHASES = {
    "approval_requested": ({"submitted"}, "pending"),
    "approval_recorded": ({"pending"}, None),
    "approvals_lapsed": ({"pending", "deciding", "postponed"}, "pending"),
    "approvals_waived": ({"pending"}, None),
    "quorum_reached": ({"pending"}, "deciding"),
    "admission_postponed": ({"deciding"}, "postponed"),
    "admission_resumed": ({"postponed"}, "deciding"),
    "decision_signed": ({"deciding"}, "admitting"),
    "admission_applied": ({"admitting"}, "admitted"),
    "execution_requested": ({"admitted"}, "issuing"),
    "receipt_materialized": ({"issuing"}, "materialized"),
    "ceremony_started": ({"materialized"}, "executing"),
    "attempt_lost": ({"executing"}, None),
    "epoch_decided": ({"executing", "discarding"}, "committing"),
    "epoch_acked": ({"committing"}, None),
    "publication_requested": ({"executed"}, "publishing"),
    "published": ({"publishing"}, "published"),
    "externally_exported": ({"published"}, None),
}
OWED = {
    "deciding": "decision",
    "admitting": "admission",
    "issuing": "policy-receipt",
    "executing": "execute",
    "committing": "commit-epoch",
    "publishing": "publish",
    "discarding": "discard",
    "discarding_rest": "discard",
}
# The changes that an effect always, and sometimes, causes.
SETTLING = {
    "decision_signed", "admission_applied", "receipt_materialized", "attempt_lost", "epoch_decided", "epoch_acked", "published", "discard_acked",
}  # fmt: skip
MAY_SETTLE = SETTLING | {"executed", "aborted", "failed"}
EXPORTS = ["Submitted", "Accepted", "Settled"]


class History:
    """The operation while its events are replayed, in an order and with contents that a gateway can write."""

    def __init__(self, submission):
        self.submission, self.intent = submission, submission["intent"]
        self.signs = self.intent["kind"] in ("payment", "asset_action")
        self.phase, self.attempt, self.round = "submitted", 0, 1
        self.outcome, self.decision = submission["policy"], None
        self.approved, self.rejected, self.late, self.settled = [], [], [], []
        # The person of each subject that approved.
        self.humans = {}
        self.replays, self.recoveries, self.export = [submission["body_digest"]], [], None
        self.waits_for, self.given_up, self.discarded, self.receipt = set(), set(), set(), None
        self.failure, self.end, self.until = None, None, None
        # The times of the approvals that count, by person.
        self.given = {}

    def receivers(self):
        if self.signs or self.decision is None:
            return set()
        return set(self.decision["target"]["participants"]) - self.given_up

    def holders(self):
        kind = self.decision["operation_type"]
        if kind == "sign":
            return set(self.decision["participants"])
        return set() if kind in ("key_create", "rotate") else set(self.decision.get("holders", []))

    def enough(self, nodes):
        needed = 0 if self.decision["operation_type"] in ("key_create", "rotate") else self.decision["threshold"]
        return self.receivers() <= nodes and len(self.holders() & nodes) >= needed

    def too_few_left(self, discarded):
        """Whether no result can come to be once these nodes have discarded the operation."""
        if not self.signs:
            return bool(set(self.decision["target"]["participants"]) & discarded)
        return len(self.holders() - discarded) < self.decision["threshold"]

    def allowed(self, change):
        """Whether such a change may come now, and the phase after it."""
        kind, phase = change["type"], self.phase
        if kind in PHASES:
            phases, after = PHASES[kind]
            if kind in ("epoch_decided", "epoch_acked"):
                return phase in phases and not self.signs and self.attempt > 0, after
            return phase in phases and (kind != "approvals_waived" or self.intent["kind"] == "key_create"), after
        if kind == "executed":
            phases = {"executing", "discarding"} if change["signature"] else {"committing"}
            return phase in phases and self.attempt > 0 and self.signs == bool(change["signature"]), "executed"
        if kind == "aborted":
            return phase in ({"admitting", "admitted", "issuing", "executing"} if self.signs else {"executing"}), "discarding"
        if kind == "discard_acked":
            return not self.signs and phase in ("discarding", "discarding_rest"), "discarding_rest"
        if kind == "nodes_given_up":
            return not self.signs and phase in ("committing", "executed", "publishing", "discarding_rest"), None
        if kind == "rejection_recorded":
            if "lost" not in change["rejection"]:
                return phase in ("pending", "deciding", "postponed"), None
            going = {"admitting", "admitted", "issuing", "materialized", "executing", "committing", "executed", "publishing", "discarding_rest"}
            return not self.signs and phase in going, None
        if kind == "failed":
            undecided = {"pending", "deciding", "postponed", "discarding", "discarding_rest"}
            return phase in undecided | (set() if self.signs else {"admitting", "admitted", "issuing", "materialized"}), "failed"
        if kind == "late_approval_recorded":
            return phase not in ("submitted", "pending"), None
        need(kind in ("replay_noted", "recovery_recorded"), f"an unknown event `{kind}`")
        return phase != "submitted", None

    def check_effect(self, event):
        change, settles = event["change"], event.get("settles")
        kind = change["type"]
        causes = kind in SETTLING or (kind == "executed" and change["signature"]) or (kind == "failed" and change.get("receipts"))
        need(settles or not causes, f"{kind}: no effect caused it")
        if settles is None:
            return
        may = kind in MAY_SETTLE and not (kind == "executed" and not change["signature"])
        number = {"executing": self.attempt, "committing": self.round, "discarding_rest": self.round}.get(self.phase, 1)
        owed = {"operation": self.submission["operation_id"], "step": OWED.get(self.phase), "attempt": number}
        need(may and settles["id"] == owed, f"{kind}: the operation owed another effect")
        receipts = change.get("receipts", [])
        root = settles["result_root"]
        expected = root
        if kind == "decision_signed":
            expected = change["admission"]["admission_hash"]
        elif kind in ("admission_applied", "receipt_materialized", "epoch_acked", "discard_acked", "published") or receipts and kind == "failed":
            expected = digest("svc/receipts/v1", receipts)
        elif kind == "attempt_lost":
            expected = digest("svc/attempt-lost/v1", [change["reason"], receipts])
        elif kind == "epoch_decided":
            expected = digest("svc/result/v1", change["staged"])
        elif kind == "executed":
            expected = change["result_ref"]
        elif kind in ("aborted", "failed"):
            expected = digest("svc/rejected/v1", change["failure"])
        need(root == expected, f"{kind}: the effect had another outcome")
        stated = change.get("policy_receipt_id", change.get("publication_receipt", root))
        need(stated == root, f"{kind}: the id is not the outcome of the effect")
        self.settled.append(settles)

    def check_content(self, event):
        """What follows from the operation; signatures are checked elsewhere."""
        change = event["change"]
        kind, quorum, at = change["type"], self.outcome["quorum"], event["at_ms"]
        postponed = self.phase == "deciding" and not_before(self.outcome) > at
        need(not postponed or kind == "admission_postponed", "the policy postpones the admission")
        if kind == "approval_requested":
            need(change["required"] == quorum["required"], "another number of approvals is required")
        elif kind in ("approval_recorded", "late_approval_recorded"):
            subject = person(change["approval"]["subject_id"])
            late = self.late if kind == "late_approval_recorded" else []
            before = [self.humans[one] for one in self.approved + late] + [one for one, _ in self.rejected]
            need(human(change["approval"]) not in before, f"`{subject}` approved twice, or rejected before")
            self.humans[subject] = human(change["approval"])
            (self.approved if kind == "approval_recorded" else self.late).append(subject)
            if kind == "approval_recorded":
                self.outcome = change["policy"]
                self.given[subject] = given_at(change["approval"])
                counts = self.outcome["decision"] == "ALLOW" and subject in self.counted()
                need(counts, f"the approval of `{subject}` does not count")
        elif kind == "rejection_recorded":
            subject, outcome = person(change["rejection"]["subject_id"]), change.get("policy")
            rejecter = human(change["rejection"])
            like = (rejecter, canonical(change["rejection"].get("lost")))
            need(like not in self.rejected, f"`{subject}` rejected twice")
            counts = outcome and subject in map(person, outcome["quorum"]["subjects"])
            known = rejecter in [self.humans[one] for one in self.approved] + [one for one, _ in self.rejected]
            need(known or counts, f"`{subject}` may not reject")
            self.rejected.append(like)
            of_kind = sum(lost == like[1] for _, lost in self.rejected)
            if of_kind >= rejections_required(outcome or self.outcome):
                self.end = self.end_by(change["rejection"])
        elif kind == "approvals_lapsed":
            lapsed = [person(one["subject_id"]) for one in change["lapsed"]]
            need(lapsed and set(lapsed) <= set(self.approved) and len(set(lapsed)) == len(lapsed), "an approval lapsed that did not count")
            self.approved = [subject for subject in self.approved if subject not in lapsed]
            self.outcome = change["policy"]
        elif kind == "approvals_waived":
            self.outcome, quorum = change["policy"], change["policy"]["quorum"]
            waived = self.outcome["decision"] == "ALLOW" and quorum["satisfied"] and quorum["required"] == 0
            need(waived, "the policy requires approvals")
        elif kind == "quorum_reached":
            need(quorum["satisfied"], "the quorum is not reached")
        elif kind == "admission_postponed":
            outcome = change.get("policy", self.outcome)
            allowed = outcome["decision"] == "ALLOW" and outcome["quorum"]["satisfied"]
            need(allowed and at < change["until_ms"] == not_before(outcome), "the policy does not postpone the admission so")
            self.outcome, self.until = outcome, change["until_ms"]
        elif kind == "admission_resumed":
            need(at >= self.until, "the admission was postponed for longer")
        elif kind == "decision_signed":
            self.outcome, self.decision = change["policy"], change["admission"]["decision"]
            need(not_before(self.outcome) <= at, "the policy does not allow the admission before a later time")
            oldest = min((self.given[subject] for subject in self.approved), default=at)
            need(at - CLOCK_AHEAD_MS_MAX <= oldest + expire_ms(self.outcome, at), "an approval is older than the policy lets it count")
            quorum = self.outcome["quorum"]
            counted = self.counted() & set(self.approved)
            allowed = self.outcome["decision"] == "ALLOW" and quorum["satisfied"] and counted == self.counted()
            need(allowed and len(counted) >= quorum["required"], "the policy did not allow the operation")
        elif kind == "ceremony_started":
            need(change["attempt"] == 1, "another attempt")
            self.attempt = 1
        elif kind == "attempt_lost":
            need(change["attempt"] == self.attempt, "another attempt")
            self.attempt += 1
        elif kind == "publication_requested":
            automatic = self.intent.get("publication_mode", "automatic") == "automatic"
            scope = "signature" if self.signs else "epoch"
            if change["requested_at_ms"] is None:
                need(automatic and change["scope"] == scope, "no request caused the publication")
            else:
                need(change["scope"] == "signature" if self.signs else change["scope"], "another scope")
        elif kind == "published":
            self.receipt = change["publication_receipt"]
        elif kind == "nodes_given_up":
            lost = set(change["lost"])
            waits_for = self.waits_for if self.phase in ("committing", "discarding_rest") else self.receivers()
            left = len(self.receivers() - lost)
            need(lost and lost <= waits_for and left >= self.decision["target"]["threshold"], "too few nodes are left")
            self.given_up |= lost
        elif kind == "replay_noted":
            need(change["body_digest"] not in self.replays and len(self.replays) <= 64, "a replay that is not another")
            self.replays.append(change["body_digest"])
        elif kind == "recovery_recorded":
            self.check_recovery(change)
        elif kind == "externally_exported":
            known, self.export = self.export, without(change, "type")
            same = known is None or all(known[name] == change[name] for name in ("rail", "external_id"))
            forward = known is None or EXPORTS.index(known["state"]) < EXPORTS.index(change["state"])
            need(same and forward, "an export that goes back")

    def end_by(self, rejection):
        """The change after the last rejection or abort needed."""
        if rejection.get("lost"):
            return {"type": "nodes_given_up", "lost": rejection["lost"], "reason": rejection["reason"]}
        code = "aborted" if "lost" in rejection else "rejected"
        failure = {"code": code, "detail": f"{code} by `{rejection['subject_id']}`: {rejection['reason']}"}
        return {"type": "aborted" if self.phase == "executing" else "failed", "failure": failure}

    def check_end(self, change):
        """An operation ends by people as the last rejection or abort needed says, and only then."""
        if self.end is not None:
            need(change == self.end, "an operation ends as the last rejection or abort needed says")
        else:
            code = change.get("failure", {}).get("code")
            by_people = code == "rejected" or (code == "aborted" and self.failure is None) or change["type"] == "nodes_given_up"
            need(not by_people, "rejected or aborted without the last rejection or abort needed")
        self.end, self.failure = None, change.get("failure", self.failure)
        if change["type"] in ("epoch_decided", "executed"):
            self.failure = None

    def counted(self):
        return set(map(person, self.outcome["quorum"]["subjects"]))

    def check_recovery(self, recovery):
        found = [one for one in self.settled if self.effect_id(one["id"]) == recovery["effect_id"]]
        nodes = sorted(self.holders() | self.receivers() | set(self.decision["participants"])) if self.decision else []
        outcome = "complete" if found else "unknown_effect"
        right = recovery["outcome"] == outcome and recovery["participants"] == nodes
        need(right and all(one["result_root"] == recovery["result_root"] for one in found), "another recovery")
        own = recovery["effect_id"].startswith(self.submission["operation_id"] + ".")
        need((found or not own) and (recovery["effect_id"], outcome) not in self.recoveries, "a recovery that is not recorded")
        self.recoveries.append((recovery["effect_id"], outcome))

    @staticmethod
    def effect_id(effect):
        return f"{effect['operation']}.{effect['step']}.{effect['attempt']}"

    def check_nodes(self, change):
        """As many nodes as the change needs signed receipts for it."""
        kind, receipts = change["type"], change.get("receipts", [])
        nodes = {receipt["participant"] for receipt in receipts}
        need(kind == "attempt_lost" or [receipt["participant"] for receipt in receipts] == sorted(nodes), f"{kind}: receipts not in the order of nodes, one of each")
        if kind in ("admission_applied", "receipt_materialized"):
            need(self.enough(nodes), f"{kind}: too few receipts")
        elif kind == "executed" and change["signature"]:
            need(sorted(nodes) == change["signature"]["signers"], "executed: not one receipt of each signer")
        elif kind == "executed":
            need(not self.waits_for and not receipts, "executed: not all nodes have activated the new shares")
        elif kind == "epoch_decided":
            need(self.receivers() <= nodes, "epoch_decided: too few receipts")
        elif kind == "published":
            signed = not nodes.isdisjoint(self.holders()) if self.signs else self.receivers() <= nodes
            need(signed, "published: too few receipts")
        elif kind == "discard_acked":
            need(nodes and nodes <= self.receivers(), "discard_acked: too few receipts")
        elif kind == "failed" and self.phase == "discarding":
            need(self.receivers() <= nodes and self.too_few_left(nodes), "failed: too few receipts")
        elif kind == "failed" and self.phase == "discarding_rest":
            need(self.waits_for <= nodes, "failed: not all receivers have discarded it")

    def apply(self, event):
        change = event["change"]
        may_follow, after = self.allowed(change)
        need(may_follow, f"`{change['type']}` cannot happen to an operation that is {self.phase}")
        self.check_end(change)
        self.check_effect(event)
        self.check_nodes(change)
        self.check_content(event)
        nodes = {receipt["participant"] for receipt in change.get("receipts", [])} | set(change.get("lost", []))
        if after == "committing" or (after == "discarding_rest" and self.phase == "discarding"):
            self.waits_for, self.round = self.receivers(), 1
        if change["type"] in ("epoch_acked", "discard_acked", "nodes_given_up") and (after or self.phase) in ("committing", "discarding_rest"):
            self.waits_for, self.round = self.waits_for - nodes, self.round + 1
        if change["type"] in ("discard_acked", "failed"):
            self.discarded |= nodes
        self.phase = after or self.phase


def rejections_required(outcome):
    """How many rejections end the operation: the highest number that the policy says, or 1."""
    said = [one.get("operands", []) for one in outcome["obligations"] if one["code"] == "rejections_required"]
    numbers = [next((operand["value"] for operand in operands if operand["name"] == "rejections"), "") for operands in said]
    return max((int(number) if re.fullmatch("[0-9]+", number) else 1 for number in numbers), default=1)


def operands(outcome, code, name):
    """The numbers in this operand of the policy's obligations with this code; none if one of them is malformed."""
    said = [one.get("operands", []) for one in outcome["obligations"] if one["code"] == code]
    values = [next((operand["value"] for operand in of_one if operand["name"] == name), "") for of_one in said]
    return [int(value) for value in values] if all(re.fullmatch("[0-9]+", value) for value in values) else []


def not_before(outcome):
    """The time before which the policy does not allow the admission."""
    return max(operands(outcome, "admit_not_before", "at_ms"), default=0)


def expire_ms(outcome, default):
    """How long the policy lets an approval count."""
    return min(operands(outcome, "approvals_expire_ms", "ms"), default=default)


def given_at(approval):
    """The time from which the age of an approval counts."""
    claimed = max(0, approval["claimed_at_ms"]) if approval.get("signature") else approval["approved_at_ms"]
    return min(claimed, approval["approved_at_ms"])


def check_order(submission, events):
    history = History(submission)
    for event in events[1:]:
        history.apply(event)
    need(history.end is None, "the events end before the operation does")
    return history


def check_policy(submission, events):
    approvals, evaluated = [], 0
    admitted_over, admission = [], None
    for event in events:
        change = event["change"]
        if change["type"] == "approval_recorded":
            approvals.append(change["approval"])
        if change["type"] == "approvals_lapsed":
            approvals = still_counting(approvals, change)
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
        need(outcome["output_hash"] == digest("svc/policy-output/v2", output), "another policy output")
        check_people(considered, outcome["quorum"])
        if change["type"] == "decision_signed":
            admitted_over, admission = list(approvals), change
        evaluated += 1
    return admitted_over, admission, f"{evaluated} evaluations"


def check_facts(roots, events, report):
    """Each fact that the policy read has a value that the roots allow."""
    known, unknown = 0, set()
    for event in events:
        for fact in (event["change"].get("policy") or {}).get("facts", []):
            allowed = roots.get("facts", {}).get(fact["name"])
            if allowed is None:
                if fact["name"] not in PAID and not fact["name"].startswith("document."):
                    unknown.add(fact["name"])
            else:
                need(fact.get("value") in allowed, f"`{fact['name']}` is not a value that the roots allow")
                known += 1
    if unknown:
        report.not_checked("facts", f"the roots do not list {', '.join(sorted(unknown))}")
    else:
        report.holds("facts", f"{known} have a value that the roots allow")
    bundles = roots.get("bundles", [])
    for event in events:
        outcome = event["change"].get("policy")
        need(not outcome or not bundles or outcome["bundle_hash"] in bundles, "the roots do not list the bundle")


PAID = ["recipient.first_paid_ms", "recipient.paid_count"]
PAID_MAX = 4


def paid_at(roots, submission, own, proof, now_ms):
    """The id of an earlier payment of the key to the recipient, and the time from which the decision on it was valid."""
    payload = signed_payload(roots, proof["decision"])
    decision, intent = json.loads(payload, object_pairs_hook=unique), proof["intent"]
    need(payload == canonical(decision).encode(), "the decision on an earlier payment is not canonical")
    need(decision["operation_id"] != submission["operation_id"], "the payment is stated as an earlier one")
    need(decision["key_id"] == submission["key"]["key_id"], "an earlier payment is of another key")
    recipients = {paid["to_account"] for paid in [intent, submission["intent"]] if paid["kind"] == "payment"}
    need(len(recipients) == 1 and submission["intent"]["kind"] == intent["kind"], "an earlier operation did not pay this recipient")
    request = {"intent": intent, "key_id": decision["key_id"], "operation_id": decision["operation_id"]}
    need(decision["request_digest"] == digest("svc/signing-request/v2", request), "the decision on an earlier payment is on another intent")
    need(int(decision["not_before_ms"]) <= now_ms + CLOCK_AHEAD_MS_MAX, "an earlier payment is in the future")
    derived = {"payments": True, **({"path": True} if "bip32" in intent else {}), **{name: intent[name] for name in ["taproot"] if name in intent}}
    profile, key = signing_key(decision["key_id"], own, derived)
    holds = is_signed(profile, key or decision["derivation"]["public_key_hex"], decision["request_digest"], proof["signature"])
    need(holds, "an earlier payment is not signed by the key")
    return decision["operation_id"], int(decision["not_before_ms"])


def check_paid(roots, submission, events, report):
    """The facts about earlier payments follow from the decisions on them, and from their signatures."""
    own = submission["intent"].get("public_key_artifact_ref") or roots.get("keys", {}).get(submission["key"]["key_id"])
    proved = 0
    for event in events:
        outcome = event["change"].get("policy") or {}
        read = [fact for fact in outcome.get("facts", []) if fact["name"].startswith("recipient.") and fact["value"] is not None]
        proofs = outcome.get("proven_by", [])
        if not read and not proofs:
            continue
        if not own:
            report.not_checked("earlier payments", "neither the intent nor the roots name the public key")
            return
        paid = dict(paid_at(roots, submission, own, proof, event["at_ms"]) for proof in proofs)
        need(len(paid) == len(proofs) <= PAID_MAX, "an earlier payment is stated twice, or there are too many")
        facts = dict(zip(PAID, [str(min(paid.values())), str(len(paid))])) if paid else {}
        for fact in read:
            need(facts.get(fact["name"]) == fact["value"], f"`{fact['name']}` is not what the earlier payments prove")
            proved += 1
    if proved:
        report.holds("earlier payments", f"{proved} facts follow from decisions and signatures on them")


DOCUMENTS_MAX = 8


def check_documents(roots, events, report):
    """The documents that a policy read have the hashes that it recorded, had not expired, and are signed."""
    roles = {role["role"]: role for role in roots.get("documents", [])}
    n_read = 0
    for event in events:
        outcome = event["change"].get("policy") or {}
        facts = {fact["name"]: fact["value"] for fact in outcome.get("facts", [])}
        read = {name: value for name, value in facts.items() if name.startswith("document.") and value is not None}
        envelopes = outcome.get("documents", [])
        need(len(envelopes) == len(read) and len(read) <= DOCUMENTS_MAX, "the documents are not those that the policy read")
        for envelope in envelopes:
            need(envelope["payloadType"] == "application/vnd.svc.document.v1+json", "a document of another type")
            payload = base64.b64decode(envelope["payload"], validate=True)
            document = json.loads(payload, object_pairs_hook=unique)
            name = document["name"]
            need(read.pop(f"document.{name}", None) == hashlib.sha256(payload).hexdigest(), f"another document `{name}` than the policy read")
            need(int(facts["time.now_ms"]) <= document["not_after_ms"], f"the document `{name}` had expired")
            n_read += 1
            if roles:
                role = roles.get(name, {"keys": [], "threshold": 1})
                n_signers = len(signers_of(envelope, payload, role["keys"]))
                need(n_signers >= max(1, role["threshold"]), f"the document `{name}` is not signed by its role")
    if n_read:
        report.holds("policy documents", f"{n_read} have the hashes that the policy read, and had not expired")
        if not roles:
            report.not_checked("policy documents", "their signatures: the roots name no keys in `documents`")


def unpadded(text):
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    need(base64.urlsafe_b64encode(raw).rstrip(b"=").decode() == text, "not base64url without padding")
    return raw


def webauthn(entry, signature, challenge):
    """WebAuthn level 3, section 7.2, as far as it applies without a session."""
    client_data, authenticator = unpadded(signature["client_data_json"]), unpadded(signature["authenticator_data"])
    client = json.loads(client_data, object_pairs_hook=unique)
    need(client["type"] == "webauthn.get" and unpadded(client["challenge"]) == challenge, "another challenge")
    need(client["origin"] in entry["origins"] and not client.get("crossOrigin") and "topOrigin" not in client, "another origin")
    need(authenticator[:32] == hashlib.sha256(entry["rp_id"].encode()).digest(), "another relying party")
    flags = authenticator[32]
    need(flags & 0x05 == 0x05 and not flags & 0x40 and (flags & 0x08 or not flags & 0x10), "the user was not verified")
    need((len(authenticator) > 37) == bool(flags & 0x80) and len(authenticator) >= 37, "not authenticator data")
    signed, raw = authenticator + hashlib.sha256(client_data).digest(), unpadded(signature["signature"])
    if entry["algorithm"] == "EdDSA":
        return ed25519(entry["public_key"], raw, signed)
    try:
        key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), bytes.fromhex(entry["public_key"]))
        key.verify(raw, signed, ec.ECDSA(hashes.SHA256()))
        return True
    except InvalidSignature:
        return False


def check_signature_of(registry, submission, word, said, at_ms):
    """An approver signed its approval or rejection of this operation, with a key that was valid then."""
    subject, tenant, signature = said["subject_id"], submission["tenant"], said["signature"]
    statement = {
        "intent_hash": submission["intent_hash"],
        "key_id": submission["key"]["key_id"],
        "operation_id": submission["operation_id"],
        "roles": said["roles"],
        "subject_id": subject,
        "submitter": submission["submitter"]["subject_id"],
        "tenant": tenant,
    }
    if word == "approval":
        tag, statement = "svc/approval-statement/v2", {**statement, "approved_at_ms": said["claimed_at_ms"]}
    else:
        tag, rejects = "svc/rejection-statement/v1", {"rejected_at_ms": said["claimed_at_ms"]}
        if "lost" in said:
            tag = "svc/abort-statement/v1"
            rejects = {"aborted_at_ms": said["claimed_at_ms"], "lost_participants": said["lost"]}
        statement = {**statement, **rejects, "reason": said["reason"]}
    message = (tag + canonical(statement)).encode()
    listed = entry_of(registry, tenant, subject)
    need(listed, f"`{subject}` is not an approver")
    member = "public_key" if signature["kind"] == "ed25519" else "credential_id"
    keys = [key for key in listed.get("keys", []) if key["kind"] == signature["kind"] and key[member] == signature[member]]
    need(keys, f"`{subject}` has no such key")
    key = keys[0]
    valid = key.get("not_before_ms", 0) <= at_ms < min(key.get("not_after_ms", at_ms + 1), key.get("revoked_at_ms", at_ms + 1))
    need(valid and set(said["roles"]) <= set(listed.get("roles", [])), f"the key or role of `{subject}` is not valid")
    if signature["kind"] == "ed25519":
        holds = ed25519(key["public_key"], bytes.fromhex(signature["signature"]), message)
    else:
        holds = webauthn(key, signature, hashlib.sha256(message).digest())
    need(holds, f"`{subject}` did not sign this {word}")


def entry_of(registry, tenant, subject):
    """What the registry has of a subject for a tenant; empty if it is not listed."""
    is_listed = lambda one: person(one["subject_id"]) == person(subject) and (tenant in one["tenants"] or "*" in one["tenants"])
    return next(filter(is_listed, registry), {})


def check_registered(roots, tenant, who):
    """The roots say the same of a person as the gateway's registry did."""
    if "approvers" in roots:
        listed = entry_of(roots["approvers"]["approvers"], tenant, who["subject_id"])
        known = {name: listed[name] for name in ("person", "attributes") if listed.get(name)}
        need(who.get("registered", {}) == known, f"the roots say something else of `{who['subject_id']}`")


def check_approvals(roots, submission, events, report):
    """Each approval and rejection is signed by its approver, and dated as its event."""
    signed, unsigned = 0, []
    required = roots.get("signed_approvals") == "required"
    last_ms = events[0]["at_ms"]
    check_registered(roots, submission["tenant"], submission["submitter"])
    for event in events:
        change = event["change"]
        word = {"approval_recorded": "approval", "late_approval_recorded": "approval", "rejection_recorded": "rejection"}.get(change["type"])
        if word:
            said = change[word]
            check_registered(roots, submission["tenant"], said)
            received = said["approved_at_ms" if word == "approval" else "rejected_at_ms"]
            back = received < event["at_ms"] == last_ms
            need(received == event["at_ms"] or back, f"the {word} has another time than its event")
            if said.get("signature") and "approvers" in roots:
                claimed = said["claimed_at_ms"]
                in_time = events[0]["at_ms"] - CLOCK_AHEAD_MS_MAX <= claimed <= event["at_ms"] + CLOCK_AHEAD_MS_MAX
                need(in_time, f"the {word} of `{said['subject_id']}` is dated before the submission, or in the future")
                check_signature_of(roots["approvers"]["approvers"], submission, word, said, event["at_ms"])
                signed += 1
            else:
                need(not required, f"the {word} of `{said['subject_id']}` is not signed")
                unsigned.append(said["subject_id"])
        last_ms = event["at_ms"]
    need(signed or not required or not change_of(events, "decision_signed"), "no approver signed for the operation")
    if unsigned:
        report.not_checked("approvals", f"those of {', '.join(unsigned)} are not signed, or the roots list no approvers")
    else:
        report.holds("approvals", f"{signed} signed by their approvers")


def signers_of(envelope, payload, keys):
    """The ids of those of these keys that signed the envelope."""
    known = {sha256(b"svc/key/v1", bytes.fromhex(key))[:32]: key for key in keys}
    signed = dsse(envelope["payloadType"], payload)
    signatures = [one for one in envelope["signatures"] if one["keyid"] in known]
    valid = [ed25519(known[one["keyid"]], base64.b64decode(one["sig"]), signed) for one in signatures]
    need(all(valid), "the signature of a trusted key is wrong")
    return {one["keyid"] for one in signatures}


def signed_payload(roots, envelope):
    """The bytes of a decision that enough authorities signed."""
    kind = "application/vnd.svc.admission-decision.v2+json"
    need(envelope["payloadType"] == kind, "another payload")
    payload = base64.b64decode(envelope["payload"], validate=True)
    need(len(envelope["signatures"]) <= len(set(roots["authorities"])), "the decision has more signatures than there are authorities")
    signers = signers_of(envelope, payload, roots["authorities"])
    threshold = roots.get("authority_threshold", 1)
    need(1 <= threshold <= len(signers), "too few authorities signed the decision")
    return payload


def check_admission(roots, submission, approvals, signed, at_ms):
    admission, outcome = signed["admission"], signed["policy"]
    payload, decision = signed_payload(roots, admission["envelope"]), admission["decision"]
    need(payload == canonical(decision).encode(), "the decision is not the one that is signed")
    need(admission["admission_hash"] == sha256(b"svc/admission/v1", payload), "another admission hash")
    need(int(decision["not_before_ms"]) <= at_ms < int(decision["not_after_ms"]), "the decision was not in force")
    root = digest("svc/approvals/v1", {"intent_hash": submission["intent_hash"], "approvals": approvals})
    expected = {
        "operation_id": submission["operation_id"],
        "intent_hash": submission["intent_hash"],
        "key_id": submission["key"]["key_id"],
        "approvals_root": root,
        "bundle_hash": outcome["bundle_hash"],
        "policy_input_hash": outcome["input_hash"],
        "policy_output_hash": outcome["output_hash"],
        "operation_type": {"payment": "sign", "asset_action": "sign"}.get(submission["intent"]["kind"], submission["intent"]["kind"]),
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
    attempt, epoch_root, result_ref, signed_statements, positions = 1, None, None, {}, {}
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
            # Before the publication the signature is not disclosed.
            result_ref = digest("svc/result/v1", change["signature"]) if change["signature"]["signature_hex"] else change["result_ref"]
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
            need(positions.get(receipt["participant"], -1) < receipt["log_index"], f"{kind}: a receipt out of its node's order")
            positions[receipt["participant"]] = receipt["log_index"]
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


def taproot_output_key(internal, merkle_root):
    tag = hashlib.sha256(b"TapTweak").digest()
    output = PublicKeyXOnly(bytes.fromhex(internal))
    output.tweak_add(hashlib.sha256(tag + tag + bytes.fromhex(internal) + bytes.fromhex(merkle_root)).digest())
    return output.format().hex()


def is_signed(profile, key, message, signature):
    """The threshold signature over a digest verifies under the key; all but the profile are hexadecimal."""
    raw, message = bytes.fromhex(signature), bytes.fromhex(message)
    if profile == "frost-ed25519-sha512":
        return ed25519(key, raw, message)
    need(profile == "frost-secp256k1-sha256-tr", "an unknown signature profile")
    return PublicKeyXOnly(bytes.fromhex(key)).verify(raw, message)


def signing_key(key_id, own, derived):
    """The profile and public key with which a key signs; without the latter for a child, which follows from the chain code."""
    profile, expected = own.split(":")
    if "path" in derived:
        return profile, None
    if derived.get("payments"):
        expected = payments_key(key_id, own)
    if "taproot" in derived:
        expected = taproot_output_key(expected, derived["taproot"].get("merkle_root", ""))
    return profile, expected


def check_signature(roots, document, events, decision, report):
    signature = (change_of(events, "executed") or {}).get("signature")
    if signature is None:
        return
    if document["state"] != "published":
        report.not_checked("signature", "it exists, and is disclosed after its publication")
        return
    need(change_of(events, "executed")["result_ref"] == digest("svc/result/v1", signature), "another result_ref")
    need(signature["signed_digest"] == decision["request_digest"], "another digest was signed")
    need(set(signature["signers"]) <= set(decision["participants"]), "a signer was not admitted")
    need(len(signature["signers"]) >= int(decision["threshold"]), "there are fewer signers than the threshold")
    profile, key = signature["signature_profile"], signature["public_key_hex"]
    need(is_signed(profile, key, signature["signed_digest"], signature["signature_hex"]), "the signature does not verify")
    derived = decision.get("derivation")
    need(not derived or signature["public_key_hex"] == derived["public_key_hex"], "the signature is by another key")
    own = document["key"]["public_key_artifact_ref"] or roots.get("keys", {}).get(document["key_id"])
    if own:
        own_profile, expected = signing_key(document["key_id"], own, derived or {})
        need(expected in (key, None) and (profile == own_profile or not expected), "the signature is by another key")
    report.holds("signature", profile)


def check_key(roots, submission, events, report):
    """The public key of new shares is in the bytes that the nodes signed for; it is the one that the intent and the roots name."""
    intent, named = submission["intent"], submission["intent"].get("public_key_artifact_ref")
    pins = roots.get("keys", {})
    decided = change_of(events, "epoch_decided")
    need(named is None or pins.get(submission["key"]["key_id"], named) == named, "the roots have another key")
    if decided:
        staged, target = decided["staged"], change_of(events, "decision_signed")["admission"]["decision"]["target"]
        profile, threshold, participants, public_key = read_package(staged["public"]["package_hex"])
        need(staged["public"]["public_key_hex"] == public_key, "the key of the shares is another one")
        epoch = {"key_id": target["key_id"], "epoch": target["epoch"], "package": staged["public"]["package_hex"]}
        made = (staged["epoch"], staged["participants"], staged["threshold"])
        admitted = ({"name": target["epoch"], "root": digest("svc/epoch/v1", epoch)}, target["participants"], target["threshold"])
        need(made == admitted and (participants, threshold) == (staged["participants"], staged["threshold"]), "not the admitted shares")
        key = f"{profile}:{public_key}"
        need(pins.get(target["key_id"], key) == key, "the roots have another key")
        need(intent["kind"] != "key_create" or intent["signature_profile"] == profile, "another signature profile")
        if intent["kind"] == "rotate":
            need(target["key_id"] == submission["successor"]["key_id"], "the shares of another key")
            need(named is None or (named.split(":")[0] == profile and named != key), "the key that it replaces, or another profile")
        elif intent["kind"] != "key_create":
            need(named in (None, key), "the shares of another key than the intent names")
        report.holds("key", key)
    elif named or submission["key"]["key_id"] in pins:
        report.holds("key", named or "named by the roots")
    elif intent["kind"] != "key_create":
        report.not_checked("key", "neither the intent nor the roots name its public key")


def check_ending(roots, history, events, logs, report):
    """That nothing happened after the last event is the gateway's word, unless receipts or the nodes' logs show it."""
    if history.decision is None:
        report.not_checked("submission", "it is claimed by the gateway alone: no authority has signed a decision")
    discards = history.phase in ("failed", "discarding_rest") and change_of(events, "aborted")
    if history.phase == "published":
        report.holds("ending", "published, as its nodes signed")
        return
    if discards and history.too_few_left(history.discarded):
        report.holds("ending", f"failed: {len(history.discarded)} nodes have discarded it")
        return
    steps = {
        "decision_signed": ["admission"],
        "execution_requested": ["policy-receipt"],
        "ceremony_started": ["execute", "discard"],
        "epoch_decided": ["commit-epoch"],
        "publication_requested": ["publish"],
        "aborted": ["discard"],
    }
    begun = {step for event in events for step in steps.get(event["change"]["type"], [])}
    for participant, entries in logs:
        for entry in entries:
            made = entry.get("statement", {})
            if made.get("operation_id") == history.submission["operation_id"] and made["step"] not in begun:
                need(history.phase != "failed", f"node {participant} made the step {made['step']}, which is not shown")
                report.not_checked("ending", f"node {participant} made the step {made['step']}: later evidence shows it")
                return
    nodes = {int(node) for node in roots["nodes"]}
    if history.decision is not None:
        nodes = set(history.decision["participants"]) | history.receivers() | history.holders()
    missing = nodes - {participant for participant, _ in logs}
    shows = f"the logs of nodes {sorted(missing)} would show" if missing else "the nodes' logs do not show"
    report.not_checked("ending", f"it is claimed by the gateway alone: {shows} whether they did more")


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


def check_statement(roots, document, events, log_size):
    stated_at_ms = document["stated_at_ms"]
    statement = {name: document[name] for name in ["operation_id", "record_root", "stated_at_ms"]}
    subject, stated, *_ = note_is_signed(document["statement"], roots["logs"]).split("\n")
    need(subject.endswith("/last-event") and stated == canonical({**statement, "log_size": log_size}), "another statement")
    need(events[-1]["at_ms"] <= stated_at_ms, "the statement is older than the last event")
    need(stated_at_ms <= time.time() * 1000 + CLOCK_AHEAD_MS_MAX, "the statement is in the future")
    return f"the last event at {stated_at_ms}"


def verify(roots, document, logs=()):
    need(document["format"] == "svc/evidence/v4" and not document["truncated"], "not complete evidence of format v4")
    check_form(document, "document")
    report = Report()
    events, shown = check_chain(document)
    report.holds("chain", shown)
    submission = check_operation(document, events)
    history = check_order(submission, events)
    report.holds("operation", f"{submission['operation_id']} {submission['intent']['kind']} {document['state']}")
    approvals, signed, shown = check_policy(submission, events)
    report.holds("policy", shown)
    check_facts(roots, events, report)
    check_paid(roots, submission, events, report)
    check_documents(roots, events, report)
    check_approvals(roots, submission, events, report)
    if signed:
        at_ms = next(event["at_ms"] for event in events if event["change"] is signed)
        admission_hash, decision = check_admission(roots, submission, approvals, signed, at_ms)
        report.holds("admission", f"signed over {len(approvals)} approvals")
        receipts = check_receipts(roots, events, admission_hash, decision)
        report.holds("receipts", f"{len(receipts)} signed by their nodes")
        if logs:
            report.holds("node logs", check_node_logs(logs, events, decision, receipts))
        check_signature(roots, document, events, decision, report)
    check_key(roots, submission, events, report)
    check_ending(roots, history, events, logs, report)
    log_size, shown = check_log(roots, document)
    report.holds("log", shown)
    report.holds("statement", check_statement(roots, document, events, log_size))
    return report


def main():
    if len(sys.argv) < 3 or {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
        sys.exit(0 if len(sys.argv) > 1 else 2)
    try:
        with open(sys.argv[1], encoding="utf-8") as file:
            roots = json.load(file, object_pairs_hook=unique)
        check_form(roots, "roots", "the roots")
    except (OSError, Refused, ValueError) as refused:
        print(f"the roots cannot be read: {refused}")
        sys.exit(2)
    try:
        logs = []
        for name in sys.argv[3:]:
            with open(name, encoding="utf-8") as file:
                logs.append(read_node_log(roots, file))
        with sys.stdin if sys.argv[2] == "-" else open(sys.argv[2], encoding="utf-8") as file:
            report = verify(roots, json.load(file, object_pairs_hook=unique), logs)
    except OSError as missing:
        print(f"nothing was checked: {missing}")
        sys.exit(2)
    except (Refused, KeyError, IndexError, TypeError, ValueError) as refused:
        print(f"FAIL: {refused!r}" if not isinstance(refused, Refused) else f"FAIL: {refused}")
        sys.exit(1)
    print("\n".join(report.lines))
    sys.exit(3 if report.unchecked else 0)


if __name__ == "__main__":
    main()
