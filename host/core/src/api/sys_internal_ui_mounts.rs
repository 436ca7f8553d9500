//! `sys/internal/ui/mounts`: which mounts a caller can see, also before there is a token.
//!
//! The attack this file stops: learning by asking which paths are mounted. Without a token only
//! those are shown that an operator made public; with one, those where its policies allow anything
//! at all. About a single path, everybody else gets one and the same refusal.

use super::row::{field, open};
use super::{Handler, PublicHandler, mount_info, sys_mounts};
use crate::core::Core;
use crate::mounts::{Class, Visibility};
use crate::policies::acl::Acl;
use bulkhead_wire::description::{FieldKind, Route, Verb};
use bulkhead_wire::failure::{Failure, quoted};
use serde_json::{Map, Value, json};
use sys_mounts::Serving;

/// What these endpoints do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    List,
    Read,
}

/// The rows of this file.
pub(super) fn rows() -> Vec<(Handler, Route)> {
    let path = vec![field("path", FieldKind::String, "a path of a mount or below it")];
    let rows = [
        (
            Act::List,
            open(
                Verb::Read,
                "sys/internal/ui/mounts",
                "the mounts that the caller can see",
                vec![],
            ),
        ),
        (
            Act::Read,
            open(
                Verb::Read,
                "sys/internal/ui/mounts/{path+}",
                "the mount that serves a path",
                path,
            ),
        ),
    ];
    rows.into_iter()
        .map(|(act, route)| (Handler::Public(PublicHandler::UiMounts(act)), route))
        .collect()
}

/// Serves a request, whoever makes it. `acl` is what the caller's token may do; `None` without one.
pub(super) fn serve(
    act: Act,
    core: &Core,
    acl: Option<&Acl>,
    values: &Map<String, Value>,
) -> Result<Map<String, Value>, Failure> {
    match act {
        Act::List => Ok(list(core, acl)),
        Act::Read => read(core, acl, super::text(values, "path")),
    }
}

fn list(core: &Core, acl: Option<&Acl>) -> Map<String, Value> {
    let seen = |class| {
        let mut seen = Map::new();
        for one in sys_mounts::serving(core, class) {
            let name = one.record().path.listed().to_owned();
            if reaches(acl, &one) {
                seen.insert(name, one.info().into());
            } else if one.record().settings.listing_visibility == Visibility::Unauth {
                seen.insert(name, mount_info::brief(one.record()).into());
            }
        }
        seen
    };
    let (secret, auth) = (seen(Class::Secret), seen(Class::Auth));
    Map::from_iter([("secret".to_owned(), secret.into()), ("auth".to_owned(), auth.into())])
}

fn read(core: &Core, acl: Option<&Acl>, path: &str) -> Result<Map<String, Value>, Failure> {
    let whole = format!("{path}/");
    let all =
        [Class::Secret, Class::Auth].into_iter().flat_map(|class| sys_mounts::serving(core, class));
    let found = all.into_iter().find(|one| whole.starts_with(one.record().path.as_str()));
    let found = found.filter(|one| reaches(acl, one)).ok_or_else(|| {
        let asked = quoted(&whole);
        // Behind the words that every refusal has, those that the CLI's users know.
        Failure::denied(format!(
            "preflight capability check returned 403, please ensure client's policies grant access to path {asked}"
        ))
    })?;
    let mut info = found.info();
    info.insert("path".to_owned(), json!(found.record().path));
    Ok(info)
}

fn reaches(acl: Option<&Acl>, one: &Serving) -> bool {
    acl.is_some_and(|acl| acl.reaches(one.record().path.as_str()))
}
