//! A server on one of the databases, as an operator runs it: a configuration file, a static seal,
//! an audit file and policies.

use crate::load::{AnswerLengths, Target};
use bulkhead_tests::paths::{Folder, binary};
use bulkhead_tests::{Bulkhead, static_seal};
use serde_json::json;
use std::net::{SocketAddr, TcpListener};

/// The role that is read.
pub const ROLE: &str = "database/roles/reader";
/// The secret that is read and written.
pub const SECRET: &str = "kv/orders";

const CREATION: &str =
    r#"CREATE ROLE "{{name}}" LOGIN PASSWORD '{{password}}' VALID UNTIL '{{expiration}}'"#;

/// A server with a role, a secret, and a socket of this program.
pub struct StorageServer {
    pub server: Bulkhead,
    pub address: SocketAddr,
    /// Root token.
    pub root: String,
    /// Token that may read the role, and read and write the secret.
    pub caller: String,
    _socket: TcpListener,
}

impl StorageServer {
    /// Starts and initialises a server. `storage` is its block of the configuration.
    pub fn start(data: Folder, storage: &str) -> Self {
        let file = data.path().join("bulkhead.hcl");
        let text = format!(
            "listener \"tcp\" {{ address = \"127.0.0.1:0\" }}\n{storage}\n\
             audit \"file\" \"main\" {{ path = {log:?} }}\n{seal}",
            log = data.path().join("audit.log"),
            seal = static_seal::block(data.path(), &["key"]),
        );
        std::fs::write(&file, text).expect("a file can be written");
        let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = socket.local_addr().expect("a bound socket");
        let mut server = Bulkhead::prepared(binary(), data).configured(file).activated_by(&socket);
        server.start_again();
        let body = json!({ "recovery_shares": 1, "recovery_threshold": 1 });
        let answer = server.client(None).write("sys/init", &body).expect(200);
        let root = answer.body["root_token"].as_str().expect("a token").to_owned();
        let caller = configure(&server, &root);
        Self { server, address, root, caller, _socket: socket }
    }

    /// Returns this server as the target of a load.
    pub fn target(&self, request: Vec<u8>, lengths: AnswerLengths) -> Target {
        Target { address: self.address, pid: self.server.pid(), request, lengths }
    }
}

/// Writes the role and the secret, and returns a token for the two.
fn configure(server: &Bulkhead, root: &str) -> String {
    let root = server.client(Some(root));
    for engine in ["database", "kv"] {
        root.write(&format!("sys/mounts/{engine}"), &json!({ "type": engine })).expect(204);
    }
    let role =
        json!({ "db_name": "orders", "creation_statements": [CREATION], "default_ttl": "1h" });
    assert!(root.write(ROLE, &role).status < 300);
    root.write(SECRET, &json!({ "password": "correct horse" })).expect(204);
    let rules = format!(
        "path \"{ROLE}\" {{ capabilities = [\"read\"] }}\n\
         path \"{SECRET}\" {{ capabilities = [\"read\", \"create\", \"update\"] }}"
    );
    root.write("sys/policies/acl/caller", &json!({ "policy": rules })).expect(204);
    let token = json!({ "policies": ["caller"], "ttl": "24h" });
    let answer = root.write("auth/token/create", &token).expect(200);
    let token = answer.body["auth"]["client_token"].as_str().expect("a token").to_owned();
    let caller = server.client(Some(&token));
    caller.read(ROLE).expect(200);
    caller.read(SECRET).expect(200);
    caller.read("kv/other").expect(403);
    token
}
