#!/bin/sh
# Builds the policies in Rust and JavaScript, signs them with the development key, and runs the shared vectors, as gateways and nodes do. The policy in Cedar
# is bundles/treasury, whose engine takes minutes to build: cedar.sh builds it, and this compares its files with the sources here.
# Needs Node.js 18 or newer and Python 3. Set OPERATION_GATEWAY to use an existing binary.
set -eu
cd "$(dirname "$0")"
root=$(cd ../../.. && pwd)
bundle() {
  if [ -n "${OPERATION_GATEWAY:-}" ]; then
    "$OPERATION_GATEWAY" bundle "$@"
  else
    cargo run --quiet --release --locked --manifest-path "$root/Cargo.toml" -p operation-gateway -- bundle "$@"
  fi
}
# The bundle without its component: target/bundle in the language's folder.
lay_out() {
  rm -rf "$1/target/bundle"
  mkdir -p "$1/target/bundle"
  cp -R "$1/manifest.json" bundle/data bundle/tests "$1/target/bundle"
  cp code/tests/code.json "$1/target/bundle/tests"
}
check() {
  bundle sign "$1/target/bundle" --key "$root/bundles/development-signing-key.json"
  bundle verify "$1/target/bundle" --trust "$root/bundles/trust-development.json"
  bundle test "$1/target/bundle" --strict
}

python3 vectors.py --check
for file in bundle/tests/treasury.json cedar/tests/cedar.json cedar/data/entities.json \
  cedar/data/policies.cedar cedar/data/schema.cedarschema; do
  cmp "$file" "$root/bundles/treasury/${file#*/}"
done

lay_out rust
bundle build rust --into rust/target/bundle --locked
check rust

lay_out javascript
# Not `npm ci`: it requests the engine's binaries for every platform, which not every registry has. The lock file pins the versions.
(cd javascript &&
  npm install --no-save --ignore-scripts --no-audit --no-fund &&
  npx --no-install componentize-qjs --wit "$root/wit" --world policy-wasi --js policy.js --sync --opt-size \
    --output target/bundle/policy.wasm)
bundle complete javascript/target/bundle
check javascript
