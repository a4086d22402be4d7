//! `example-policy` as the WebAssembly component that its bundle carries.

gateway_policy_sdk::export!(example_policy::ExamplePolicy);
