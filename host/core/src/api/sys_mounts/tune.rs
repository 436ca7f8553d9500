//! Tuning: reading and changing the settings of a mount.

use super::grants;
use super::mount_path::path;
use super::serving::{Serving, absent};
use super::settings::{self, Subject};
use crate::api::after_commit::AfterCommit;
use crate::api::call::Call;
use crate::api::reply::{Body, Reply};
use crate::mounts::{Change, Class, MountRecord, Phase};
use bulkhead_wire::description::Field;
use bulkhead_wire::failure::Failure;

/// The fields of tuning.
pub(crate) fn tuning_fields() -> Vec<Field> {
    [vec![path()], settings::fields(), grants::changes().into()].concat()
}

/// The settings that hold for a mount of a class.
pub(crate) fn read_tuning_in(class: Class, call: &Call<'_>) -> Result<Reply, Failure> {
    let serving = Serving::at(call.core, class, call.fields.text("path"))?;
    Ok(Body::Data(serving.effective_config(call.core.lifetimes)).into())
}

/// Changes the settings of a mount of a class.
pub(crate) async fn tune_in(class: Class, call: Call<'_>) -> Result<Reply, Failure> {
    let Call { core, unit, fields, request, .. } = call;
    let serving = Serving::at(core, class, fields.text("path"))?;
    let (path, running) = (&serving.record().path, serving.running());
    let builtin = match &serving {
        Serving::Builtin(which, _) => Some(*which),
        Serving::Mount(_) => None,
    };
    // As it is stored, so that of two who tune at once the later one runs again.
    let stored = match builtin {
        Some(which) => Some(which.read(&core.store, unit).await?),
        None => MountRecord::read(unit, path).await?,
    };
    let mut record = stored
        .filter(|record| record.phase == Phase::Serving)
        .ok_or_else(|| absent(class, path.listed()))?;
    let subject =
        Subject { class, builtin, kind: &serving.record().kind, running, system: core.lifetimes };
    let values = settings::said(fields.all(), &request.fields);
    let warnings = settings::change(&mut record.settings, &values, &subject)?;
    if values.contains_key("identity_token_key") {
        settings::check_identity_token_key(unit, &record.settings).await?;
    }
    let change = match builtin {
        Some(which) => {
            which.put(unit, &mut record)?;
            Change::TunedBuiltin(which, Box::new(record))
        }
        None => {
            record.put(unit)?;
            Change::Tuned(Box::new(record))
        }
    };
    let reply = Reply::from(Body::Nothing).with_warnings(warnings);
    Ok(reply.after_commit(AfterCommit::Mounts(change)))
}
