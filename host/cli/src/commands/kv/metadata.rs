//! `bulkhead kv metadata get · put · patch · delete`.

use crate::client::ServerRequest;
use crate::command::Command;
use crate::commands::kv::secret_location::{MOUNT, SecretLocation};
use crate::commands::kv::sections;
use crate::option::CommandOption;
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::wrapping::AnswerWrapping;
use hyper::Method;
use serde_json::{Map, Value};

pub(crate) const GET: Command = Command {
    words: "kv metadata get",
    takes: "PATH | -mount=MOUNT NAME",
    about: "show the settings and versions of a secret",
    options: &[&[MOUNT]],
    wrapping: AnswerWrapping::Sent,
    run: get,
};

pub(crate) const PUT: Command = Command {
    words: "kv metadata put",
    takes: "PATH | -mount=MOUNT NAME",
    about: "write the settings of a secret; omitted custom metadata are removed",
    options: &[&[MOUNT], &SETTINGS],
    wrapping: AnswerWrapping::Sent,
    run: put,
};

pub(crate) const PATCH: Command = Command {
    words: "kv metadata patch",
    takes: "PATH | -mount=MOUNT NAME",
    about: "change some settings of a secret and keep the others",
    options: &[
        &[
            MOUNT,
            CommandOption::list(
                "remove-custom-metadata",
                "NAME",
                "remove this entry; may be repeated",
            ),
        ],
        &SETTINGS,
    ],
    wrapping: AnswerWrapping::Sent,
    run: patch,
};

pub(crate) const DELETE: Command = Command {
    words: "kv metadata delete",
    takes: "PATH | -mount=MOUNT NAME",
    about: "delete a secret with all versions and settings, for good",
    options: &[&[MOUNT]],
    wrapping: AnswerWrapping::Sent,
    run: delete,
};

const SETTINGS: [CommandOption; 4] = [
    CommandOption::number(
        "max-versions",
        "how many versions are kept; 0: as many as the mount says",
    )
    .with_field("max_versions"),
    CommandOption::switch("cas-required", "every write must name the newest version with -cas")
        .with_field("cas_required"),
    CommandOption::text(
        "delete-version-after",
        "TIME",
        "delete each version after this time: 3h, 0s: never",
    )
    .with_field("delete_version_after"),
    CommandOption::pairs("custom-metadata", "a note on the secret; may be repeated")
        .with_field("custom_metadata"),
];

/// Returns the place and the API path of the metadata.
fn path(session: &Session<'_, '_>) -> Result<String, CommandProblem> {
    let [typed] = session.words()?;
    let place = SecretLocation::of_secret(session, &typed)?;
    place.need_versions("kv metadata")?;
    Ok(place.path("metadata"))
}

fn get(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let path = path(session)?;
    let call = ServerRequest::new(Method::GET, path.as_str());
    let Some(answer) = session.find(&format!("reading {path}"), &call)? else {
        return Err(CommandProblem::nothing_at(&path));
    };
    // The data of a wrapped answer are null.
    let data = answer.body.get("data").and_then(Value::as_object).cloned();
    match data {
        Some(data) if session.options.is_for_people() => {
            let text = format!("{}{}", sections::path("Metadata Path", &path), tables(data));
            session.show_text(&answer, &text)
        }
        _ => session.show(&answer),
    }
}

/// Renders the settings, and then each version in the order of the numbers.
fn tables(mut data: Map<String, Value>) -> String {
    let versions = data.remove("versions").unwrap_or_default();
    let numbered = versions.as_object().into_iter().flatten();
    let mut numbered: Vec<(u64, &Map<String, Value>)> = numbered
        .filter_map(|(number, version)| Some((number.parse().ok()?, version.as_object()?)))
        .collect();
    numbered.sort_by_key(|(number, _)| *number);
    let versions = numbered
        .into_iter()
        .map(|(number, version)| sections::table(&format!("Version {number}"), version));
    let all: Vec<String> =
        [sections::table("Metadata", &data)].into_iter().chain(versions).collect();
    all.join("\n")
}

fn put(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let path = path(session)?;
    let body = Value::Object(session.options.fields(&SETTINGS));
    let call = ServerRequest::new(Method::PUT, path.as_str()).with_fields(body);
    let answer = session.ask(&format!("writing {path}"), &call)?;
    session.show_or(&answer, &format!("wrote {path}"))
}

fn patch(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let body = changes(session);
    if body.is_empty() {
        return Err(CommandProblem::usage("there is nothing to change; give an option"));
    }
    let path = path(session)?;
    let call =
        ServerRequest::new(Method::PATCH, path.as_str()).with_merge_patch(Value::Object(body));
    let answer = session.ask(&format!("patching {path}"), &call)?;
    session.show_or(&answer, &format!("changed {path}"))
}

/// Returns the given settings. A removed entry is null.
fn changes(session: &Session<'_, '_>) -> Map<String, Value> {
    let mut body = session.options.fields(&SETTINGS);
    let removed: Vec<&str> = session.options.values("remove-custom-metadata").collect();
    if !removed.is_empty() {
        let custom = body.entry("custom_metadata").or_insert_with(|| Value::Object(Map::new()));
        let removed = removed.into_iter().map(|name| (name.to_owned(), Value::Null));
        if let Some(custom) = custom.as_object_mut() {
            custom.extend(removed);
        }
    }
    body
}

fn delete(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let path = path(session)?;
    let call = ServerRequest::new(Method::DELETE, path.as_str());
    let answer = session.ask(&format!("deleting {path}"), &call)?;
    session.show_or(&answer, &format!("deleted {path} with all versions, if present"))
}
