//! `GET sys/leases/count` and `GET sys/leases`: irrevocable leases, which need an operator
//! (decision P13).

use crate::endpoints::call::{PermittedCall, RequestFields};
use crate::endpoints::reply::{Reply, ReplyBody};
use crate::endpoints::row::{Endpoint, field, read};
use bulkhead_wire::description::FieldKind;
use bulkhead_wire::failure::{Failure, quoted};
use serde_json::{Map, json};

/// Maximum number of leases in an answer, unless the caller forces more.
const MAX_LISTED_LEASES: usize = 10_000;

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let which = || {
        let children = "accepted and of no effect: there are no namespaces";
        [
            field("type", FieldKind::String, "which leases: irrevocable"),
            field("include_child_namespaces", FieldKind::Bool, children),
        ]
    };
    let part = [
        field("limit", FieldKind::String, "maximum number of entries"),
        field("force", FieldKind::Bool, "list more than 10,000"),
    ];
    vec![
        read("sys/leases/count", "number of irrevocable leases").fields(which()).handled_by(count),
        read("sys/leases", "irrevocable leases")
            .needs_sudo()
            .fields(which())
            .fields(part)
            .handled_by(list),
    ]
}

/// `GET sys/leases/count`, by the accessor of the mount.
async fn count(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, fields, .. } = call;
    require_irrevocable(fields)?;
    let counts = core.leases.count_irrevocable().await?;
    let total: u64 = counts.values().sum();
    let data = [("lease_count".to_owned(), json!(total)), ("counts".to_owned(), json!(counts))];
    Ok(ReplyBody::Data(Map::from_iter(data)).into())
}

/// `GET sys/leases`.
async fn list(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let PermittedCall { core, fields, .. } = call;
    require_irrevocable(fields)?;
    let limit = limit(fields.text("limit"))?;
    let allowed = if fields.flag("force", false) { usize::MAX } else { MAX_LISTED_LEASES };
    let total: u64 = core.leases.count_irrevocable().await?.values().sum();
    let found = core.leases.list_irrevocable(limit.min(allowed)).await?;
    let is_cut = limit > allowed && total > u64::try_from(allowed).unwrap_or(u64::MAX);
    let warning = is_cut.then(|| {
        format!(
            "there are {total} irrevocable leases and the first {MAX_LISTED_LEASES} are listed; \
             send force=true for all"
        )
    });
    let leases: Vec<_> =
        found.iter().map(|lease| json!({"lease_id": lease.id, "error": lease.error})).collect();
    let data = [("lease_count".to_owned(), json!(total)), ("leases".to_owned(), json!(leases))];
    Ok(Reply::from(ReplyBody::Data(Map::from_iter(data))).with_warnings(warning))
}

fn require_irrevocable(fields: RequestFields<'_>) -> Result<(), Failure> {
    match fields.text("type") {
        "irrevocable" => Ok(()),
        "" => {
            Err(Failure::invalid("type is required: send type=irrevocable, the only type there is"))
        }
        other => Err(Failure::invalid(format!(
            "type {} is not known: send type=irrevocable",
            quoted(other)
        ))),
    }
}

/// Parses the limit; an empty text and `none` mean no limit.
fn limit(text: &str) -> Result<usize, Failure> {
    match text {
        "" | "none" => Ok(usize::MAX),
        number => number.parse().ok().filter(|limit| *limit > 0).ok_or_else(|| {
            Failure::invalid(format!(
                "limit {} is not a whole number above 0; \"none\" means all",
                quoted(number)
            ))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn irrevocable_limit_is_positive_number_or_none() {
        assert_eq!(limit(""), Ok(usize::MAX));
        assert_eq!(limit("none"), Ok(usize::MAX));
        assert_eq!(limit("3"), Ok(3));
        for wrong in ["0", "-1", "many", "1.5"] {
            assert!(limit(wrong).is_err_and(|refused| refused.message.contains(wrong)), "{wrong}");
        }
    }
}
