//! `sys/internal/ui/mounts`: the mounts visible to a caller, also without a token.
//!
//! This file prevents callers from finding out which paths are mounted. Without a token, the list
//! has only the mounts made public by an operator; with a token, also the mounts where the caller's
//! policies allow anything at all. A request for a single path gets the same refusal whether the
//! mount is missing or out of reach.

use super::call::PublicCall;
use super::envelope::public_data;
use super::row::{self, Endpoint, field};
use super::sys_mounts::info;
use super::sys_mounts::serving::{MountListingEntry, serving};
use bulkhead_access::policies::acl::Acl;
use bulkhead_core::mounts::{ListingVisibility, MountClass};
use bulkhead_wire::description::FieldKind;
use bulkhead_wire::failure::{Failure, quoted};
use bulkhead_wire::response::Response;
use serde_json::{Map, json};

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let path = field("path", FieldKind::String, "a path of a mount or below a mount");
    vec![
        row::read("sys/internal/ui/mounts", "the mounts visible to the caller")
            .without_a_token(list),
        row::read("sys/internal/ui/mounts/{path+}", "the mount of a path")
            .fields([path])
            .without_a_token(read),
    ]
}

/// `GET sys/internal/ui/mounts`.
async fn list(call: PublicCall<'_>) -> Result<Response, Failure> {
    let PublicCall { core, acl, request, .. } = call;
    if acl.is_none() && request.token.as_ref().is_some_and(|sent| !sent.expose().is_empty()) {
        return Err(Failure::denied("bad token: the token is unknown, expired or revoked"));
    }
    let now = core.store.now();
    let seen = |class| {
        let mut seen = Map::new();
        for one in serving(core, class) {
            let name = one.record().path.listed().to_owned();
            if may_reach_mount(acl, &one) {
                seen.insert(name, one.info(now).into());
            } else if one.record().settings.listing_visibility == ListingVisibility::Unauth {
                seen.insert(name, info::brief(one.record()).into());
            }
        }
        seen
    };
    let (secret, auth) = (seen(MountClass::Secret), seen(MountClass::Auth));
    let data = [("secret".to_owned(), secret.into()), ("auth".to_owned(), auth.into())];
    Ok(public_data(request, Map::from_iter(data)))
}

/// `GET sys/internal/ui/mounts/:path`.
async fn read(call: PublicCall<'_>) -> Result<Response, Failure> {
    let PublicCall { core, acl, .. } = call;
    let full_path = format!("{}/", call.fields.text("path"));
    let all =
        [MountClass::Secret, MountClass::Auth].into_iter().flat_map(|class| serving(core, class));
    let found = all.into_iter().find(|one| full_path.starts_with(one.record().path.as_str()));
    let found = found.filter(|one| may_reach_mount(acl, one)).ok_or_else(|| {
        let path = quoted(&full_path);
        // The common words of a refusal come first; users of the CLI know the words that follow.
        Failure::denied(format!(
            "preflight capability check returned 403, please ensure client's policies grant access \
             to path {path}"
        ))
    })?;
    let mut info = found.info(core.store.now());
    info.insert("path".to_owned(), json!(found.record().path));
    Ok(public_data(call.request, info))
}

fn may_reach_mount(acl: Option<&Acl>, one: &MountListingEntry) -> bool {
    acl.is_some_and(|acl| acl.may_reach(one.record().path.as_str()))
}
