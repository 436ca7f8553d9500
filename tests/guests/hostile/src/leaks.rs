//! Leaks of secrets, and reads of other mounts' keys.

use crate::bulkhead::plugin::types::Call;
use crate::bulkhead::plugin::{clock, leases, log, passwords, storage};
use crate::{Ending, answers};

pub(crate) fn forged_log_line(_call: &Call) -> Ending {
    let forged = "noise\nlevel=error event=forged mount=probe/";
    log::write(
        log::Level::Info,
        forged,
        &[(forged.into(), forged.into()), ("mount".into(), "probe/".into())],
    );
    log::write(
        log::Level::Info,
        "",
        &[("plugin".into(), "another".into()), ("".into(), "x".into())],
    );
    Ok(answers::nothing())
}

/// Leaks a new secret into the log. The answer gives the secret to the caller, so that the test can
/// search the log.
pub(crate) fn secret_in_log(_call: &Call) -> Ending {
    let secret = passwords::generate_from(20, "abcdefghkmnpqrstuvwxyzABCDEFGHKMNP23456789")?;
    let lowered = secret.to_lowercase();
    let piece: String = secret.chars().skip(3).take(13).collect();
    let pairs = [
        (lowered.clone(), "name".to_owned()),
        ("whole".to_owned(), secret.clone()),
        ("loud".to_owned(), secret.to_uppercase()),
        ("piece".to_owned(), format!("it has {piece} in it")),
    ];
    log::write(log::Level::Warn, &lowered, &pairs);
    Ok(answers::data(format!("{{\"secret\":{secret:?}}}")))
}

pub(crate) fn secret_in_key(_call: &Call) -> Ending {
    storage::put(&format!("kept/{}", passwords::generate("")?), b"x")?;
    Ok(answers::nothing())
}

pub(crate) fn secret_in_timer(_call: &Call) -> Ending {
    clock::schedule(&passwords::generate("")?, u64::MAX, "timers")?;
    Ok(answers::nothing())
}

pub(crate) fn secret_in_lane(_call: &Call) -> Ending {
    clock::schedule("timer", u64::MAX, &passwords::generate("")?.to_uppercase())?;
    Ok(answers::nothing())
}

pub(crate) fn secret_in_tag(_call: &Call) -> Ending {
    leases::reserve(&passwords::generate("")?, "leases", "{}")?;
    Ok(answers::nothing())
}

/// Answers if any of the foreign keys is accepted.
pub(crate) fn foreign_key(_call: &Call) -> Ending {
    let mut refused = None;
    for key in ["../x", "/x", "a/../../x", "./x", "a//x", ".."] {
        match storage::get(key) {
            Ok(_) => return Ok(answers::nothing()),
            Err(failure) => refused = Some(failure),
        }
        if storage::put(key, b"x").is_ok()
            || storage::delete(key).is_ok()
            || storage::keys(key, "", 1).is_ok()
        {
            return Ok(answers::nothing());
        }
    }
    refused.map_or(Ok(answers::nothing()), Err)
}
