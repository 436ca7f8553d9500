//! The internet behind a proxy: an HTTP proxy on loopback that ends TLS for named hosts, with
//! certificates of the suite's own authority, and passes each request to the site of that name. The
//! proxy resolves no names, and nothing leaves this machine.
//!
//! ```no_run
//! use bulkhead_tests::internet::{Fault, Internet, Response};
//! use serde_json::json;
//!
//! let internet = Internet::start();
//! internet.serve("api.example", |request| Response::json(200, &json!({ "path": request.path })));
//! internet.fail("api.example", "/slow", Fault::Status(503), 2); // the next two requests there
//! let online = internet.server(""); // an unsealed server that uses this proxy
//! online.root.write("sys/auth/azure", &json!({ "type": "azure" })).expect(204);
//! assert!(internet.asked("api.example").is_empty());
//! ```

pub(crate) mod fault;
pub mod message;
mod online;
pub(crate) mod proxy;

pub use fault::Fault;
pub use message::{Request, Response};
pub use online::{Online, secret_file};

use fault::Faults;
use proxy::SiteAuthority;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::runtime::Runtime;

pub type Site = Arc<dyn Fn(&Request) -> Response + Send + Sync>;

pub struct Internet {
    pub address: SocketAddr,
    world: Arc<SimulatedSites>,
    /// Runs the proxy. All connections end with the runtime.
    _runtime: Runtime,
}

struct SimulatedSites {
    authority: SiteAuthority,
    sites: Mutex<BTreeMap<String, Site>>,
    faults: Faults,
    /// Credentials that the proxy requires, as `user:password`.
    credentials: Mutex<Option<String>>,
    /// Target of every `CONNECT`, as `host:port`.
    tunnels: Mutex<Vec<String>>,
    requests: Mutex<Vec<Request>>,
}

impl Internet {
    /// Starts an internet without a site.
    pub fn start() -> Self {
        let world = Arc::new(SimulatedSites {
            authority: SiteAuthority::new(),
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

    /// Adds `site` for `host`: by HTTPS on port 443, and by plain HTTP on any port. Replaces a
    /// previous site of this host.
    pub fn serve(&self, host: &str, site: impl Fn(&Request) -> Response + Send + Sync + 'static) {
        held(&self.world.sites).insert(host.to_owned(), Arc::new(site));
    }

    /// Removes a host: the proxy answers 502 for this host.
    pub fn unplug(&self, host: &str) {
        held(&self.world.sites).remove(host);
    }

    /// Injects a fault into the next `times` requests to `host` whose path begins with `path`. If
    /// several faults match, the oldest applies first.
    pub fn fail(&self, host: &str, path: &str, fault: Fault, times: usize) {
        self.world.faults.add(host, path, fault, times);
    }

    pub fn heal(&self) {
        self.world.faults.clear();
    }

    /// Makes the proxy require these credentials (`user:password`).
    pub fn want_credentials(&self, credentials: &str) {
        *held(&self.world.credentials) = Some(credentials.to_owned());
    }

    pub fn proxy(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn authority(&self) -> &str {
        self.world.authority.pem()
    }

    /// Returns the targets of all `CONNECT` requests.
    pub fn tunnels(&self) -> Vec<String> {
        held(&self.world.tunnels).clone()
    }

    /// Returns every request that arrived completely.
    pub fn requests(&self) -> Vec<Request> {
        held(&self.world.requests).clone()
    }

    /// Returns the requests to one host.
    pub fn asked(&self, host: &str) -> Vec<Request> {
        self.requests().into_iter().filter(|request| request.host == host).collect()
    }

    /// Forgets all recorded requests and tunnels.
    pub fn forget(&self) {
        held(&self.world.tunnels).clear();
        held(&self.world.requests).clear();
    }
}

impl SimulatedSites {
    fn site(&self, host: &str) -> Option<Site> {
        held(&self.sites).get(host).cloned()
    }
}

/// Takes a lock that a panicking test thread may have poisoned. The guarded data is valid at any
/// time.
pub(crate) fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
