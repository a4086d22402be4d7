#!/bin/sh
# Builds the Cedar engine as a policy component into policy-guest/cedar/target. The bytes depend neither on the machine nor on
# the folder. Needs cargo-component 0.21.1: cargo install --locked cargo-component@0.21.1
set -eu
cd "$(dirname "$0")"
here=$(pwd)
guests=$(cd .. && pwd)
registry=${CARGO_HOME:-$HOME/.cargo}
separator=$(printf '\037')
# These flags replace those in .cargo/config.toml, so they repeat them.
CARGO_ENCODED_RUSTFLAGS="-Clink-arg=-zstack-size=262144${separator}-Clink-arg=--initial-memory=4194304"
CARGO_ENCODED_RUSTFLAGS="$CARGO_ENCODED_RUSTFLAGS${separator}--remap-path-prefix=$guests=/policy-guest"
CARGO_ENCODED_RUSTFLAGS="$CARGO_ENCODED_RUSTFLAGS${separator}--remap-path-prefix=$registry=/cargo"
export CARGO_ENCODED_RUSTFLAGS
export CARGO_TARGET_DIR="$here/target"
exec cargo component build --locked --release --target wasm32-unknown-unknown -p cedar-guest-component "$@"
