//! Ports for servers that must be told one, and for nobody.

use std::net::SocketAddr;
use tokio::net::TcpSocket;

/// A port of 127.0.0.1 that is nobody else's for as long as this lives.
///
/// It is bound and never listened on. Linux gives it to nobody who asks for any port, nor to a connection's near end. A server
/// that is told this very one may bind it beside us if it sets `SO_REUSEADDR`, as nginx and Node.js do, and bind it again when
/// it is started anew. Meanwhile connections are refused.
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
