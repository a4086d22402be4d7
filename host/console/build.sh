#!/usr/bin/env bash
# Compiles host/browser for WebAssembly and puts it into the page:
#   host/console/build.sh            writes host/console/page/checks.wasm
#   host/console/build.sh --check    fails if that file is not what the sources give
# The same sources give the same bytes in every folder: the paths of the machine are replaced.
set -euo pipefail
cd "$(dirname "$0")/../.."
page=host/console/page/checks.wasm
target=${CHECKS_TARGET_DIR:-target/checks}
sysroot=$(rustc --print sysroot)
commit=$(rustc --version --verbose | sed -n 's/^commit-hash: //p')
separator=$'\x1f'
flags="--remap-path-prefix=$sysroot/lib/rustlib/src/rust=/rustc/$commit"
flags+="$separator--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
flags+="$separator--remap-path-prefix=$PWD=/operation-gateway"
env -u RUSTFLAGS -u CARGO_BUILD_RUSTFLAGS RUSTC_WRAPPER= CARGO_ENCODED_RUSTFLAGS="$flags" CARGO_INCREMENTAL=0 \
  cargo build --quiet --locked --package gateway-browser --profile browser --target wasm32-wasip1 --target-dir "$target"
built=$target/wasm32-wasip1/browser/gateway-browser.wasm
if [ "${1:-}" = --check ]; then
  cmp "$built" "$page" || { echo "$page is not what the sources give: run host/console/build.sh" >&2; exit 1; }
else
  cp "$built" "$page"
  chmod 644 "$page"
fi
