#!/bin/sh
# Rebuilds the Cedar engine and compares it byte for byte with the component in bundles/cedar-example. Takes some minutes, so CI
# does not run it. Needs the same tools as build.sh.
set -eu
cd "$(dirname "$0")"
./build.sh
built=target/wasm32-unknown-unknown/release/cedar_guest_component.wasm
committed=../../bundles/cedar-example/policy.wasm
if cmp "$built" "$committed"; then
  echo "the component in bundles/cedar-example is built from these sources: $(sha256sum "$built" | cut -d' ' -f1)"
else
  echo "the component in bundles/cedar-example differs from the one built from these sources" >&2
  exit 1
fi
