#!/bin/sh
# Builds the policy components into policy-guest/target. The bytes do not depend on the machine or the folder:
# own lock, one compiler version (rust-toolchain.toml), and no local path in the output.
# Needs cargo-component 0.21.1: cargo install --locked cargo-component@0.21.1
set -eu
cd "$(dirname "$0")"
here=$(pwd)
registry=${CARGO_HOME:-$HOME/.cargo}
separator=$(printf '\037')
# These flags take the place of .cargo/config.toml's, so they repeat them.
CARGO_ENCODED_RUSTFLAGS="-Clink-arg=-zstack-size=16384${separator}-Clink-arg=--initial-memory=65536"
CARGO_ENCODED_RUSTFLAGS="$CARGO_ENCODED_RUSTFLAGS${separator}--remap-path-prefix=$here=/policy-guest"
CARGO_ENCODED_RUSTFLAGS="$CARGO_ENCODED_RUSTFLAGS${separator}--remap-path-prefix=$registry=/cargo"
export CARGO_ENCODED_RUSTFLAGS
export CARGO_TARGET_DIR="$here/target"
exec cargo component build --locked --release --target wasm32-unknown-unknown "$@"
