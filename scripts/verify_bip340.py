"""Verifies the signature of a published operation with BIP-340 only. Reads the operation's view from standard input.

https://github.com/bitcoin/bips/blob/master/bip-0340.mediawiki, section "Verification".
"""
import hashlib
import json
import sys

P = 2**256 - 2**32 - 977
N = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
G = (
    0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
    0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8,
)


def add(a, b):
    if a is None or b is None:
        return a or b
    if a[0] == b[0] and (a[1] + b[1]) % P == 0:
        return None
    if a == b:
        slope = 3 * a[0] * a[0] * pow(2 * a[1], -1, P) % P
    else:
        slope = (b[1] - a[1]) * pow(b[0] - a[0], -1, P) % P
    x = (slope * slope - a[0] - b[0]) % P
    return x, (slope * (a[0] - x) - a[1]) % P


def multiply(point, scalar):
    result = None
    while scalar:
        if scalar & 1:
            result = add(result, point)
        point, scalar = add(point, point), scalar >> 1
    return result


def lift_x(x):
    y = pow(x**3 + 7, (P + 1) // 4, P)
    if x >= P or y * y % P != (x**3 + 7) % P:
        return None
    return x, y if y % 2 == 0 else P - y


def verify(public_key, message, signature):
    point = lift_x(int.from_bytes(public_key, "big"))
    r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
    if point is None or r >= P or s >= N:
        return False
    tag = hashlib.sha256(b"BIP0340/challenge").digest()
    challenge = hashlib.sha256(tag + tag + signature[:32] + public_key + message).digest()
    e = int.from_bytes(challenge, "big") % N
    result = add(multiply(G, s), multiply(point, N - e))
    return result is not None and result[1] % 2 == 0 and result[0] == r


view = json.load(sys.stdin)
parts = [bytes.fromhex(view["result"][name]) for name in ("public_key_hex", "signed_digest", "signature_hex")]
if not verify(*parts):
    sys.exit("the signature does NOT verify")
print("signature      verifies (BIP-340, checked without FROST)")
