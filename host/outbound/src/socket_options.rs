//! Options of the TCP connections to web servers, directories and databases.
//!
//! This file prevents a connection whose far end vanished without a word, as after a failover or
//! behind a firewall that forgot the connection, from looking alive for hours: the kernel asks the
//! far end whether it is there, and gives up data that the far end does not acknowledge.

use crate::limits;
use rustix::net::sockopt;
use tokio::net::TcpStream;

/// Sets the options of a connection that was just made. A connection works without an option that
/// the kernel refuses: messages in two pieces are slower, or a dead end is noticed later.
pub(crate) fn set(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, limits::KEEPALIVE_IDLE);
    let _ = sockopt::set_tcp_keepintvl(stream, limits::KEEPALIVE_INTERVAL);
    let _ = sockopt::set_tcp_keepcnt(stream, limits::KEEPALIVE_PROBES);
    #[cfg(target_os = "linux")]
    let _ = sockopt::set_tcp_user_timeout(stream, limits::UNACKNOWLEDGED_TIME_MS);
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn a_connection_asks_whether_its_far_end_lives() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        set(&stream);
        assert!(stream.nodelay().unwrap());
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), limits::KEEPALIVE_IDLE);
        assert_eq!(sockopt::tcp_keepintvl(&stream).unwrap(), limits::KEEPALIVE_INTERVAL);
        assert_eq!(sockopt::tcp_keepcnt(&stream).unwrap(), limits::KEEPALIVE_PROBES);
        #[cfg(target_os = "linux")]
        assert_eq!(sockopt::tcp_user_timeout(&stream).unwrap(), limits::UNACKNOWLEDGED_TIME_MS);
    }
}
