#!/bin/sh
# Builds the example with cargo-component, makes a bundle of it, signs it with the development key, and runs its vectors as the
# gateway does. Installs cargo-component into target/tools if it is missing. Set OPERATION_GATEWAY to use an existing binary.
set -eu
cd "$(dirname "$0")"
root=$(cd ../../.. && pwd)
export PATH="$root/target/tools/bin:$PATH"
if ! cargo component --version >/dev/null 2>&1; then
  CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR="$root/target/tools/build" \
    cargo install --quiet --debug --locked --root "$root/target/tools" cargo-component@0.21.1
  rm -rf "$root/target/tools/build"
fi
export CARGO_TARGET_DIR="$PWD/target"
cargo component build --release --locked
bundle() {
  if [ -n "${OPERATION_GATEWAY:-}" ]; then
    "$OPERATION_GATEWAY" bundle "$@"
  else
    CARGO_TARGET_DIR="$root/target" cargo run --quiet --locked --manifest-path "$root/Cargo.toml" -p operation-gateway -- bundle "$@"
  fi
}
made=target/bundle
rm -rf "$made"
cp -R ../bundle "$made"
bundle build "$made" --component target/wasm32-wasip1/release/amount_limit.wasm
bundle sign "$made" --key "$root/bundles/development-signing-key.json"
bundle verify "$made" --trust "$root/bundles/trust-development.json"
bundle test "$made" --strict
