//! A server with a seal of the configuration, and stopped data with such a seal, from which each
//! life of a loop starts.

use crate::configured_seal::ConfiguredSeal;
use bulkhead_tests::Bulkhead;
use bulkhead_tests::operators::{Operators, seal_status};
use bulkhead_tests::paths::{Folder, fault_binary};
use bulkhead_tests::sealed_server::{PATIENCE, recovery_operators, write_policy};
use bulkhead_tests::storage;
use bulkhead_tests::wait::until_true;
use serde_json::json;
use std::fs;
use std::path::PathBuf;

/// Number of shares that open data, or that migrate data.
pub const THRESHOLD: usize = 2;

/// A server of its own, with its configuration and the keeper of its key.
pub struct SealedLife {
    pub server: Bulkhead,
    pub seal: ConfiguredSeal,
    /// Folder of the configuration and of the files that the configuration names.
    folder: Folder,
}

impl SealedLife {
    /// Prepares a server with failpoints.
    pub fn on(data: Folder, seal: ConfiguredSeal) -> Self {
        Self::of(fault_binary(), data, seal)
    }

    /// Prepares a server of this binary.
    pub fn of(binary: PathBuf, data: Folder, seal: ConfiguredSeal) -> Self {
        let folder = Folder::new("seal-keys");
        let file = folder.path().join("bulkhead.hcl");
        let server = Bulkhead::prepared(binary, data).configured(file);
        let life = Self { server, seal, folder };
        life.configure("");
        life
    }

    /// Writes the configuration for the next start, with `blocks` behind the seal.
    pub fn configure(&self, blocks: &str) {
        let folder = self.folder.path();
        let text = format!(
            "listener \"tcp\" {{ address = \"127.0.0.1:0\" }}\n\
             {}\n{}{blocks}",
            storage::block(self.server.data()),
            self.seal.block(folder)
        );
        fs::write(folder.join("bulkhead.hcl"), text).expect("a file can be written");
    }

    /// Gives the next start another seal.
    pub fn change_seal(&mut self, seal: ConfiguredSeal) {
        self.seal = seal;
        self.configure("");
    }

    /// Starts the server, which opens the data by itself.
    #[track_caller]
    pub fn open_by_seal(&mut self) {
        self.server.start_again();
        self.await_open();
    }

    /// Waits until the started server has opened the data by itself: the keeper of the key may
    /// answer after the start.
    #[track_caller]
    pub fn await_open(&self) {
        let is_open = || seal_status(&self.server)["sealed"] == false;
        until_true("the server opens the data by itself", PATIENCE, is_open);
    }

    /// Gives the keeper a new key, with which a start seals the data.
    pub fn rotate_key(&mut self) {
        self.seal.rotate();
        self.configure("");
    }

    /// Starts the killed server after the loss of the key before the newest key: the data depend on
    /// the newest key alone.
    #[track_caller]
    pub fn open_without_previous_key(&mut self) {
        self.seal.lose_previous_key();
        self.configure("");
        self.open_by_seal();
    }
}

/// Data of a stopped server, to be copied for each life. The data have the policy of
/// [`write_policy`].
pub struct StoppedData {
    stopped: SealedLife,
    pub operators: Operators,
}

impl StoppedData {
    /// Initialises data with this seal.
    pub fn of(seal: ConfiguredSeal) -> Self {
        Self::with(seal, |_, _| ()).0
    }

    /// As [`StoppedData::of`], after `work` with the open server. Returns the result of `work`,
    /// too.
    pub fn with<T>(
        seal: ConfiguredSeal,
        work: impl FnOnce(&Bulkhead, &Operators) -> T,
    ) -> (Self, T) {
        let mut life = SealedLife::on(Folder::new("seal-data"), seal);
        life.server.start_again();
        let operators = initialised(&life);
        write_policy(&operators.root(&life.server));
        let result = work(&life.server, &operators);
        assert!(life.server.stop(), "{}", life.server.printed());
        (Self { stopped: life, operators }, result)
    }

    /// Rotates the key of the seal and lets a start seal the data with the new key.
    pub fn with_rotated_key(mut self) -> Self {
        self.stopped.rotate_key();
        self.stopped.open_by_seal();
        let server = &mut self.stopped.server;
        server.wait_for_print("seal-key-replaced");
        assert!(server.stop(), "{}", server.printed());
        self
    }

    /// Returns a copy of the seal.
    pub fn seal(&self) -> ConfiguredSeal {
        self.stopped.seal.copied()
    }

    /// Returns a life with copies of the data and the seal, not started yet.
    pub fn life(&self) -> SealedLife {
        SealedLife::on(storage::copied(self.stopped.server.data()), self.seal())
    }

    /// Asserts that the data have the policy from before the life.
    #[track_caller]
    pub fn assert_policy_readable(&self, server: &Bulkhead) {
        self.operators.root(server).read("sys/policies/acl/kept").expect(200);
    }
}

/// Initialises and opens the server of a life.
fn initialised(life: &SealedLife) -> Operators {
    if !life.seal.is_automatic() {
        let operators = Operators::initialise(&life.server, THRESHOLD + 1, THRESHOLD);
        operators.unseal(&life.server);
        return operators;
    }
    let fields = json!({ "recovery_shares": THRESHOLD + 1, "recovery_threshold": THRESHOLD });
    let answer = life.server.client(None).write("sys/init", &fields).expect(200);
    recovery_operators(&answer.body, THRESHOLD)
}
