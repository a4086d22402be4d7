//! The other end of a connection.

use gateway_domain::ids::Hex32;
use std::net::IpAddr;

/// Who a request's connection comes from, by what the transport alone can tell. The server puts it into each request's
/// extensions; what a header says is never in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The address that the connection comes from.
    pub address: IpAddr,
    /// SHA-256 of the client certificate in DER, where TLS was ended here and the client showed one that was verified.
    pub certificate_sha256: Option<Hex32>,
}
