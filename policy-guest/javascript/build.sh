#!/bin/sh
# Builds the component and writes it, with the files of bundle/, to target/bundle. Needs Node.js 18 or newer. The engine comes from
# npm, pinned by package-lock.json.
set -eu
cd "$(dirname "$0")"
rm -rf target
mkdir target
cp -R bundle target/bundle
# Not `npm ci`: it requests the engine's binaries for every platform, which not every registry has. The lock file pins the versions.
npm install --no-save --ignore-scripts --no-audit --no-fund
npx --no-install componentize-qjs --wit ../../wit --world policy-wasi --js policy.js --sync --opt-size \
  --output target/bundle/policy.wasm
