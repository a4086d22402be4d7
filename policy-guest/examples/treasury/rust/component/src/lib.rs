//! `treasury` as the WebAssembly component of its bundle.

gateway_policy_sdk::export!(treasury::Treasury);
