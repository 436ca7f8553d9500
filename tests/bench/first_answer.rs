//! The time from the start of a killed server to its first answer.

use bulkhead_tests::Bulkhead;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// Kills and starts the server. Returns the time from the start of the process to the answer of a
/// client that has sent its request before, to a socket that the bench keeps at `address`. Fails if
/// the answer is not a success.
pub fn after_kill(server: &mut Bulkhead, address: SocketAddr, request: &[u8]) -> Duration {
    server.kill();
    let mut stream = TcpStream::connect(address).expect("the socket listens");
    stream.write_all(request).expect("the system queues the request");
    let began = Instant::now();
    let reading = thread::spawn(move || {
        let mut status = [0; 13];
        stream.read_exact(&mut status).expect("an answer");
        let answered = Instant::now();
        assert_eq!(&status, b"HTTP/1.1 200 ", "{}", String::from_utf8_lossy(&status));
        answered
    });
    server.start_again();
    reading.join().expect("the read is answered").duration_since(began)
}
