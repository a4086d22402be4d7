//! Connections to the real process: slow ones, many of them, encrypted ones, and those of an address apart.

mod admin;
mod flood;
mod slow;
mod stop;
mod tls;
