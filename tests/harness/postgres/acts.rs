//! The life of a PostgreSQL under faults: stops, deaths, restarts, and a synchronous standby that
//! takes over. `tests/servers/postgres_acts.sh` knows the acts.

use super::Postgres;

/// End of a server.
#[derive(Clone, Copy, Debug)]
pub enum ServerEnd {
    /// Sessions end with a word, and the last checkpoint is written.
    Fast,
    /// Sessions end at once, and the next start recovers from the log.
    Immediate,
    /// All processes are killed.
    Killed,
}

impl Postgres {
    /// Ends the server; [`Postgres::start_again`] starts it on the same port.
    #[track_caller]
    pub fn end(&self, end: ServerEnd) {
        self.script.order(match end {
            ServerEnd::Fast => "stop",
            ServerEnd::Immediate => "stop-now",
            ServerEnd::Killed => "kill",
        });
    }

    /// Starts the server again on its data and port.
    #[track_caller]
    pub fn start_again(&self) {
        self.script.order("start");
    }

    /// Starts a standby, and makes each commit wait for it. Returns the port of the standby.
    #[track_caller]
    pub fn add_standby(&self) -> u16 {
        let said = self.script.order("follow");
        let port = said.trim().strip_prefix("port=").and_then(|port| port.parse().ok());
        port.unwrap_or_else(|| panic!("the port of the standby: {said:?}"))
    }

    /// Makes the standby the primary.
    #[track_caller]
    pub fn promote_standby(&self) {
        self.script.order("promote");
    }

    /// Kills the standby; [`Postgres::start_standby`] starts it again.
    #[track_caller]
    pub fn kill_standby(&self) {
        self.script.order("kill-standby");
    }

    /// Starts the standby again.
    #[track_caller]
    pub fn start_standby(&self) {
        self.script.order("start-standby");
    }

    /// Creates the tablespace `small` on a file system of this size. Needs root.
    #[track_caller]
    pub fn add_small_tablespace(&self, megabytes: u32) {
        self.script.order(&format!("shrink {megabytes}"));
    }
}
