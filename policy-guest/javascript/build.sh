#!/bin/sh
# Makes target/bundle of bundle/ and the component. Needs Node.js 18 or newer; the engine comes from npm, pinned by package-lock.json.
#   ./build.sh          a component of svc:policy-wasi: the engine's imports of WASI are answered by the gateway
#   ./build.sh --pure   a component of svc:policy: they are replaced by traps
set -eu
cd "$(dirname "$0")"
case "${1:-}" in
  --pure) world=policy stub=--stub-wasi ;;
  *) world=policy-wasi stub= ;;
esac
rm -rf target
mkdir target
cp -R bundle target/bundle
# Not `npm ci`: it asks for the engine's binaries of every platform, which not every registry has. The lock pins what is used.
npm install --no-save --ignore-scripts --no-audit --no-fund
# shellcheck disable=SC2086 # no word when there is nothing to stub
npx --no-install componentize-qjs --wit ../../wit --world "$world" --js policy.js --sync --opt-size $stub --output target/bundle/policy.wasm
if [ "$world" = policy ]; then
  sed -i.draft 's/svc:policy-wasi@1.x/svc:policy@1.x/' target/bundle/manifest.json
  rm target/bundle/manifest.json.draft
fi
