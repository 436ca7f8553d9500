//! Dialling of checked addresses.

use super::fault::HttpFault;
use crate::limits;
use crate::socket_options;
use std::net::SocketAddr;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Connects to the first address that answers. All addresses share a single connect timeout.
pub(super) async fn dial(addresses: &[SocketAddr]) -> Result<TcpStream, HttpFault> {
    let tries = u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let mut last = HttpFault::Unknown;
    for address in addresses {
        match timeout(limits::HTTP_CONNECT_TIME / tries, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                socket_options::set(&stream);
                return Ok(stream);
            }
            Ok(Err(error)) => last = HttpFault::Broken(error.kind()),
            Err(_) => last = HttpFault::TimedOut,
        }
    }
    Err(last)
}
