#!/bin/sh
# Builds a bundle's component from its sources here, and completes its manifest: policy-guest/build.sh payment-guard
set -eu
cd "$(dirname "$0")/.."
exec cargo run --quiet --locked --package operation-gateway -- \
  bundle build "policy-guest/$1" --into "bundles/$1" --locked
