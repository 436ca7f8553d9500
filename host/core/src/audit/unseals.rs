//! Attempts to unseal that were refused while the audit was not open, because its keys were sealed.
//!
//! The attack this file stops: shares that are guessed without a trace. The attempts are kept in
//! memory, few of them and the number of the rest, and are recorded as soon as there is an audit.

use super::json::Object;
use super::{Audit, subject};
use crate::random;
use std::net::IpAddr;

/// Attempts that are kept; of the others the number is told.
const KEPT: usize = 64;

/// Attempts that were refused since there was an audit.
#[derive(Default)]
pub(crate) struct RefusedUnseals {
    kept: Vec<Refused>,
    others: u64,
}

struct Refused {
    /// Store time, in milliseconds.
    at: u64,
    remote: IpAddr,
    cause: String,
}

impl RefusedUnseals {
    /// Keeps one that was refused at store time `at`, in milliseconds. `cause` repeats nothing of
    /// the share.
    pub(crate) fn add(&mut self, at: u64, remote: IpAddr, cause: String) {
        if self.kept.len() < KEPT {
            self.kept.push(Refused { at, remote, cause });
        } else {
            self.others += 1;
        }
    }
}

impl Audit {
    /// Records them on every device, with the time at which they came. Where none records them the
    /// server's log has them.
    pub(crate) async fn record_refused_unseals(&self, refused: &RefusedUnseals) {
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

fn line(refused: &Refused, others: u64) -> Vec<u8> {
    let mut line = Vec::new();
    let mut entry = Object::begin(&mut line);
    entry.member("time", &subject::time(refused.at));
    entry.member("type", "request");
    let mut request = Object::begin(entry.own_key("request"));
    // Without randomness there would be no keys either: the line is worth more than its number.
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
