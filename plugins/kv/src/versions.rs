//! `delete/{path}`, `undelete/{path}` and `destroy/{path}`: changes of given versions.
//!
//! Versions that the secret does not have are left out, and so is a secret that does not exist.

use crate::given;
use crate::metadata_record::Metadata;
use crate::secret_path::SecretPath;
use bulkhead_sdk::{Answer, Call, Failure, Host};

/// Deletes versions; their data stay stored.
pub(crate) fn delete(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let now = host.clock().now();
    change(host, call, |metadata, number| {
        if let Some(version) = metadata.versions.get_mut(&number) {
            version.delete(now);
        }
        Ok(())
    })
}

/// Brings back deleted versions whose data are still stored.
pub(crate) fn undelete(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    change(host, call, |metadata, number| {
        if let Some(version) = metadata.versions.get_mut(&number).filter(|one| !one.destroyed) {
            version.deleted = None;
        }
        Ok(())
    })
}

/// Removes the data of versions.
pub(crate) fn destroy(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let path = SecretPath::of(call)?;
    change(host, call, |metadata, number| {
        let Some(version) = metadata.versions.get_mut(&number) else { return Ok(()) };
        version.destroyed = true;
        host.storage().delete(&path.version(number))
    })
}

fn change(
    host: &dyn Host,
    call: &Call,
    one: impl Fn(&mut Metadata, u64) -> Result<(), Failure>,
) -> Result<Answer, Failure> {
    let path = SecretPath::of(call)?;
    let numbers = given::versions(call)?;
    let Some(mut metadata) = Metadata::read(host, &path)? else { return Ok(Answer::nothing()) };
    for number in numbers {
        one(&mut metadata, number)?;
    }
    metadata.put(host, &path, host.clock().now())?;
    Ok(Answer::nothing())
}

#[cfg(test)]
mod tests;
