//! Requests that several clients send at the same moment.

use crate::client::Client;
use std::thread;

/// Calls `send` with each client at the same moment, `times` times, and with the number of the
/// call. Returns the results in the order of the calls.
pub fn at_once<T: Send>(
    clients: &[Client],
    times: usize,
    send: impl Fn(&Client, usize) -> T + Sync,
) -> Vec<T> {
    let calls = clients.iter().cycle().take(clients.len() * times).enumerate();
    thread::scope(|scope| {
        let send = &send;
        let start = |(number, client)| scope.spawn(move || send(client, number));
        let started: Vec<_> = calls.map(start).collect();
        started.into_iter().map(|call| call.join().expect("a client ends")).collect()
    })
}
