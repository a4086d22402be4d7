//! Reserved ports for servers that cannot choose a free one.

use std::net::SocketAddr;
use tokio::net::TcpSocket;

/// A port of 127.0.0.1, reserved as long as this lives.
///
/// It is bound and never listened on. Linux assigns it neither to a bind of port 0 nor to an outgoing connection. A server with
/// this port in its configuration can bind it too if it sets `SO_REUSEADDR`, as nginx and Node.js do, and bind it again after a
/// restart. Meanwhile connections are refused.
pub(crate) struct Port {
    _bound: TcpSocket,
    pub(crate) address: SocketAddr,
}

impl Port {
    pub(crate) fn held() -> Self {
        let bound = TcpSocket::new_v4().unwrap();
        bound.set_reuseaddr(true).unwrap();
        bound.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = bound.local_addr().unwrap();
        Self { _bound: bound, address }
    }
}
