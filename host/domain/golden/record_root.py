#!/usr/bin/env python3
"""Prints the head of the hash chain over golden/events.json, computed from the specification and golden/redacted.json.

Shares no code with the gateway. golden/redacted.json gives the shape of each redacted event; this script recomputes the
commitments from the events (RFC 8785 over values whose integers are decimal strings; every byte of the salts is 7).
"""
import hashlib
import json
import pathlib


def strings(value):
    """The value with every integer as a decimal string, as in canonical bytes."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        return [strings(item) for item in value]
    return {name: strings(item) for name, item in value.items()}


def canonical(value):
    # RFC 8785 sorts by UTF-16 code units; the names here are ASCII.
    return json.dumps(strings(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).hexdigest()


def commitment(path, value):
    salt = sha256(b"svc/field-salt/v1", bytes([7] * 32), path.encode())
    return sha256(b"svc/field/v1", canonical({"path": path, "salt": salt, "value": value}))


def redact(event, shape, path=""):
    """The event redacted to the pinned shape: recomputes commitments, and copies open members from the event."""
    if isinstance(shape, dict) and "commitment" in shape:
        hidden = {"commitment": commitment(path, event)}
        if "shown" in shape:
            hidden["shown"] = "…" + (event[-4:] if len(event) > 4 else "")
        return hidden
    if isinstance(shape, dict):
        assert sorted(event) == sorted(shape), path
        return {name: redact(event[name], shape[name], f"{path}/{name}") for name in shape}
    if isinstance(shape, list):
        assert len(event) == len(shape), path
        return [redact(one, like, f"{path}/{index}") for index, (one, like) in enumerate(zip(event, shape))]
    assert event == shape, path
    return event


folder = pathlib.Path(__file__).parent
head = bytes(32)
for event, shape in zip(json.load(open(folder / "events.json")), json.load(open(folder / "redacted.json"))):
    head = bytes.fromhex(sha256(b"svc/event/v2", head, canonical(redact(event, shape))))
print(head.hex())
