//! A change that is guarded by an intent. The checkpointed note `note/outside-<name>` stands for
//! the state outside, and `note/<name>` is the engine's knowledge of that state.

use bulkhead_sdk::intent::{CandidateSearch, EarlierCandidates, Intent, ProvenCandidate};
use bulkhead_sdk::{Answer, Call, Failure, FailureKind, Host};
use std::time::Duration;

/// Changes the state to the candidate. `unmade` fails before the change, and `lost` after the
/// change; `waits` makes the change and then waits for `note/go-<name>`.
pub(crate) fn rotate(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let (name, how) = (call.text("name"), call.text("how"));
    let intent = Intent::begin(host, name, "rotations", call.text("candidate").to_owned())?;
    let proven = intent.make(
        |candidate| effect(host, name, how, candidate),
        |candidate, ()| verify(host, name, candidate),
    )?;
    store(host, name, proven)?;
    Ok(Answer::nothing())
}

/// Fails with the value in force for `told`, if there is one.
pub(crate) fn show_in_error(host: &dyn Host) -> Result<(), Failure> {
    let in_force: Option<String> = host.storage().get_plain("note/outside-told")?;
    in_force.map_or(Ok(()), |value| Err(Failure::invalid(format!("it does not take {value}"))))
}

/// Recovers by a request in place of a guard.
pub(crate) fn recover_now(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    recover(host, call.text("name"))?;
    Ok(Answer::nothing())
}

/// Notes the attempt as `note/recovered-<name>`. A name that begins with `late` fails at first.
pub(crate) fn wake(host: &dyn Host, name: &str, attempt: u32) -> Result<(), Failure> {
    if name.starts_with("late") && attempt < 3 {
        // The second attempt fails after the intent was resumed, which has set the guard on its own
        // key again.
        if attempt == 2 {
            Intent::<String>::recover(host, name)?;
        }
        return Err(Failure {
            retry_after: Some(20),
            ..Failure::new(FailureKind::Unreachable, "not yet")
        });
    }
    recover(host, name)?;
    host.storage().put_plain(&format!("note/recovered-{name}"), &attempt)
}

fn recover(host: &dyn Host, name: &str) -> Result<(), Failure> {
    let Some(intent) = Intent::recover(host, name)? else { return Ok(()) };
    let intent = match intent
        .find_in_force(|candidate: &String| Ok(outside(host, name)?.as_ref() == Some(candidate)))?
    {
        CandidateSearch::InForce(proven) => return store(host, name, proven),
        CandidateSearch::Nowhere(intent) => intent,
    };
    let fresh = format!("{} again", intent.candidates().next().map_or("", String::as_str));
    let intent = intent.restart(host, fresh, EarlierCandidates::Disproven)?;
    let proven = intent.make(
        |candidate| effect(host, name, "ok", candidate),
        |candidate, ()| verify(host, name, candidate),
    )?;
    store(host, name, proven)
}

fn effect(host: &dyn Host, name: &str, how: &str, candidate: &str) -> Result<(), Failure> {
    if how == "unmade" {
        return Err(Failure::new(FailureKind::Unreachable, "nobody answers"));
    }
    host.storage().put_plain(&format!("note/outside-{name}"), candidate)?;
    host.storage().checkpoint()?;
    match how {
        "lost" => Err(Failure::new(FailureKind::TimedOut, "the answer was lost")),
        "waits" => wait(host, name),
        _ => Ok(()),
    }
}

/// Each look is a separate segment and so sees later writes. Any note counts: a number, or the
/// reason of a lease's end.
pub(crate) fn wait(host: &dyn Host, name: &str) -> Result<(), Failure> {
    while host.storage().get_bytes(&format!("note/go-{name}"))?.is_none() {
        host.storage().checkpoint()?;
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn verify(host: &dyn Host, name: &str, candidate: &str) -> Result<(), Failure> {
    match outside(host, name)? {
        Some(in_force) if in_force == candidate => Ok(()),
        _ => Err(Failure::invalid("something else is in force")),
    }
}

fn outside(host: &dyn Host, name: &str) -> Result<Option<String>, Failure> {
    host.storage().get_plain(&format!("note/outside-{name}"))
}

fn store(host: &dyn Host, name: &str, proven: ProvenCandidate<String>) -> Result<(), Failure> {
    proven
        .confirm(host, |candidate, ()| host.storage().put_plain(&format!("note/{name}"), candidate))
}
