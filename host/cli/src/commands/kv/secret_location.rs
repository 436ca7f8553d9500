//! The place of a secret: its mount, the version of the mount's API, and the secret's name.
//!
//! This file prevents a request to the wrong API: the server says which version serves the path,
//! and the paths of both versions are built here only.

use crate::client::ServerRequest;
use crate::option::CommandOption;
use crate::problem::CommandProblem;
use crate::session::Session;
use hyper::Method;
use serde_json::Value;

/// The option that names the mount apart from the secret.
pub(super) const MOUNT: CommandOption =
    CommandOption::text("mount", "PATH", "the mount; the argument is then the name of the secret");

/// Reason of a refusal if no mount serves a path.
const NO_MOUNT: &str = "no mount serves this path";

/// The place of a secret or of a folder of secrets.
pub(super) struct SecretLocation {
    mount: String,
    key: String,
    is_versioned: bool,
}

impl SecretLocation {
    /// Asks the server for the mount of `typed`, which names a secret.
    ///
    /// # Errors
    /// A refusal by the server; a path that names no secret.
    pub(super) fn of_secret(
        session: &Session<'_, '_>,
        typed: &str,
    ) -> Result<Self, CommandProblem> {
        let place = Self::find(session, typed)?;
        if place.key.is_empty() {
            return Err(CommandProblem::usage(format!(
                "{typed:?} is a mount; add the name of a secret, as in {}/NAME",
                place.mount
            )));
        }
        Ok(place)
    }

    /// Asks the server for the mount of `typed`. The name below the mount may be empty.
    ///
    /// # Errors
    /// A refusal by the server.
    pub(super) fn find(session: &Session<'_, '_>, typed: &str) -> Result<Self, CommandProblem> {
        let mount = session.options.value("mount").map(|mount| mount.trim_matches('/'));
        let typed = typed.trim_matches('/');
        let lookup_path = mount.unwrap_or(typed);
        if lookup_path.is_empty() {
            return Err(session.usage_problem());
        }
        let call = ServerRequest::new(Method::GET, format!("sys/internal/ui/mounts/{lookup_path}"));
        let doing = format!("asking which mount serves {lookup_path}");
        let found = session.find_before(&doing, &call).map_err(with_next_command)?;
        let Some(answer) = found else {
            let problem = CommandProblem::refused(&doing, NO_MOUNT);
            return Err(with_next_command(problem));
        };
        let text = |at| answer.body.pointer(at).and_then(Value::as_str);
        let Some(found) = text("/data/path").map(|path| path.trim_matches('/')) else {
            return Err(CommandProblem::refused(&doing, "the answer names no mount"));
        };
        let key = match mount {
            Some(_) => typed,
            None => typed.strip_prefix(found).unwrap_or_default().trim_matches('/'),
        };
        Ok(Self {
            mount: found.to_owned(),
            key: key.to_owned(),
            is_versioned: text("/data/options/version") == Some("2"),
        })
    }

    /// True for a mount of version 2, which stores versions.
    pub(super) fn is_versioned(&self) -> bool {
        self.is_versioned
    }

    /// Returns the API path of the secret. `part` is the branch of the versioned API, such as
    /// `data`; the unversioned API has no branches.
    pub(super) fn path(&self, part: &str) -> String {
        let Self { mount, key, is_versioned } = self;
        let path =
            if *is_versioned { format!("{mount}/{part}/{key}") } else { format!("{mount}/{key}") };
        path.trim_end_matches('/').to_owned()
    }

    /// Refuses an action that needs a mount with versions.
    ///
    /// # Errors
    /// A mount without versions.
    pub(super) fn need_versions(&self, action: &str) -> Result<(), CommandProblem> {
        if self.is_versioned {
            return Ok(());
        }
        Err(CommandProblem::usage(format!(
            "{action} needs versions, and the mount {mount}/ keeps none; turn versions on with \
             `bulkhead kv enable-versioning {mount}`",
            mount = self.mount
        )))
    }
}

/// Adds the command that lists the mounts to a refusal of the path. The server answers 403 whether
/// the mount is missing or out of reach. A refusal that already names a command stays as it is.
fn with_next_command(problem: CommandProblem) -> CommandProblem {
    if !["(403)", NO_MOUNT].iter().any(|end| problem.message.ends_with(end)) {
        return problem;
    }
    let message = format!(
        "{}\nNext: bulkhead secrets list    # is a key-value mount at this path?",
        problem.message
    );
    CommandProblem { message, ..problem }
}
