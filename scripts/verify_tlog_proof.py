"""Verifies a C2SP tlog-proof file with only the log's verifier key. Uses no code of the gateway and no libraries.

Usage: verify_tlog_proof.py PROOF_FILE VERIFIER_KEY EVENT_HASH [WITNESS_KEY...]

PROOF_FILE   the proof, - for standard input
VERIFIER_KEY name+id+key, from the log's operator
EVENT_HASH   the event's hash in hexadecimal, from its evidence; the leaf is SHA-256(00 || EVENT_HASH)
WITNESS_KEY  name+id+key of a witness that must have cosigned the checkpoint; lines by other witnesses are ignored

Sources: c2sp.org/tlog-proof, c2sp.org/tlog-checkpoint, c2sp.org/signed-note, c2sp.org/tlog-cosignature; RFC 9162, section 2.1.3.2; RFC 8032, section 5.1.7.
"""
import base64
import hashlib
import re
import sys

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P


class Refused(Exception):
    pass


def need(holds, why):
    if not holds:
        raise Refused(why)


def decoded(text, what):
    try:
        value = base64.b64decode(text, validate=True)
    except ValueError:
        raise Refused(what + " is not base64") from None
    need(base64.b64encode(value).decode() == text, what + " is not canonical base64")
    return value


def number(text, what):
    need(re.fullmatch("0|[1-9][0-9]*", text, re.ASCII), what + " is not a decimal number")
    return int(text)


def add(a, b):
    t = D * a[0] * b[0] * a[1] * b[1]
    x = (a[0] * b[1] + a[1] * b[0]) * pow(1 + t, -1, P)
    y = (a[1] * b[1] + a[0] * b[0]) * pow(1 - t, -1, P)
    return x % P, y % P


def multiply(point, scalar):
    result = (0, 1)
    while scalar:
        if scalar & 1:
            result = add(result, point)
        point, scalar = add(point, point), scalar >> 1
    return result


def point(encoded):
    y = int.from_bytes(encoded, "little")
    sign, y = y >> 255, y & (2**255 - 1)
    need(y < P, "a curve point is not in its canonical form")
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * pow(2, (P - 1) // 4, P) % P
    need(x * x % P == square and not (x == 0 and sign), "32 bytes are not a curve point")
    result = (P - x if x & 1 != sign else x), y
    need(multiply(result, 8) != (0, 1), "a curve point has a small order")
    return result


BASE = point((4 * pow(5, -1, P) % P).to_bytes(32, "little"))


def ed25519(key, message, signature):
    need(len(signature) == 64, "the signature is not 64 bytes")
    s = int.from_bytes(signature[32:], "little")
    need(s < L, "the signature is not in its canonical form")
    challenge = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % L
    right = add(point(signature[:32]), multiply(point(key), challenge))
    need(multiply(BASE, s) == right, "the signature does not verify")


def verifier_key(text, kind=1):
    parts = text.split("+", 2)
    need(len(parts) == 3, "the verifier key is not name+id+key")
    name, key = parts[0], decoded(parts[2], "the verifier key")
    need(len(key) == 33 and key[0] == kind, "the verifier key is not of type " + ("Ed25519" if kind == 1 else "cosignature"))
    identifier = hashlib.sha256(name.encode() + b"\n" + key).digest()[:4]
    need(identifier.hex() == parts[1], "the verifier key's id does not match its name and key")
    return name, identifier, key[1:]


def checkpoint(note, name, identifier, key, witnesses):
    text, separator, signatures = note.rpartition("\n\n")
    need(separator and signatures.endswith("\n"), "the checkpoint is not a signed note")
    text += "\n"
    n_verified, cosigned = 0, set()
    for line in signatures[:-1].split("\n"):
        parts = re.fullmatch("\u2014 ([^ +]+) ([^ ]+)", line)
        need(parts, "a line of the signed note is not a signature")
        signature = decoded(parts[2], "a signature")
        if parts[1] == name and signature[:4] == identifier:
            ed25519(key, text.encode(), signature[4:])
            n_verified += 1
        for witness in witnesses:
            if (parts[1], signature[:4]) == witness[:2]:
                time = int.from_bytes(signature[4:12], "big")
                ed25519(witness[2], f"cosignature/v1\ntime {time}\n{text}".encode(), signature[12:])
                cosigned.add(witness[0])
    need(n_verified, "the log did not sign the checkpoint")
    for witness in witnesses:
        need(witness[0] in cosigned, "the witness " + witness[0] + " did not cosign the checkpoint")
    lines = text[:-1].split("\n")
    need(len(lines) >= 3 and all(lines), "the checkpoint does not have its three lines")
    need(lines[0] == name, "the checkpoint is from another log")
    root = decoded(lines[2], "the root")
    need(len(root) == 32, "the root is not 32 bytes")
    return number(lines[1], "the size"), root


def verify(proof, key, event_hash, witnesses):
    head, separator, note = proof.partition("\n\n")
    need(separator, "the proof has no checkpoint")
    lines = head.split("\n")
    need(lines.pop(0) == "c2sp.org/tlog-proof@v1", "the file is not a tlog-proof")
    if lines and lines[0].startswith("extra "):
        decoded(lines.pop(0)[len("extra "):], "the extra data")
    need(lines and lines[0].startswith("index "), "the proof has no index")
    index = number(lines.pop(0)[len("index "):], "the index")
    path = [decoded(line, "a hash") for line in lines]
    need(all(len(hash) == 32 for hash in path), "a hash is not 32 bytes")
    witnesses = [verifier_key(witness, kind=4) for witness in witnesses]
    size, root = checkpoint(note, *verifier_key(key), witnesses)

    need(index < size, "the checkpoint is older than the event: its log is too small")
    hash = hashlib.sha256(b"\x00" + event_hash).digest()
    node, last = index, size - 1
    for sibling in path:
        need(last > 0, "the proof has too many hashes")
        if node & 1 or node == last:
            hash = hashlib.sha256(b"\x01" + sibling + hash).digest()
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            hash = hashlib.sha256(b"\x01" + hash + sibling).digest()
        node, last = node >> 1, last >> 1
    need(last == 0, "the proof has too few hashes")
    need(hash == root, "the event is not in the log at this place")
    return index, size, [witness[0] for witness in witnesses]


def main(arguments):
    if len(arguments) < 3:
        sys.exit(__doc__)
    path, key, event_hash, *witnesses = arguments
    try:
        if path == "-":
            proof = sys.stdin.buffer.read().decode()
        else:
            with open(path, "rb") as file:
                proof = file.read().decode()
        event_hash = bytes.fromhex(event_hash)
        need(len(event_hash) == 32, "the event hash is not 32 bytes")
        index, size, cosigned = verify(proof, key.strip(), event_hash, witnesses)
    except (Refused, ValueError) as why:
        sys.exit("the event is NOT proved to be in the log: " + str(why))
    print(f"log            has the event at {index} of {size} (C2SP tlog-proof, checked without the gateway)")
    if cosigned:
        print("witnesses      cosigned by " + ", ".join(cosigned))


main(sys.argv[1:])
