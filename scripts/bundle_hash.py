#!/usr/bin/env python3
"""Computes the hash of a policy bundle and checks every file, without the gateway's code: python3 scripts/bundle_hash.py FOLDER"""
import hashlib, json, pathlib, sys

folder = pathlib.Path(sys.argv[1])

def once(pairs):                                   # rejects duplicate keys
    assert len(dict(pairs)) == len(pairs), pairs
    return dict(pairs)

def text(value):                                   # writes integers as decimal strings
    if isinstance(value, bool) or isinstance(value, str): return value
    if isinstance(value, int): return str(value)
    if isinstance(value, list): return [text(item) for item in value]
    return {name: text(item) for name, item in value.items()}

manifest = json.loads((folder / "manifest.json").read_bytes(), object_pairs_hook=once)
canonical = json.dumps(text(manifest), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
for name, digest in manifest["files"].items():
    assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest, name
there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
extra = {name for name in there if not name.startswith("signatures/")} - {"manifest.json", *manifest["files"]}
assert not extra, extra
print("bundle_hash", hashlib.sha256(canonical).hexdigest())
