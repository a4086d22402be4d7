#!/bin/sh
# Builds a bundle's component from the sources in this folder, and completes its manifest:
#   policy-guest/build.sh BUNDLE [GUEST]      GUEST is the folder of the sources, if its name is not BUNDLE
set -eu
cd "$(dirname "$0")/.."
exec cargo run --quiet --locked --package operation-gateway -- \
  bundle build "policy-guest/${2:-$1}" --into "bundles/$1" --locked
