"""A wallet: derives addresses from the gateway's keys as host/docs/addresses.md says, and spends from them, with libraries that know
nothing of the gateway. Usage: python addresses.py BASE_URL EVIDENCE_FOLDER"""

import hashlib
import json
import pathlib
import re
import sys
import time
import urllib.request

from embit import bip32, ec, hashes, script
from embit.descriptor import Descriptor
from embit.networks import NETWORKS
from embit.transaction import SIGHASH, Transaction, TransactionInput, TransactionOutput
from stellar_sdk import Account, Asset, Keypair, Network, StrKey, TransactionBuilder
from stellar_sdk.decorated_signature import DecoratedSignature

base, evidence = sys.argv[1:]
run = str(time.time_ns())
caller = {"client_id": "wallet", "subject_id": "carol", "roles": ["operator"], "scopes": ["custody.*"]}


def call(path: str, body: object = None, method: str = "POST") -> dict:
    data = None if method == "GET" else json.dumps(body or {}).encode()
    request = urllib.request.Request(base + path, data, {"content-type": "application/json"}, method=method)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def read(path: str) -> dict:
    return call(path, method="GET")


def execute(path: str, body: dict) -> dict:
    """Submits, approves and executes an operation that publishes by itself, and reads it again."""
    view = call(path, {**body, "client": caller})["operation"]
    for subject in ["alice", "bob"]:
        vote = {"subject_id": subject, "roles": ["approver"], "approved_at_ms": time.time_ns() // 1_000_000}
        call(view["links"]["approve"]["href"], vote)
    view = call(read(view["links"]["self"]["href"])["links"]["execute"]["href"])
    view = read(view["links"]["self"]["href"])
    assert view["state"] == "published", view
    return view


def create(name: str, profile: str) -> str:
    key_ref = f"{name}-{run}"
    members = {"key_ref": key_ref, "tenant_id": "default", "asset_id": name, "purpose": "wallet", "signature_profile": profile}
    execute("/v1/custody/keys", {**members, "threshold": 2, "participants": [0, 1, 2]})
    return f"/v1/custody/keys/{key_ref}"


def sign(key: str, digest: bytes, **members: object) -> dict:
    body = {"idempotency_key": digest.hex(), "asset_id": "coins", "action": "transfer", "chain_id": "test"}
    body |= {"request_digest": digest.hex(), "typed_data_root": "0" * 64, "requested_participants": [0, 1, 2]}
    return execute(f"{key}/sign", {**body, "publication_mode": "automatic", **members})


def taproot_address(output_key: str) -> str:
    return script.Script(b"\x51\x20" + bytes.fromhex(output_key)).address(NETWORKS["main"])


def check_page() -> None:
    """The vectors of the page."""
    page = pathlib.Path(__file__).parents[2] / "host/docs/addresses.md"
    rows = re.findall(r"^\| `(\w+)` \| `([0-9a-f]{64})` \| `(\w+)` \|$", page.read_text(), re.MULTILINE)
    encode = {"taproot_output_key_hex": taproot_address, "public_key_hex": lambda key: StrKey.encode_ed25519_public_key(bytes.fromhex(key))}
    assert {member for member, _, _ in rows} == set(encode), rows
    for member, value, address in rows:
        assert encode[member](value) == address, (value, encode[member](value))
    print(f"{len(rows)} vectors of host/docs/addresses.md")


def spend_taproot() -> None:
    key = create("bitcoin", "frost-secp256k1-sha256-tr")
    account = read(f"{key}/derive")
    root = bip32.HDKey.from_string(account["extended_public_key"])
    wallet = Descriptor.from_string(f"tr({account['extended_public_key']}/0/*)")
    for index in [0, 7, 2**31 - 1]:
        path = f"0/{index}"
        child = read(f"{key}/derive?path={path}")
        own = root.derive([0, index])
        assert own.key.sec().hex() == child["compressed_public_key_hex"]
        assert own.key.xonly().hex() == child["public_key_hex"]
        # All but the version bytes, which embit takes from the parent.
        assert own.to_base58() == child["extended_public_key"]
        address = taproot_address(child["taproot_output_key_hex"])
        assert address == wallet.derive(index).address(NETWORKS["main"]), address

        # Two outputs: one that only the key spends, and one with a script tree of one leaf.
        leaf = hashes.tagged_hash("TapLeaf", b"\xc0\x01\x51")
        for merkle_root in [None, leaf]:
            output_key = own.key.taproot_tweak(merkle_root or b"")
            spent = TransactionInput(hashlib.sha256(path.encode()).digest(), 0)
            transaction = Transaction(2, [spent], [TransactionOutput(90_000, script.Script(b"\x6a"))], 0)
            paid = script.Script(b"\x51\x20" + output_key.xonly())
            digest = transaction.sighash_taproot(0, [paid], [100_000], sighash=SIGHASH.DEFAULT)
            taproot = {} if merkle_root is None else {"merkle_root": merkle_root.hex()}
            view = sign(key, digest, bip32={"network": "main", "path": path}, taproot=taproot)
            signature = ec.SchnorrSig(bytes.fromhex(view["result"]["signature_hex"]))
            assert output_key.schnorr_verify(signature, digest), view["result"]
            assert not own.key.schnorr_verify(signature, digest), "the internal key signed"
    own = sign(key, hashlib.sha256(b"own").digest(), taproot={})
    assert own["result"]["public_key_hex"] == account["taproot_output_key_hex"]
    for name, signed in [("taproot", view), ("output", own)]:
        document = read(f"/v1/custody/operations/{signed['operation_id']}/evidence")
        (pathlib.Path(evidence) / f"{name}.json").write_text(json.dumps(document))
    print("taproot outputs of 3 child keys spent, with and without scripts")


def spend_stellar() -> None:
    key = create("stellar", "frost-ed25519-sha512")
    address = StrKey.encode_ed25519_public_key(bytes.fromhex(read(f"{key}/derive")["public_key_hex"]))
    builder = TransactionBuilder(Account(address, 1), Network.TESTNET_NETWORK_PASSPHRASE, base_fee=100)
    envelope = builder.append_payment_op(address, Asset.native(), "1").set_timeout(30).build()
    signature = bytes.fromhex(sign(key, envelope.hash())["result"]["signature_hex"])
    owner = Keypair.from_public_key(address)
    owner.verify(envelope.hash(), signature)
    envelope.signatures.append(DecoratedSignature(owner.signature_hint(), signature))
    assert envelope.to_xdr()
    print("a Stellar payment signed")


check_page()
spend_taproot()
spend_stellar()
