//! A proxy before the PostgreSQL server of the tests that loses the answer to a commit.
//!
//! This file prevents tests of unknown outcomes that depend on the moment at which a session ends:
//! the commit is stored once the proxy has read the answer, and the client learns of nothing before
//! the cut.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::PostgresPlace;
use bulkhead_place::postgres_place::PostgresServer;

/// The proxy. Its tasks end with the runtime of the test.
pub(crate) struct AnswerGate {
    port: u16,
    signals: Arc<GateSignals>,
}

#[derive(Default)]
struct GateSignals {
    /// The answer to the next commit is withheld.
    is_armed: AtomicBool,
    withheld: Notify,
    cut: Notify,
}

impl AnswerGate {
    /// Starts the proxy.
    pub(crate) async fn start() -> AnswerGate {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let signals = Arc::<GateSignals>::default();
        let server = format!("127.0.0.1:{}", bulkhead_test_database::port());
        tokio::spawn({
            let signals = Arc::clone(&signals);
            async move {
                loop {
                    let (client, _) = listener.accept().await.unwrap();
                    let server = TcpStream::connect(&server).await.unwrap();
                    forward(client, server, &signals);
                }
            }
        });
        AnswerGate { port, signals }
    }

    /// Returns `place` behind the proxy.
    pub(crate) fn before(&self, place: &PostgresPlace) -> PostgresPlace {
        let server = PostgresServer { host: "127.0.0.1".to_owned(), port: self.port };
        PostgresPlace { servers: vec![server], ..place.clone() }
    }

    /// Withholds the answer to the next commit.
    pub(crate) fn arm(&self) {
        self.signals.is_armed.store(true, Ordering::SeqCst);
    }

    /// Waits until the server has answered the commit.
    pub(crate) async fn withheld(&self) {
        self.signals.withheld.notified().await;
    }

    /// Ends the connection with the withheld answer.
    pub(crate) fn cut(&self) {
        self.signals.cut.notify_one();
    }
}

fn forward(client: TcpStream, server: TcpStream, signals: &Arc<GateSignals>) {
    let (client_reader, client_writer) = client.into_split();
    let (server_reader, server_writer) = server.into_split();
    let is_withholding = Arc::new(AtomicBool::new(false));
    let (up, down) = (Arc::clone(signals), Arc::clone(signals));
    tokio::spawn(forward_up((client_reader, server_writer), up, Arc::clone(&is_withholding)));
    tokio::spawn(forward_down((server_reader, client_writer), down, is_withholding));
}

async fn forward_up(
    (mut client, mut server): (OwnedReadHalf, OwnedWriteHalf),
    signals: Arc<GateSignals>,
    is_withholding: Arc<AtomicBool>,
) {
    let mut buffer = [0; 1 << 16];
    while let Ok(length @ 1..) = client.read(&mut buffer).await {
        let sent = &buffer[..length];
        let commits = sent.windows(6).any(|word| word == b"COMMIT");
        if commits && signals.is_armed.swap(false, Ordering::SeqCst) {
            is_withholding.store(true, Ordering::SeqCst);
        }
        if server.write_all(sent).await.is_err() {
            return;
        }
    }
}

async fn forward_down(
    (mut server, mut client): (OwnedReadHalf, OwnedWriteHalf),
    signals: Arc<GateSignals>,
    is_withholding: Arc<AtomicBool>,
) {
    let mut buffer = [0; 1 << 16];
    while let Ok(length @ 1..) = server.read(&mut buffer).await {
        if is_withholding.load(Ordering::SeqCst) {
            signals.withheld.notify_one();
            signals.cut.notified().await;
            return;
        }
        if client.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
