#!/bin/sh
# Makes target/bundle of bundle/ and the component. Needs Node.js 18 or newer; the engine comes from npm, pinned by package-lock.json.
set -eu
cd "$(dirname "$0")"
rm -rf target
mkdir target
cp -R bundle target/bundle
# Not `npm ci`: it asks for the engine's binaries of every platform, which not every registry has. The lock pins what is used.
npm install --no-save --ignore-scripts --no-audit --no-fund
npx --no-install componentize-qjs --wit ../../wit --world policy-wasi --js policy.js --sync --opt-size \
  --output target/bundle/policy.wasm
