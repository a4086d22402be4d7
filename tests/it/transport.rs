//! Connections to the real process: deadlines, limits, TLS, stopping, and the separate admin address.

mod admin;
mod flood;
mod slow;
mod stop;
mod tls;
