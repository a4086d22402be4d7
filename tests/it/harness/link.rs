//! A TCP proxy as a network link that can be cut. Bytes that are sent meanwhile arrive when it is up again, as after a retransmission.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// Whether each direction is up.
#[derive(Clone, Default)]
pub(crate) struct Link(Arc<[(Mutex<bool>, Condvar); 2]>);

/// The directions of a link.
#[derive(Clone, Copy)]
pub(crate) enum Direction {
    ToServer,
    ToClient,
}

impl Link {
    /// Starts a proxy in front of a port of 127.0.0.1, and returns its own port. It runs until the test's process ends.
    pub(crate) fn open(port: u16) -> (Self, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap().port();
        (Self::open_at(listener, port), own)
    }

    /// As [`Self::open`], at a port of the caller's choice.
    pub(crate) fn open_at(listener: TcpListener, port: u16) -> Self {
        let link = Self::default();
        link.up();
        let accepting = link.clone();
        forward(listener, port, move |direction, from, to| accepting.copy(direction, from, to));
        link
    }

    /// Holds back all bytes in this direction.
    pub(crate) fn cut(&self, direction: Direction) {
        self.set(direction, false);
    }

    /// Delivers what was held back, and everything after it.
    pub(crate) fn up(&self) {
        self.set(Direction::ToServer, true);
        self.set(Direction::ToClient, true);
    }

    fn set(&self, direction: Direction, is_up: bool) {
        let (state, changed) = &self.0[direction as usize];
        *state.lock().unwrap() = is_up;
        changed.notify_all();
    }

    /// Copies in the background, while the direction is up.
    fn copy(&self, direction: Direction, mut from: TcpStream, mut to: TcpStream) {
        let link = self.clone();
        thread::spawn(move || {
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(n @ 1..) = from.read(&mut buffer) {
                let (state, changed) = &link.0[direction as usize];
                let is_down = |is_up: &mut bool| !*is_up;
                drop(changed.wait_while(state.lock().unwrap(), is_down).unwrap());
                if to.write_all(&buffer[..n]).is_err() {
                    break;
                }
            }
            let _already_closed = to.shutdown(Shutdown::Write);
        });
    }
}

/// Connects each connection of the listener to a port of 127.0.0.1, and has `copy` carry the bytes of each direction.
pub(super) fn forward(
    listener: TcpListener,
    port: u16,
    copy: impl Fn(Direction, TcpStream, TcpStream) + Send + 'static,
) {
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { continue };
            for stream in [&client, &server] {
                stream.set_nodelay(true).unwrap();
            }
            copy(Direction::ToServer, client.try_clone().unwrap(), server.try_clone().unwrap());
            copy(Direction::ToClient, server, client);
        }
    });
}
