#!/bin/sh
# Builds bundles/treasury from the sources here, and signs it with the development key. Compiling the engine takes minutes, once.
# Set OPERATION_GATEWAY to use an existing binary.
set -eu
cd "$(dirname "$0")"
root=$(cd ../../.. && pwd)
made=$root/bundles/treasury
bundle() {
  if [ -n "${OPERATION_GATEWAY:-}" ]; then
    "$OPERATION_GATEWAY" bundle "$@"
  else
    cargo run --quiet --release --locked --manifest-path "$root/Cargo.toml" -p operation-gateway -- bundle "$@"
  fi
}
python3 vectors.py
rm -rf "$made"
mkdir -p "$made/data" "$made/tests"
cp cedar/manifest.json "$made"
cp cedar/data/* "$made/data"
cp cedar/tests/* bundle/tests/* "$made/tests"
bundle build "$root/policy-guest/cedar" --into "$made" --locked
bundle test "$made" --strict
bundle sign "$made" --key "$root/bundles/development-signing-key.json"
