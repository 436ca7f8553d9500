//! `cubbyhole`: the values that the calling token keeps for itself.

use super::call::PermittedCall;
use super::reply::{Reply, ReplyBody};
use super::row::{self, Endpoint, field};
use bulkhead_access::cubbyhole;
use bulkhead_access::paging::Paging;
use bulkhead_access::tokens::TokenType;
use bulkhead_wire::description::FieldKind;
use bulkhead_wire::failure::Failure;

/// The capture of the path. The name is long, because a value may have a field of any name.
const PATH: &str = "cubbyhole_path";

/// Storage key of the rows; the key's presence tells an updating write from a creating write. The
/// pipeline adds token and path.
pub(crate) const EXISTENCE: &str = "cubbyhole";

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let at = "cubbyhole/{cubbyhole_path+}";
    let path = || field(PATH, FieldKind::String, "a path of your choice");
    let page = || {
        [
            field("after", FieldKind::String, "list only names after this name"),
            field("limit", FieldKind::String, "maximum number of names"),
        ]
    };
    vec![
        row::list("cubbyhole", "names in the calling token's cubbyhole")
            .fields(page())
            .handled_by(list),
        row::list(at, "names below a path in the calling token's cubbyhole")
            .fields([path()])
            .fields(page())
            .handled_by(list),
        row::read(at, "fields in the calling token's cubbyhole").fields([path()]).handled_by(read),
        row::write(at, "keep fields for the calling token")
            .fields([path()])
            .open_fields()
            .existence(EXISTENCE)
            .handled_by(write),
        row::delete(at, "forget the fields of the calling token")
            .fields([path()])
            .handled_by(delete),
    ]
}

/// Returns row key and path, for a caller that has a cubbyhole.
fn row_and_path<'a>(call: &PermittedCall<'a>) -> Result<(&'a str, &'a str), Failure> {
    if call.caller.kind == TokenType::Batch {
        return Err(Failure::invalid(
            "cubbyhole operations are only supported by non-batch tokens: a batch token is not \
             stored, so a value cannot end with the token; use a service token",
        ));
    }
    Ok((call.caller.hash.as_str(), call.fields.text(PATH)))
}

/// `LIST cubbyhole` and `LIST cubbyhole/:path`.
async fn list(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let (token, path) = row_and_path(&call)?;
    let folder = if path.is_empty() { String::new() } else { format!("{path}/") };
    let PermittedCall { core, fields, .. } = call;
    let paging = Paging::of(fields.all())?;
    let place = (token, folder.as_str());
    let listing = cubbyhole::list(&core.store, &core.listings, place, paging).await?;
    Ok(ReplyBody::Listed(listing.ok_or_else(Failure::absent)?).into())
}

/// `GET cubbyhole/:path`.
async fn read(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let (token, path) = row_and_path(&call)?;
    let fields = cubbyhole::read(call.unit, token, path).await?;
    Ok(ReplyBody::Data(fields.ok_or_else(Failure::absent)?).into())
}

/// `POST cubbyhole/:path`. Replaces all fields.
async fn write(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let (token, path) = row_and_path(&call)?;
    let data = call.request.fields.clone();
    if data.is_empty() {
        return Err(Failure::invalid("missing data fields: give at least one field to keep"));
    }
    cubbyhole::put(call.unit, token, path, data).await?;
    Ok(ReplyBody::Nothing.into())
}

/// `DELETE cubbyhole/:path`.
async fn delete(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let (token, path) = row_and_path(&call)?;
    cubbyhole::delete(call.unit, token, path);
    Ok(ReplyBody::Nothing.into())
}
