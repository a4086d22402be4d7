//! Connections to the real process: slow ones, many of them, TLS, and the separate admin address.

mod admin;
mod flood;
mod slow;
mod stop;
mod tls;
