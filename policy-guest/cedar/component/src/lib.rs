//! `cedar-guest` as the WebAssembly component that a bundle of Cedar policies carries.

gateway_policy_sdk::export!(cedar_guest::CedarGuest);
