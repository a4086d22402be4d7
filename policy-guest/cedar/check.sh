#!/bin/sh
# Rebuilds the Cedar engine and compares it, byte for byte, with the one in bundles/cedar-example. It takes some minutes, so CI
# does without. Needs what build.sh needs.
set -eu
cd "$(dirname "$0")"
./build.sh
built=target/wasm32-unknown-unknown/release/cedar_guest_component.wasm
committed=../../bundles/cedar-example/policy.wasm
if cmp "$built" "$committed"; then
  echo "bundles/cedar-example has the component that these sources give: $(sha256sum "$built" | cut -d' ' -f1)"
else
  echo "bundles/cedar-example has another component than these sources give" >&2
  exit 1
fi
