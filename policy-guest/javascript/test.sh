#!/bin/sh
# Builds the example, completes the bundle, signs it with the development key, and runs its vectors as the gateway does.
# Set OPERATION_GATEWAY to use an existing binary.
set -eu
cd "$(dirname "$0")"
./build.sh
cd ../..
bundle() {
  if [ -n "${OPERATION_GATEWAY:-}" ]; then
    "$OPERATION_GATEWAY" bundle "$@"
  else
    cargo run --quiet --release --locked -p operation-gateway -- bundle "$@"
  fi
}
made=policy-guest/javascript/target/bundle
bundle complete "$made"
bundle sign "$made" --key bundles/development-signing-key.json
bundle verify "$made" --trust bundles/trust-development.json
bundle test "$made" --strict
