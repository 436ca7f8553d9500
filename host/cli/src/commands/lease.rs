//! `bulkhead lease lookup · renew · revoke`. The lease goes in the body, where no log sees it.

use crate::client::Call;
use crate::commands::Command;
use crate::options::Opt;
use crate::problem::Problem;
use crate::session::Session;
use hyper::Method;
use serde_json::json;

/// The command.
pub const LOOKUP: Command = Command {
    words: "lease lookup",
    takes: "LEASE_ID",
    about: "show when a lease was issued and when it ends",
    options: &[],
    run: lookup,
};

/// The command.
pub const RENEW: Command = Command {
    words: "lease renew",
    takes: "LEASE_ID",
    about: "make a lease last longer",
    options: &[Opt { name: "increment", takes: Some("TIME"), about: "how long from now: 3600, 1h, 30m" }],
    run: renew,
};

/// The command.
pub const REVOKE: Command = Command {
    words: "lease revoke",
    takes: "LEASE_ID",
    about: "end a lease now; what it stands for is gone when this returns",
    options: &[],
    run: revoke,
};

fn lookup(session: &mut Session<'_, '_>) -> Result<u8, Problem> {
    let [lease] = session.words()?;
    let call = Call::new(Method::PUT, "sys/leases/lookup").with(json!({"lease_id": lease}));
    let answer = session.ask(&format!("looking up {lease}"), &call)?;
    session.show(&answer)
}

fn renew(session: &mut Session<'_, '_>) -> Result<u8, Problem> {
    let [lease] = session.words()?;
    let body = json!({"lease_id": lease, "increment": session.options.value("increment")});
    let call = Call::new(Method::PUT, "sys/leases/renew").with(body);
    let answer = session.ask(&format!("renewing {lease}"), &call)?;
    session.show(&answer)
}

fn revoke(session: &mut Session<'_, '_>) -> Result<u8, Problem> {
    let [lease] = session.words()?;
    let call = Call::new(Method::PUT, "sys/leases/revoke").with(json!({"lease_id": lease}));
    let answer = session.ask(&format!("revoking {lease}"), &call)?;
    session.show_or(&answer, &format!("revoked {lease}"))
}
