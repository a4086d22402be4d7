# To be sourced by scripts that need a running gateway, in the repository's root. OPERATION_GATEWAY: the binary; by default the one
# that the tests built. The sourcing script has a function `die MESSAGE`.

# start_gateway OPTION…: starts the gateway on a free port with an empty store, and sets $base, $gateway_id, $log and $settings. It
# stops when the script exits.
start_gateway() {
  gateway="${OPERATION_GATEWAY:-${CARGO_TARGET_DIR:-target}/debug/gateway-under-test}"
  local deadline=$((SECONDS + 60))
  [ -x "$gateway" ] || die "gateway not found at $gateway: run ./scripts/test first, or cargo build -p gateway-tests"
  folder=$(mktemp -d)
  log="$folder/log"
  trap stop_gateway EXIT
  settings=(--database-url="sqlite://$folder/gateway.db" --node-directory="$folder/nodes"
    --authority-key="$folder/authority.key" --log-key="$folder/log.key")
  # Without the rate limit, which would refuse most requests at this speed.
  "$gateway" --bind=127.0.0.1:0 --log-format=json --admission-rate=0 "${settings[@]}" "$@" </dev/null >/dev/null 2>"$log" &
  gateway_id=$!
  until base=$(sed -n 's/.*operation-gateway listens.*"address":"\([^"]*\)".*/\1/p; s/.*"address":"\([^"]*\)".*operation-gateway listens.*/\1/p' "$log") && [ -n "$base" ]; do
    kill -0 "$gateway_id" 2>/dev/null || { cat "$log" >&2; die "the gateway did not start"; }
    [ "$SECONDS" -lt "$deadline" ] || die "the gateway does not listen"
    sleep 0.1
  done
  base="http://$base"
}

# Prints the roots with which a reader verifies this gateway's evidence.
print_roots() { "$gateway" evidence roots "${settings[@]}"; }

# Fails if the gateway stopped or logged an internal error.
check_gateway() {
  kill -0 "$gateway_id" 2>/dev/null || { tail -n 20 "$log" >&2; die "the gateway stopped unexpectedly"; }
  if grep -E 'panicked|"internal error"' "$log" >&2; then die "the gateway logged an internal error"; fi
}

stop_gateway() {
  kill "$gateway_id" 2>/dev/null || true
  wait "$gateway_id" 2>/dev/null || true
  rm -rf "$folder"
}
