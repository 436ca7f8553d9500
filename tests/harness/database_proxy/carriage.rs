//! A connection through the proxy, from its start to its end.

use super::cut::CutPlace;
use super::message::read_message;
use super::{ConnectionEnd, Direction, ProxyState};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Longest pause between messages that were sent together.
const TOGETHER: Duration = Duration::from_millis(5);

/// Carries the messages of a connection until a side, the test or a cut ends the connection.
pub(super) async fn carry(state: &ProxyState, mut client: TcpStream, mut server: TcpStream) {
    drop((client.set_nodelay(true), server.set_nodelay(true)));
    let mut ends = state.ends.subscribe();
    let end = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        tokio::select! {
            () = pump(state, Direction::ToServer, from_client, to_server) => ConnectionEnd::Close,
            () = pump(state, Direction::ToClient, from_server, to_client) => ConnectionEnd::Close,
            // The sender lives as long as the state.
            _ = ends.changed() => ends.borrow().1,
        }
    };
    if end == ConnectionEnd::Reset {
        drop((client.set_zero_linger(), server.set_zero_linger()));
    } else {
        // Both sides get everything that was sent before the end.
        drop((client.shutdown().await, server.shutdown().await));
    }
}

/// Carries the messages of one direction. Returns at the end of the stream and at a cut.
async fn pump(
    state: &ProxyState,
    direction: Direction,
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
) {
    let mut rules = state.rules.subscribe();
    // The first message of a client has no type.
    let mut has_type = direction == Direction::ToClient;
    let mut carried_at: Option<Instant> = None;
    while let Ok(message) = read_message(&mut from, has_type).await {
        has_type = true;
        let delay = rules.borrow().delay;
        if carried_at.is_none_or(|carried_at| carried_at.elapsed() > TOGETHER) {
            tokio::time::sleep(delay).await;
        }
        if rules.wait_for(|rules| !rules.stalls(direction)).await.is_err() {
            return;
        }
        let cut = state.cut.place_for(direction, &message);
        let length = match cut {
            Some(CutPlace::Before) => 0,
            Some(CutPlace::Within) => message.len() / 2,
            Some(CutPlace::After) | None => message.len(),
        };
        if to.write_all(&message[..length]).await.is_err() || cut.is_some() {
            return;
        }
        carried_at = Some(Instant::now());
    }
}
