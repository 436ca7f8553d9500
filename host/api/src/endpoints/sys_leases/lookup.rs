//! `LIST sys/leases/lookup`: lists the leases below a path, for callers without the ids. Leases of
//! tokens are below `auth/`.

use super::token_leases;
use crate::endpoints::call::PermittedCall;
use crate::endpoints::reply::{Reply, ReplyBody};
use crate::endpoints::row::{self, Endpoint, field};
use bulkhead_access::paging::{Paging, SortedNames};
use bulkhead_wire::description::FieldKind;
use bulkhead_wire::failure::Failure;

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let part = || {
        [
            field("after", FieldKind::String, "list only names after this name"),
            field("limit", FieldKind::String, "maximum number of entries"),
        ]
    };
    let prefix = field(
        "prefix",
        FieldKind::String,
        "the beginning of their paths, at the border of a segment",
    );
    let listing = |path| row::list(path, "leases and folders of leases below a path").needs_sudo();
    vec![
        listing("sys/leases/lookup").fields(part()).handled_by(list),
        listing("sys/leases/lookup/{prefix+}").fields([prefix]).fields(part()).handled_by(list),
    ]
}

/// Lists the names directly below the prefix.
async fn list(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, fields, .. } = call;
    let mut names = SortedNames::new(&core.listings, Paging::of(fields.all())?);
    let path = fields.text("prefix");
    core.leases.add_names(path, &mut names).await?;
    token_leases::add_names(core, path, &mut names).await?;
    Ok(ReplyBody::Listed(names.end().ok_or_else(Failure::absent)?).into())
}
