//! `payment-guard` as the WebAssembly component that its bundle carries.

gateway_policy_sdk::export!(payment_guard::PaymentGuard);
