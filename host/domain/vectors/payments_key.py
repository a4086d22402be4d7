#!/usr/bin/env python3
"""Prints payments_key.json: keys for payments, their children and output keys, from the steps in host/threshold/src/derive.rs.

Uses the standard library only, and shares no code with the gateway. Run it in this folder:

    python3 payments_key.py > payments_key.json
"""
import hashlib
import hmac
import json

SECP_P = 2**256 - 2**32 - 977
SECP_N = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
SECP_G = (
    0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
    0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8,
)
ED_P = 2**255 - 19
ED_L = 2**252 + 27742317777372353535851937790883648493
ED_D = -121665 * pow(121666, -1, ED_P) % ED_P
ED_G = (
    15112221349535400772501151409588531511454012693041857206046113283949847762202,
    46316835694926478169428394003475163141307993866256225615783033603165251855960,
)


def secp_add(a, b):
    if a is None or b is None:
        return a or b
    if a[0] == b[0] and (a[1] + b[1]) % SECP_P == 0:
        return None
    if a == b:
        slope = 3 * a[0] * a[0] * pow(2 * a[1], -1, SECP_P) % SECP_P
    else:
        slope = (b[1] - a[1]) * pow(b[0] - a[0], -1, SECP_P) % SECP_P
    x = (slope * slope - a[0] - b[0]) % SECP_P
    return x, (slope * (a[0] - x) - a[1]) % SECP_P


def ed_add(a, b):
    """RFC 8032, section 5.1, in affine coordinates."""
    product = ED_D * a[0] * b[0] * a[1] * b[1] % ED_P
    x = (a[0] * b[1] + b[0] * a[1]) * pow(1 + product, -1, ED_P) % ED_P
    y = (a[1] * b[1] + a[0] * b[0]) * pow(1 - product, -1, ED_P) % ED_P
    return x, y


def times(add, point, scalar, identity):
    result = identity
    while scalar:
        if scalar & 1:
            result = add(result, point)
        point, scalar = add(point, point), scalar >> 1
    return result


def secp(scalar):
    return times(secp_add, SECP_G, scalar % SECP_N, None)


def ed(scalar):
    return times(ed_add, ED_G, scalar % ED_L, (0, 1))


def compressed(point):
    return bytes([2 + point[1] % 2]) + point[0].to_bytes(32, "big")


def ed_encoded(point):
    return (point[1] | (point[0] & 1) << 255).to_bytes(32, "little")


def x_of(point):
    return point[0].to_bytes(32, "big")


def even(point):
    """The point with this x and an even y, and the sign with which a tweak is added to its secret."""
    return (point, 1) if point[1] % 2 == 0 else ((point[0], SECP_P - point[1]), -1)


def payments_hash(key_id, public_key):
    return hashlib.sha256(b"svc/payments-key/v1" + key_id + public_key).digest()


def secp_vector(secret, key_id, chain_code, path, merkle_root):
    def shown(point, tweak):
        assert secp(secret + tweak) == point, "the tweak is not that of the point"
        return {"point": compressed(point).hex(), "public_key": x_of(point).hex(), "tweak": (tweak % SECP_N).to_bytes(32, "big").hex()}

    group = secp(secret)
    hashed = int.from_bytes(payments_hash(key_id, x_of(group)), "big") % SECP_N
    lifted, sign = even(group)
    sum_, tweak = secp_add(lifted, secp(hashed)), sign * hashed
    point = sum_ if sign == 1 else (sum_[0], SECP_P - sum_[1])
    payments = shown(point, tweak)
    code = chain_code
    for index in path:
        digest = hmac.digest(code, compressed(point) + index.to_bytes(4, "big"), "sha512")
        step, code = int.from_bytes(digest[:32], "big"), digest[32:]
        assert step < SECP_N
        point, tweak = secp_add(point, secp(step)), tweak + step
    child = shown(point, tweak)
    tag = hashlib.sha256(b"TapTweak").digest()
    step = int.from_bytes(hashlib.sha256(tag + tag + x_of(point) + merkle_root).digest(), "big")
    assert step < SECP_N
    lifted, sign = even(point)
    sum_, tweak = secp_add(lifted, secp(step)), tweak + sign * step
    output = shown(sum_ if sign == 1 else (sum_[0], SECP_P - sum_[1]), tweak)
    return {
        "signature_profile": "frost-secp256k1-sha256-tr", "key_id": key_id.hex(), "group_key": compressed(group).hex(),
        "public_key": x_of(group).hex(), "chain_code": chain_code.hex(), "payments": payments, "path": path, "child": child,
        "merkle_root": merkle_root.hex(), "output": output,
    }


def ed_vector(secret, key_id):
    group = ed(secret)
    tweak = int.from_bytes(payments_hash(key_id, ed_encoded(group)), "little") % ED_L
    point = ed_encoded(ed_add(group, ed(tweak)))
    assert point == ed_encoded(ed(secret + tweak)), "the tweak is not that of the point"
    return {
        "signature_profile": "frost-ed25519-sha512", "key_id": key_id.hex(), "group_key": ed_encoded(group).hex(),
        "public_key": ed_encoded(group).hex(),
        "payments": {"point": point.hex(), "public_key": point.hex(), "tweak": tweak.to_bytes(32, "little").hex()},
    }


def number(name):
    return int.from_bytes(hashlib.sha256(name.encode()).digest(), "big")


def vectors():
    for nth in range(17):
        of = lambda what: hashlib.sha256(f"{what} {nth}".encode()).digest()
        yield secp_vector(number(f"secret {nth}"), of("key id"), of("chain code"), [nth, 2**31 - 1 - nth], of("merkle root"))
    for nth in range(4):
        yield ed_vector(number(f"secret {nth}"), hashlib.sha256(f"key id {nth}".encode()).digest())


if __name__ == "__main__":
    print(json.dumps(list(vectors()), indent=2))
