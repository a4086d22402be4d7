#!/bin/sh
# Builds the example, signs it with the development key, and runs its vectors in the gateway's policy host.
set -eu
cd "$(dirname "$0")"
./build.sh
cd ../..
exec cargo run --release -p gateway-policy --example pack -- \
  policy-guest/javascript/target/bundle bundles/development-signing-key.json
