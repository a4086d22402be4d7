//! Ports reserved for servers that cannot use port 0.

use std::net::SocketAddr;
use tokio::net::TcpSocket;

/// A port of 127.0.0.1, reserved until this is dropped.
///
/// The socket is bound and does not listen: connections are refused, and Linux gives the port neither to a bind of port 0 nor to
/// an outgoing connection. A server that sets `SO_REUSEADDR`, as nginx and Node.js do, can still bind it and listen.
pub(crate) struct Port {
    _bound: TcpSocket,
    pub(crate) address: SocketAddr,
}

impl Port {
    pub(crate) fn reserve() -> Self {
        let bound = TcpSocket::new_v4().unwrap();
        bound.set_reuseaddr(true).unwrap();
        bound.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = bound.local_addr().unwrap();
        Self { _bound: bound, address }
    }
}
