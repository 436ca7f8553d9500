//! The internet as a server behind a proxy sees it: an HTTP proxy on loopback that ends TLS for
//! named hosts itself, with certificates of the suite's own authority, and hands each request to
//! the site of that name. Nothing is resolved, and nothing leaves this machine.
//!
//! ```no_run
//! use bulkhead_tests::internet::{Fault, Internet, Response};
//! use serde_json::json;
//!
//! let internet = Internet::start();
//! internet.serve("api.example", |request| Response::json(200, &json!({ "path": request.path })));
//! internet.fail("api.example", "/slow", Fault::Status(503), 2); // the next two requests there
//! let online = internet.server(""); // a server whose outbound block leads here, open
//! online.root.write("sys/auth/azure", &json!({ "type": "azure" })).expect(204);
//! assert!(internet.asked("api.example").is_empty());
//! ```

mod fault;
pub mod message;
mod online;
mod proxy;

pub use fault::Fault;
pub use message::{Request, Response};
pub use online::{Online, secret_file};

use fault::Faults;
use proxy::Authority;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::runtime::Runtime;

/// What answers for a host.
pub type Site = Arc<dyn Fn(&Request) -> Response + Send + Sync>;

/// The internet of one test.
pub struct Internet {
    /// Where the proxy listens.
    pub address: SocketAddr,
    world: Arc<World>,
    /// Ends with the test, and all connections with it.
    _runtime: Runtime,
}

/// What the proxy knows.
struct World {
    authority: Authority,
    sites: Mutex<BTreeMap<String, Site>>,
    faults: Faults,
    /// What the proxy wants to be shown, as `user:password`.
    credentials: Mutex<Option<String>>,
    /// Every `CONNECT`, as `host:port`.
    tunnels: Mutex<Vec<String>>,
    requests: Mutex<Vec<Request>>,
}

impl Internet {
    /// One without a site.
    pub fn start() -> Self {
        let world = Arc::new(World {
            authority: Authority::new(),
            sites: Mutex::default(),
            faults: Faults::default(),
            credentials: Mutex::default(),
            tunnels: Mutex::default(),
            requests: Mutex::default(),
        });
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("threads");
        let listener =
            runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let address = listener.local_addr().expect("a port of ours");
        runtime.spawn(proxy::serve(listener, Arc::clone(&world)));
        Self { address, world, _runtime: runtime }
    }

    /// Lets `site` answer for `host`, by https on port 443 and in the clear on any. The second site
    /// of a name takes the place of the first.
    pub fn serve(&self, host: &str, site: impl Fn(&Request) -> Response + Send + Sync + 'static) {
        held(&self.world.sites).insert(host.to_owned(), Arc::new(site));
    }

    /// Takes a host away: the proxy answers 502 for it.
    pub fn unplug(&self, host: &str) {
        held(&self.world.sites).remove(host);
    }

    /// Lets the next `times` requests to `host` whose path begins with `path` meet that fault. Of
    /// several that fit, the one that was told first counts, until it is used up.
    pub fn fail(&self, host: &str, path: &str, fault: Fault, times: usize) {
        self.world.faults.add(host, path, fault, times);
    }

    /// Forgets all faults.
    pub fn heal(&self) {
        self.world.faults.clear();
    }

    /// Lets the proxy want to be shown `user:password`.
    pub fn want_credentials(&self, credentials: &str) {
        *held(&self.world.credentials) = Some(credentials.to_owned());
    }

    /// The URL of the proxy.
    pub fn proxy(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The authority of all certificates, in PEM.
    pub fn authority(&self) -> &str {
        self.world.authority.pem()
    }

    /// The hosts and ports that the proxy was asked to connect to, since it began.
    pub fn tunnels(&self) -> Vec<String> {
        held(&self.world.tunnels).clone()
    }

    /// Every request of which the whole arrived, since it began, whatever was answered.
    pub fn requests(&self) -> Vec<Request> {
        held(&self.world.requests).clone()
    }

    /// Those to one host.
    pub fn asked(&self, host: &str) -> Vec<Request> {
        self.requests().into_iter().filter(|request| request.host == host).collect()
    }

    /// Forgets what was asked so far.
    pub fn forget(&self) {
        held(&self.world.tunnels).clear();
        held(&self.world.requests).clear();
    }
}

impl World {
    fn site(&self, host: &str) -> Option<Site> {
        held(&self.sites).get(host).cloned()
    }
}

/// The lock, also where a test's thread panicked with it: what it guards is whole at any time.
pub(crate) fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
