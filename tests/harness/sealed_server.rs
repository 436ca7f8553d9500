//! A server with a seal in its configuration, which changes between starts.

use crate::operators::{Operators, seal_status};
use crate::paths::{Folder, binary};
use crate::{Answer, Bulkhead, Client, storage, wait};
use serde_json::{Value, json};
use std::fs;
use std::time::Duration;

/// Longest wait for a change of the server's state on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The block of a seal that people open.
pub const SHAMIR: &str = "seal \"shamir\" {}";

/// A server with a configuration that changes between starts, and its keys in files.
pub struct SealedServer {
    pub server: Bulkhead,
    /// Folder of the configuration and of the files that the configuration names.
    pub folder: Folder,
}

impl SealedServer {
    /// Starts a server on an empty data folder, with this seal.
    pub fn start(seal: impl Fn(&Folder) -> String) -> Self {
        let folder = Folder::new("seals");
        let server = Bulkhead::prepared(binary(), Folder::new("sealed-data"))
            .configured(folder.path().join("bulkhead.hcl"));
        let mut sealed = Self { server, folder };
        let seal = seal(&sealed.folder);
        sealed.configure(&seal);
        sealed.server.start_again();
        sealed
    }

    /// Writes the configuration with this seal, for the next start.
    pub fn configure(&self, seal: &str) {
        let text = format!(
            "listener \"tcp\" {{ address = \"127.0.0.1:0\" }}\n\
             {storage}\n\
             audit \"file\" \"main\" {{ path = {log:?} }}\n\
             allow_key_holders = true\n{seal}\n",
            storage = storage::block(self.server.data()),
            log = self.server.data().join("audit.log"),
        );
        fs::write(self.folder.path().join("bulkhead.hcl"), text).expect("a file can be written");
    }

    /// Stops the server, and starts it with another seal.
    #[track_caller]
    pub fn restart(&mut self, seal: &str) {
        assert!(self.server.stop(), "{}", self.server.printed());
        self.configure(seal);
        self.server.start_again();
    }

    /// Stops the server, and asserts that it does not start with another seal.
    #[track_caller]
    pub fn refuses(&mut self, seal: &str, words: &[&str]) {
        self.configure(seal);
        let before = self.server.printed().len();
        let status = self.server.start_with(&[]).expect_err("the server does not start");
        assert_eq!(status.code(), Some(1));
        for word in words {
            self.server.wait_for_print_after(before, word);
        }
    }

    /// Initialises the server with recovery keys.
    #[track_caller]
    pub fn initialise(&self, shares: usize, threshold: usize) -> Operators {
        let body = json!({ "recovery_shares": shares, "recovery_threshold": threshold });
        recovery_operators(&self.nobody().write("sys/init", &body).expect(200).body, threshold)
    }

    /// Returns a client without a token.
    pub fn nobody(&self) -> Client {
        self.server.client(None)
    }

    /// Asserts that the server is open, with the policy of [`write_policy`].
    #[track_caller]
    pub fn assert_open(&self, operators: &Operators) {
        let status = seal_status(&self.server);
        assert_eq!(status["sealed"], false, "{status}\n{}", self.server.printed());
        operators.root(&self.server).read("sys/policies/acl/kept").expect(200);
    }
}

impl SealedServer {
    /// Kills the server and starts it again. Returns the length of the output before.
    pub fn kill_and_start(&mut self) -> usize {
        self.server.kill();
        let before = self.server.printed().len();
        self.server.start_again();
        before
    }

    /// Waits until the server has opened by itself.
    #[track_caller]
    pub fn wait_until_open(&self, operators: &Operators) {
        let is_open = || seal_status(&self.server)["sealed"] == false;
        wait::until_true("the server opens by itself", PATIENCE, is_open);
        self.assert_open(operators);
    }

    /// Asserts that the server answers that it is sealed by this kind of seal, in every form.
    #[track_caller]
    pub fn assert_sealed(&self, kind: &str) {
        let status = seal_status(&self.server);
        assert_eq!((&status["sealed"], &status["type"]), (&json!(true), &json!(kind)));
        assert_eq!((&status["initialized"], &status["migration"]), (&json!(true), &json!(false)));
        self.nobody().read("sys/health").expect(503);
        self.nobody().read("sys/policies/acl/kept").expect(503);
    }
}

/// Reads recovery keys and root token from the answer of an initialisation or a rekey.
#[track_caller]
pub fn recovery_operators(body: &Value, threshold: usize) -> Operators {
    assert_eq!((&body["keys"], &body["keys_base64"]), (&json!([]), &json!([])), "{body}");
    let mut body = body.clone();
    body["keys"] = body["recovery_keys"].clone();
    Operators::of(&body, threshold)
}

/// Gives a key to `sys/unseal` for a migration.
pub fn migrate(server: &Bulkhead, key: &str) -> Answer {
    server.client(None).write("sys/unseal", &json!({ "key": key, "migrate": true }))
}

/// Writes a policy, which [`SealedServer::assert_open`] reads.
#[track_caller]
pub fn write_policy(client: &Client) {
    client.write("sys/policies/acl/kept", &json!({ "policy": "path \"a\" {}" })).expect(204);
}
