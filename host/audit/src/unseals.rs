//! Refused unseal attempts while the audit was closed because its keys were sealed.
//!
//! This file prevents guessing key shares without a trace. A bounded number of attempts and the
//! count of the rest stay in memory, and are recorded as soon as the audit is open.

use super::audit::Audit;
use super::json::JsonObject;
use super::subject;
use bulkhead_access::random;
use std::net::IpAddr;

/// Maximum number of attempts kept in full. Further attempts are only counted.
const MAX_KEPT_ATTEMPTS: usize = 64;

/// Unseal attempts refused since the audit was last open.
#[derive(Default)]
pub struct RefusedUnseals {
    kept: Vec<RefusedUnseal>,
    others: u64,
}

struct RefusedUnseal {
    /// Store time, in milliseconds.
    at: u64,
    remote: IpAddr,
    cause: String,
}

impl RefusedUnseals {
    /// Adds an attempt that was refused at store time `at`, in milliseconds. `cause` must not
    /// repeat any part of the share.
    pub fn add(&mut self, at: u64, remote: IpAddr, cause: String) {
        if self.kept.len() < MAX_KEPT_ATTEMPTS {
            self.kept.push(RefusedUnseal { at, remote, cause });
        } else {
            self.others += 1;
        }
    }
}

impl Audit {
    /// Records the attempts on every device, with their time. If no device records an attempt, only
    /// the server's log has it.
    pub async fn record_refused_unseals(&self, refused: &RefusedUnseals) {
        let last = refused.kept.len().saturating_sub(1);
        for (index, one) in refused.kept.iter().enumerate() {
            let others = if index == last { refused.others } else { 0 };
            let line = line(one, others);
            for device in self.devices().iter() {
                device.record(&[&line]).await;
            }
        }
    }
}

fn line(refused: &RefusedUnseal, others: u64) -> Vec<u8> {
    let mut line = Vec::new();
    let mut entry = JsonObject::begin(&mut line);
    entry.member("time", &subject::time(refused.at));
    entry.member("type", "request");
    let mut request = JsonObject::begin(entry.own_key("request"));
    // If randomness fails, the line is recorded without an id.
    request.text("id", &random::uuid().unwrap_or_default());
    request.member("operation", "update");
    request.member("path", "sys/unseal");
    request.member("remote_address", &refused.remote);
    request.end();
    if others > 0 {
        entry.member("others_refused", &others);
    }
    entry.member("error", &refused.cause);
    entry.end();
    line
}
