#!/usr/bin/env python3
"""Prints webauthn.json: assertions by other projects' authenticators, each also verified by another project's server.

    python3 -m venv v && v/bin/pip install soft-webauthn==0.1.4 fido2==1.2.0
    v/bin/python webauthn.py > webauthn.json

soft-webauthn makes the ES256 assertions; this script adds the user verification that it lacks. fido2's builders make the EdDSA
assertions. fido2's server, with user verification required, must accept every valid case and reject every invalid one,
except for rules that only the gateway has (`HERE_ONLY`). ECDSA uses random nonces, so another run gives other signatures.
"""
import hashlib
import json
from base64 import urlsafe_b64encode

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from fido2 import cbor, cose, server, webauthn
from soft_webauthn import SoftWebauthnDevice

import approval_statement

RP, ORIGIN, NOW = "approve.example", "https://approve.example", 1790000060000
FLAG = webauthn.AuthenticatorData.FLAG
VERIFIED = FLAG.UP | FLAG.UV
# fido2's server does not check these.
HERE_ONLY = {"cross_origin", "malformed", "role_not_held", "key_revoked", "key_expired", "key_not_yet_valid"}


def b64(data):
    return urlsafe_b64encode(data).decode().rstrip("=")


def sha256(data):
    return hashlib.sha256(data).digest()


class Es256(SoftWebauthnDevice):
    """soft-webauthn's device, with user verification."""
    algorithm = "ES256"

    def __init__(self, name, secret):
        super().__init__()
        self.credential_id, self.rp_id = sha256(name.encode()), RP
        self.private_key = ec.derive_private_key(secret, ec.SECP256R1())

    def public_hex(self):
        return self.private_key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint).hex()

    def sign(self, data):
        return self.private_key.sign(data, ec.ECDSA(hashes.SHA256()))

    def cose(self):
        return cose.ES256.from_cryptography_key(self.private_key.public_key())

    def untouched(self, challenge, origin=ORIGIN):
        """soft-webauthn's own answer: the user is present, but not verified."""
        answer = self.get({"publicKey": {"rpId": RP, "challenge": challenge}}, origin)["response"]
        return answer["authenticatorData"], answer["clientDataJSON"], answer["signature"]

    def assertion(self, challenge, origin=ORIGIN):
        auth, client, _ = self.untouched(challenge, origin)
        auth = auth[:32] + bytes([VERIFIED]) + auth[33:]
        return auth, client, self.sign(auth + sha256(client))


class EdDsa:
    algorithm = "EdDSA"

    def __init__(self, name, seed):
        self.credential_id, self.private_key = name.encode(), ed25519.Ed25519PrivateKey.from_private_bytes(seed)

    def public_hex(self):
        return self.private_key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()

    def sign(self, data):
        return self.private_key.sign(data)

    def cose(self):
        return cose.EdDSA.from_cryptography_key(self.private_key.public_key())

    def assertion(self, challenge, origin=ORIGIN):
        return built(self, challenge, origin=origin)


def built(device, challenge, rp=RP, flags=VERIFIED, origin=ORIGIN, kind="webauthn.get", extensions=None, tail=b"", **more):
    """An assertion with client data from fido2's builder, signed by the device."""
    auth = sha256(rp.encode()) + bytes([flags]) + bytes([0, 0, 0, 7]) + (cbor.encode(extensions) if extensions else b"") + tail
    client = bytes(webauthn.CollectedClientData.create(kind, challenge, origin, **more))
    return auth, client, device.sign(auth + sha256(client))


def fido2_accepts(device, credential_id, challenge, auth, client, signature):
    relying_party = server.Fido2Server(webauthn.PublicKeyCredentialRpEntity("gateway", RP), verify_origin=lambda o: o == ORIGIN)
    state = {"challenge": b64(challenge), "user_verification": webauthn.UserVerificationRequirement.REQUIRED}
    known = [webauthn.AttestedCredentialData.create(bytes(16), device.credential_id, device.cose())]
    try:
        relying_party.authenticate_complete(
            state, known, credential_id, webauthn.CollectedClientData(client), webauthn.AuthenticatorData(auth), signature)
        return True
    except Exception:  # noqa: BLE001 - every exception is a rejection
        return False


ALICE, ALICE_2, BOB, EVE = Es256("alice-1", 1001), EdDsa("alice-2", bytes([9] * 32)), Es256("bob-1", 2002), Es256("eve-1", 3003)
OLD, GONE, SOON = Es256("alice-old", 1101), Es256("alice-gone", 1102), Es256("alice-soon", 1103)


def entry(device, **validity):
    return {"kind": "webauthn", "credential_id": b64(device.credential_id), "algorithm": device.algorithm,
            "public_key": device.public_hex(), "rp_id": RP, "origins": [ORIGIN], **validity}


REGISTRY = {"format": "svc/approvers/v2", "approvers": [
    {"subject_id": "alice", "tenants": ["default"], "roles": ["approver"], "keys": [
        entry(ALICE), entry(ALICE_2), entry(OLD, not_after_ms=NOW), entry(GONE, revoked_at_ms=NOW), entry(SOON, not_before_ms=NOW + 1)]},
    {"subject_id": "bob", "tenants": ["default"], "roles": ["approver", "treasurer"], "keys": [entry(BOB)]},
]}
CASES = []


def case(name, expected, device, answer, statement=None, credential_id=None, here_only=False):
    statement = statement or approval_statement.statement()
    credential_id = credential_id or device.credential_id
    challenge = sha256(approval_statement.message(statement).encode())
    auth, client, signature = answer(challenge)
    accepted = fido2_accepts(device, credential_id, challenge, auth, client, signature)
    if expected == "ok" or not (here_only or expected in HERE_ONLY):
        assert accepted == (expected == "ok"), (name, expected, accepted)
    CASES.append({"name": name, "expected": expected, "statement": statement, "signature": {
        "kind": "webauthn", "credential_id": b64(credential_id), "authenticator_data": b64(auth),
        "client_data_json": b64(client), "signature": b64(signature)}})


def changed(parts, auth=None, client=None, signature=None):
    return auth(parts[0]) if auth else parts[0], client(parts[1]) if client else parts[1], signature(parts[2]) if signature else parts[2]


def flipped(at):
    return lambda data: data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]


other = approval_statement.statement
OTHER = sha256(approval_statement.message(other(operation_id="34" * 32)).encode())
case("soft-webauthn, user verified", "ok", ALICE, ALICE.assertion)
case("soft-webauthn, user not verified", "user_not_verified", ALICE, ALICE.untouched)
case("an EdDSA credential", "ok", ALICE_2, ALICE_2.assertion)
case("with extensions", "ok", ALICE, lambda c: built(ALICE, c, flags=VERIFIED | FLAG.ED, extensions={"uvm": [[2, 4, 2]]}))
case("a synchronised passkey", "ok", ALICE, lambda c: built(ALICE, c, flags=VERIFIED | FLAG.BE | FLAG.BS))
case("two roles, both held", "ok", BOB, BOB.assertion, other("bob", ["treasurer", "approver"]))
case("user not present", "user_not_present", ALICE, lambda c: built(ALICE, c, flags=FLAG.UV))
case("user present but not verified", "user_not_verified", ALICE_2, lambda c: built(ALICE_2, c, flags=FLAG.UP))
case("the statement of another operation", "wrong_challenge", ALICE, lambda c: ALICE.assertion(OTHER))
case("another origin", "wrong_origin", ALICE, lambda c: ALICE.assertion(c, "https://approve.example.evil.example"))
case("another port", "wrong_origin", ALICE, lambda c: ALICE.assertion(c, ORIGIN + ":8443"))
case("another scheme", "wrong_origin", ALICE, lambda c: ALICE.assertion(c, "http://approve.example"))
case("in a cross-origin frame", "cross_origin", ALICE, lambda c: built(ALICE, c, cross_origin=True))
case("in a cross-origin frame, with its top origin", "cross_origin", ALICE, lambda c: built(ALICE, c, topOrigin="https://evil.example"))
case("for another relying party", "wrong_rp", ALICE, lambda c: built(ALICE, c, rp="evil.example"))
case("a registration in place of an assertion", "wrong_type", ALICE, lambda c: built(ALICE, c, kind="webauthn.create"))
case("signed by another key than the credential's", "bad_signature", ALICE, lambda c: built(EVE, c))
case("an unregistered credential", "unknown_key", ALICE, EVE.assertion, credential_id=EVE.credential_id)
case("another approver's credential", "unknown_key", ALICE, BOB.assertion, credential_id=BOB.credential_id)
case("a role that is not held", "role_not_held", ALICE, ALICE.assertion, other("alice", ["treasurer"]))
case("a key that was revoked", "key_revoked", GONE, GONE.assertion)
case("a key that has expired", "key_expired", OLD, OLD.assertion)
case("a key that is not valid yet", "key_not_yet_valid", SOON, SOON.assertion)
case("an altered counter", "bad_signature", ALICE, lambda c: changed(ALICE.assertion(c), auth=flipped(36)))
case("client data with an additional space", "bad_signature", ALICE, lambda c: changed(ALICE.assertion(c), client=lambda d: d[:-1] + b" }"))
case("an altered signature", "bad_signature", ALICE, lambda c: changed(ALICE.assertion(c), signature=flipped(40)))
case("a signature with trailing bytes", "bad_signature", ALICE, lambda c: changed(ALICE.assertion(c), signature=lambda s: s + b"\0"))
case("an empty signature", "bad_signature", ALICE, lambda c: changed(ALICE.assertion(c), signature=lambda s: b""))
case("an altered EdDSA signature", "bad_signature", ALICE_2, lambda c: changed(ALICE_2.assertion(c), signature=flipped(63)))
case("a short EdDSA signature", "bad_signature", ALICE_2, lambda c: changed(ALICE_2.assertion(c), signature=lambda s: s[:63]))
case("trailing bytes that no flag announces", "malformed", ALICE, lambda c: built(ALICE, c, tail=b"\xa0"))
case("extensions announced but missing", "malformed", ALICE, lambda c: built(ALICE, c, flags=VERIFIED | FLAG.ED))
case("backed up but not eligible for backup", "malformed", ALICE, lambda c: built(ALICE, c, flags=VERIFIED | FLAG.BS))
case("attested credential data announced", "malformed", ALICE, lambda c: built(ALICE, c, flags=VERIFIED | FLAG.AT, tail=bytes(16)))
case("authenticator data cut off before the flags", "malformed", ALICE, lambda c: changed(ALICE.assertion(c), auth=lambda d: d[:32]))

def signed_client(device, challenge, client):
    auth = device.assertion(challenge)[0]
    return auth, client, device.sign(auth + sha256(client))


case("client data that is an array", "malformed", ALICE, lambda c: signed_client(
    ALICE, c, json.dumps(["webauthn.get", b64(c), ORIGIN, False, None]).encode()))
TWICE = '{"type":"webauthn.get","challenge":"%s","origin":"https://evil.example","origin":"' + ORIGIN + '"}'
case("client data with a duplicate origin", "malformed", ALICE, lambda c: signed_client(ALICE, c, (TWICE % b64(c)).encode()))
case("a challenge with padding", "wrong_challenge", ALICE, lambda c: signed_client(
    ALICE, c, json.dumps({"type": "webauthn.get", "challenge": b64(c) + "=", "origin": ORIGIN}).encode()), here_only=True)
print(json.dumps({"now_ms": NOW, "registry": REGISTRY, "cases": CASES}, indent=1, ensure_ascii=False))
