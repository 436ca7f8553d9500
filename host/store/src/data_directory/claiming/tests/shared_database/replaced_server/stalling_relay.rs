//! A relay before a server, whose connections a test stalls, or whose server a test replaces.
//!
//! This file prevents tests of dead connections that depend on a firewall: a stalled connection
//! stays open and carries nothing, as after the loss of a host.

use std::sync::Arc;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The relay. Its tasks end with the runtime of the test.
pub(super) struct StallingRelay {
    pub(super) port: u16,
    route: Arc<watch::Sender<Route>>,
}

/// The server of new connections. A connection of an earlier number is dead.
#[derive(Clone, Debug)]
struct Route {
    server: String,
    number: u64,
    /// Dead connections stay open.
    is_silent: bool,
}

impl StallingRelay {
    /// Starts the relay to the server at `port`.
    pub(super) async fn start(port: &str) -> StallingRelay {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap().port();
        let route = Route { server: format!("127.0.0.1:{port}"), number: 0, is_silent: false };
        let route = Arc::new(watch::Sender::new(route));
        tokio::spawn({
            let route = Arc::clone(&route);
            async move {
                loop {
                    let (client, _) = listener.accept().await.unwrap();
                    tokio::spawn(pass(client, route.subscribe()));
                }
            }
        });
        StallingRelay { port: own, route }
    }

    /// Lets the present connections carry nothing from now on. New connections pass.
    pub(super) fn stall(&self) {
        self.route.send_modify(|route| (route.number, route.is_silent) = (route.number + 1, true));
    }

    /// Ends the present connections, and leads new ones to the server at `port`.
    pub(super) fn redirect(&self, port: u16) {
        self.route.send_modify(|route| {
            (route.number, route.is_silent) = (route.number + 1, false);
            route.server = format!("127.0.0.1:{port}");
        });
    }
}

async fn pass(mut client: TcpStream, mut route: watch::Receiver<Route>) {
    let begun = route.borrow_and_update().clone();
    let mut server = TcpStream::connect(&begun.server).await.unwrap();
    tokio::select! {
        ended = copy_bidirectional(&mut client, &mut server) => drop(ended),
        changed = route.changed() => {
            let is_silent = changed.is_ok() && route.borrow().is_silent;
            if is_silent {
                std::future::pending::<()>().await;
            }
        }
    }
}
