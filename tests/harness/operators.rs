//! A server as its operators run it: sealed at each start, opened with the keys that its
//! initialisation gave.

use crate::bulkhead::Bulkhead;
use crate::client::{Answer, Client};
use crate::paths::{Folder, binary};
use serde_json::{Value, json};

/// What the operators of an initialised server know.
pub struct Operators {
    /// The shares of the unseal key, in hexadecimal, as they were given.
    pub keys: Vec<String>,
    /// How many of them open the server.
    pub threshold: usize,
    /// The root token.
    pub token: String,
}

/// A server without dev mode on an empty data folder: not initialised.
pub fn uninitialised() -> Bulkhead {
    let mut server = Bulkhead::prepared(binary(), Folder::new("sealed")).in_production();
    server.start_again();
    server
}

/// A server with so many shares, of which so many open it. Sealed.
#[track_caller]
pub fn sealed(shares: usize, threshold: usize) -> (Bulkhead, Operators) {
    let server = uninitialised();
    let operators = Operators::initialise(&server, shares, threshold);
    (server, operators)
}

/// As [`sealed`], with an audit device in `audit.log` of the data folder; key holders may make root
/// tokens and other shares without a token.
///
/// # Panics
/// When the server does not start, or does not let itself be initialised.
#[track_caller]
pub fn of_key_holders(shares: usize, threshold: usize) -> (Bulkhead, Operators) {
    let data = Folder::new("key-holders");
    let file = data.path().join("bulkhead.hcl");
    let text = format!(
        "listener \"tcp\" {{ address = \"127.0.0.1:0\" }}\n\
         storage \"sqlite\" {{ path = {path:?} }}\n\
         audit \"file\" \"main\" {{ path = {log:?} }}\n\
         allow_key_holders = true\n",
        path = data.path(),
        log = data.path().join("audit.log"),
    );
    std::fs::write(&file, text).expect("a file can be written");
    let mut server = Bulkhead::prepared(binary(), data).configured(file);
    server.start_again();
    let operators = Operators::initialise(&server, shares, threshold);
    (server, operators)
}

/// A server that two of three shares opened.
#[track_caller]
pub fn open() -> (Bulkhead, Operators) {
    let (server, operators) = sealed(3, 2);
    operators.unseal(&server);
    (server, operators)
}

/// What a server says of its seal.
#[track_caller]
pub fn seal_status(server: &Bulkhead) -> Value {
    server.client(None).read("sys/seal-status").expect(200).body
}

/// Gives a server one share, or what may pass for one.
#[track_caller]
pub fn give(server: &Bulkhead, key: &str) -> Answer {
    server.client(None).write("sys/unseal", &json!({ "key": key }))
}

impl Operators {
    /// Initialises `server`, which was not. It stays sealed.
    #[track_caller]
    pub fn initialise(server: &Bulkhead, shares: usize, threshold: usize) -> Self {
        let asked = json!({ "secret_shares": shares, "secret_threshold": threshold });
        Self::of(&server.client(None).write("sys/init", &asked).expect(200).body, threshold)
    }

    /// Those to whom an initialisation answered `body`.
    #[track_caller]
    pub fn of(body: &Value, threshold: usize) -> Self {
        let keys = body["keys"].as_array().expect("a list of keys").iter();
        let keys = keys.map(|key| key.as_str().expect("a key is text").to_owned()).collect();
        let token = body["root_token"].as_str().expect("a root token").to_owned();
        Self { keys, threshold, token }
    }

    /// Gives as many shares as are needed, which must open the server.
    #[track_caller]
    pub fn unseal(&self, server: &Bulkhead) {
        for key in &self.keys[..self.threshold] {
            give(server, key).expect(200);
        }
        assert_eq!(
            seal_status(server)["sealed"],
            false,
            "{} right shares did not open the server",
            self.threshold
        );
    }

    /// A client with the root token.
    pub fn root(&self, server: &Bulkhead) -> Client {
        server.client(Some(&self.token))
    }
}
