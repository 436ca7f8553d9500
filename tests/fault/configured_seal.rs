//! A seal in the configuration of a server, with the keeper of the seal's key: the loops run the
//! same life with each kind of seal.

use bulkhead_tests::sealed_server::SHAMIR;
use bulkhead_tests::static_seal;
use bulkhead_tests::transit_server::TransitServer;
use std::path::Path;

/// The keeper of the key that opens the data.
enum KeyKeeper {
    /// People with shares.
    Holders,
    /// Key files of the machine.
    Files,
    /// The transit engine of another server, and the token for its key.
    Transit(Box<TransitServer>, String),
}

/// A seal with its keeper.
pub struct ConfiguredSeal {
    keeper: KeyKeeper,
    /// Version of the newest key, counted from 1.
    version: u64,
    /// True if the keeper has the key of the version before.
    has_previous: bool,
}

impl ConfiguredSeal {
    fn of(keeper: KeyKeeper) -> Self {
        Self { keeper, version: 1, has_previous: false }
    }

    /// The seal that people open with shares.
    pub fn shamir() -> Self {
        Self::of(KeyKeeper::Holders)
    }

    /// A static seal.
    pub fn static_key() -> Self {
        Self::of(KeyKeeper::Files)
    }

    /// A transit seal, with a transit server of its own.
    pub fn transit() -> Self {
        let server = TransitServer::start();
        let token = server.issue(None);
        Self::of(KeyKeeper::Transit(Box::new(server), token))
    }

    /// Returns a seal with copies of the keys: a change of one seal leaves the other as it is.
    pub fn copied(&self) -> Self {
        let keeper = match &self.keeper {
            KeyKeeper::Holders => KeyKeeper::Holders,
            KeyKeeper::Files => KeyKeeper::Files,
            KeyKeeper::Transit(server, token) => {
                KeyKeeper::Transit(Box::new(server.copied()), token.clone())
            }
        };
        Self { keeper, ..*self }
    }

    /// Returns the name of the seal for reports.
    pub fn name(&self) -> &'static str {
        match self.keeper {
            KeyKeeper::Holders => "Shamir's shares",
            KeyKeeper::Files => "a static seal",
            KeyKeeper::Transit(..) => "a transit seal",
        }
    }

    /// Returns true if the server opens the data without people.
    pub fn is_automatic(&self) -> bool {
        !matches!(self.keeper, KeyKeeper::Holders)
    }

    /// Returns the block of the configuration. Its files are in `folder`.
    pub fn block(&self, folder: &Path) -> String {
        match &self.keeper {
            KeyKeeper::Holders => format!("{SHAMIR}\n"),
            KeyKeeper::Files => {
                let oldest = if self.has_previous { self.version - 1 } else { self.version };
                let names = (oldest..=self.version).rev().map(|version| format!("key-{version}"));
                let names: Vec<String> = names.collect();
                static_seal::block(folder, &names.iter().map(String::as_str).collect::<Vec<_>>())
            }
            KeyKeeper::Transit(server, token) => server.seal_block(folder, token),
        }
    }

    /// Gives the keeper a new key, which seals from now on. The key before still opens.
    pub fn rotate(&mut self) {
        if let KeyKeeper::Transit(server, _) = &self.keeper {
            server.rotate();
        }
        self.version += 1;
        self.has_previous = true;
    }

    /// Takes the key before the newest key away from the keeper, for ever.
    pub fn lose_previous_key(&mut self) {
        assert!(self.has_previous, "the seal was rotated");
        if let KeyKeeper::Transit(server, _) = &self.keeper {
            server.lose_version(self.version - 1);
        }
        self.has_previous = false;
    }
}
