//! A TCP proxy that delays what passes through it, in each direction.

use super::link::forward;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// Starts a proxy in front of a port of 127.0.0.1, and returns its own port. It runs until the test's process ends.
pub(crate) fn delaying_proxy(port: u16, delay: Duration) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    forward(listener, port, move |_, from, to| copy(from, to, delay));
    own
}

/// Copies in the background: each piece is written `delay` after it was read.
fn copy(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let (sender, pieces) = channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        for (due, piece) in pieces {
            // The delay itself.
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&piece).is_err() {
                break;
            }
        }
        let _already_closed = to.shutdown(Shutdown::Write);
    });
    thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(n @ 1..) = from.read(&mut buffer) {
            if sender.send((Instant::now() + delay, buffer[..n].to_vec())).is_err() {
                break;
            }
        }
    });
}
