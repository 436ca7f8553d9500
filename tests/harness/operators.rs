//! A server as operators run it: sealed at each start, unsealed with the keys of its
//! initialisation.

use crate::bulkhead::Bulkhead;
use crate::client::{Answer, Client};
use crate::paths::{Folder, binary};
use crate::static_seal;
use crate::storage;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Output;

/// Keys and root token of an initialised server.
pub struct Operators {
    /// Shares of the unseal key, in hexadecimal.
    pub keys: Vec<String>,
    /// Number of shares that unseal the server.
    pub threshold: usize,
    /// The root token of the initialisation.
    pub token: String,
}

/// Starts a server without dev mode on an empty data folder, not initialised.
pub fn uninitialised() -> Bulkhead {
    let mut server = Bulkhead::prepared(binary(), Folder::new("sealed")).in_production();
    server.start_again();
    server
}

/// Starts and initialises a server, which stays sealed.
#[track_caller]
pub fn sealed(shares: usize, threshold: usize) -> (Bulkhead, Operators) {
    let server = uninitialised();
    let operators = Operators::initialise(&server, shares, threshold);
    (server, operators)
}

/// Like [`sealed`], with an audit device in `audit.log` of the data folder. Key holders may
/// generate a root token and rekey without a token.
#[track_caller]
pub fn of_key_holders(shares: usize, threshold: usize) -> (Bulkhead, Operators) {
    let server = configured(|_| String::new());
    let operators = Operators::initialise(&server, shares, threshold);
    (server, operators)
}

/// Like [`of_key_holders`], with a static seal, which has opened the server, and with recovery
/// keys.
#[track_caller]
pub fn of_recovery_keys(shares: usize, threshold: usize) -> (Bulkhead, Operators) {
    let server = configured(|folder| static_seal::block(folder, &["1"]));
    let body = json!({ "recovery_shares": shares, "recovery_threshold": threshold });
    let mut answer = server.client(None).write("sys/init", &body).expect(200).body;
    answer["keys"] = answer["recovery_keys"].take();
    (server, Operators::of(&answer, threshold))
}

/// Starts a server with a configuration file, which has the block of `seal` for the data folder.
fn configured(seal: impl Fn(&Path) -> String) -> Bulkhead {
    let data = Folder::new("key-holders");
    let file = data.path().join("bulkhead.hcl");
    let text = format!(
        "listener \"tcp\" {{ address = \"127.0.0.1:0\" }}\n\
         {storage}\n\
         audit \"file\" \"main\" {{ path = {log:?} }}\n\
         allow_key_holders = true\n{seal}",
        storage = storage::block(data.path()),
        log = data.path().join("audit.log"),
        seal = seal(data.path()),
    );
    std::fs::write(&file, text).expect("a file can be written");
    let mut server = Bulkhead::prepared(binary(), data).configured(file);
    server.start_again();
    server
}

/// Starts a server and unseals it with two of three shares.
#[track_caller]
pub fn open() -> (Bulkhead, Operators) {
    let (server, operators) = sealed(3, 2);
    operators.unseal(&server);
    (server, operators)
}

/// Returns the answer of `sys/seal-status`.
#[track_caller]
pub fn seal_status(server: &Bulkhead) -> Value {
    server.client(None).read("sys/seal-status").expect(200).body
}

/// Submits one share, or a text in its place.
#[track_caller]
pub fn give(server: &Bulkhead, key: &str) -> Answer {
    server.client(None).write("sys/unseal", &json!({ "key": key }))
}

/// Runs `bulkhead operator` with the server's address and this token. Returns exit code, standard
/// output and standard error.
pub fn operator(server: &Bulkhead, token: &str, words: &[&str]) -> (i32, String, String) {
    let mut command = server.command(&[&["operator"], words].concat());
    let Output { status, stdout, stderr } =
        command.env("BULKHEAD_TOKEN", token).output().expect("the command can be started");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code().unwrap_or(-1), text(stdout), text(stderr))
}

impl Operators {
    /// Initialises `server`, which stays sealed.
    #[track_caller]
    pub fn initialise(server: &Bulkhead, shares: usize, threshold: usize) -> Self {
        let body = json!({ "secret_shares": shares, "secret_threshold": threshold });
        Self::of(&server.client(None).write("sys/init", &body).expect(200).body, threshold)
    }

    /// Reads keys and root token from the answer of an initialisation.
    #[track_caller]
    pub fn of(body: &Value, threshold: usize) -> Self {
        let keys = body["keys"].as_array().expect("a list of keys").iter();
        let keys = keys.map(|key| key.as_str().expect("a key is text").to_owned()).collect();
        let token = body["root_token"].as_str().expect("a root token").to_owned();
        Self { keys, threshold, token }
    }

    /// Submits as many shares as the threshold requires. The server must then be unsealed.
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

    /// Returns a client with the root token.
    pub fn root(&self, server: &Bulkhead) -> Client {
        server.client(Some(&self.token))
    }
}
