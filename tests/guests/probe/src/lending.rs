//! Leases that another call ends, and objects that are made in several steps.

use crate::Made;
use bulkhead_sdk::reservation::Reservation;
use bulkhead_sdk::table::Field;
use bulkhead_sdk::{Answer, Call, Failure, FailureKind, Host};
use serde_json::json;

/// Field that decides if the return of a loan succeeds.
pub(crate) const HOW: &[Field] = &[Field::text("how", "ok or fails")];

pub(crate) fn lend(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let name = call.text("name");
    let record = Made { name: name.to_owned() };
    let reserved = Reservation::new(name, "lane", &record)?.reserve(host)?;
    host.storage().put_plain(&handle(name), reserved.handle())?;
    reserved.make(host, || Ok(()))?.secret(&json!({"name": name}), 600, 3_600)
}

pub(crate) fn give_back(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let handle: Option<String> = host.storage().get_plain(&handle(call.text("name")))?;
    host.leases().end_issued(&handle.ok_or_else(Failure::absent)?)?;
    match call.text("how") {
        "fails" => Err(Failure::invalid("the loan is damaged")),
        _ => Ok(Answer::nothing()),
    }
}

/// Ends the lease during its own revocation.
pub(crate) fn return_in_revocation(host: &dyn Host, name: &str) -> Result<(), Failure> {
    let handle: Option<String> = host.storage().get_plain(&handle(name))?;
    host.leases().end_issued(&handle.ok_or_else(Failure::absent)?)?;
    match name.starts_with("returns-stored") {
        true => host.storage().checkpoint().map(drop),
        false => Ok(()),
    }
}

pub(crate) fn in_steps(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let name = call.text("name");
    let (first, both) = (Made { name: "one".to_owned() }, Made { name: "one and two".to_owned() });
    Reservation::new(name, "lane", &first)?
        .make(host, || Ok(()))?
        .make_next(host, &both, || Err(Failure::new(FailureKind::TimedOut, "nobody knows").into()))?
        .secret(&json!({"name": name}), 600, 3_600)
}

fn handle(name: &str) -> String {
    format!("handle/{name}")
}
