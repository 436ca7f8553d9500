//! `bulkhead lease list · lookup · renew · revoke`. The lease id is in the body, where no proxy
//! logs it.

use crate::client::ServerRequest;
use crate::command::Command;
use crate::commands::list;
use crate::commands::paths::join_path;
use crate::option::CommandOption;
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::wrapping::AnswerWrapping;
use hyper::Method;
use serde_json::{Value, json};

pub(crate) const LIST: Command = Command {
    words: "lease list",
    takes: "[PREFIX]",
    about: "list the leases below a path, such as database/creds/reader",
    options: &[],
    wrapping: AnswerWrapping::Sent,
    run: list,
};

pub(crate) const LOOKUP: Command = Command {
    words: "lease lookup",
    takes: "LEASE_ID",
    about: "show the start and the end of a lease",
    options: &[],
    wrapping: AnswerWrapping::Sent,
    run: lookup,
};

pub(crate) const RENEW: Command = Command {
    words: "lease renew",
    takes: "LEASE_ID",
    about: "renew a lease",
    options: &[&[INCREMENT]],
    wrapping: AnswerWrapping::Sent,
    run: renew,
};

pub(crate) const REVOKE: Command = Command {
    words: "lease revoke",
    takes: "LEASE_ID | -prefix PREFIX | -force -prefix PREFIX",
    about: "revoke a lease, or all leases below a path, and wait for the end of the credentials",
    options: &[&[
        SYNC,
        CommandOption::switch("prefix", "revoke every lease below the path"),
        CommandOption::switch(
            "force",
            "with -prefix: forget leases that cannot be revoked; credentials may stay valid",
        ),
    ]],
    wrapping: AnswerWrapping::Sent,
    run: revoke,
};

const INCREMENT: CommandOption =
    CommandOption::text("increment", "TIME", "the new lifetime, from now: 3600, 1h, 30m")
        .with_field("increment");
const SYNC: CommandOption =
    CommandOption::switch("sync", "-sync=false does not wait for the end of the credentials")
        .with_field("sync");

fn list(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let prefix = session.at_most_one_word()?.unwrap_or_default();
    list::list_names(session, &format!("sys/leases/lookup/{prefix}"))
}

fn lookup(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [lease] = session.words()?;
    let call = ServerRequest::new(Method::PUT, "sys/leases/lookup")
        .with_fields(json!({"lease_id": lease}));
    let answer = session.ask(&format!("looking up {lease}"), &call)?;
    session.show(&answer)
}

fn renew(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [lease] = session.words()?;
    let mut body = session.options.fields(&[INCREMENT]);
    body.insert("lease_id".to_owned(), json!(lease));
    let call = ServerRequest::new(Method::PUT, "sys/leases/renew").with_fields(Value::Object(body));
    let answer = session.ask(&format!("renewing {lease}"), &call)?;
    session.show(&answer)
}

fn revoke(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [named] = session.words()?;
    let mut body = session.options.fields(&[SYNC]);
    let (path, what) = match (session.options.switch("prefix"), session.options.switch("force")) {
        (false, false) => {
            body.insert("lease_id".to_owned(), json!(named));
            ("sys/leases/revoke".to_owned(), named)
        }
        (true, false) => (
            join_path("sys/leases/revoke-prefix", &named, PREFIX)?,
            format!("every lease below {named}"),
        ),
        (true, true) if body.is_empty() => (
            join_path("sys/leases/revoke-force", &named, PREFIX)?,
            format!("every lease below {named}, by force"),
        ),
        (true, true) => {
            return Err(CommandProblem::usage("-force waits for nothing; leave -sync out"));
        }
        (false, true) => {
            return Err(CommandProblem::usage(
                "-force is for everything below a path; give -prefix too",
            ));
        }
    };
    let call = ServerRequest::new(Method::PUT, path).with_fields(Value::Object(body));
    let answer = session.ask(&format!("revoking {what}"), &call)?;
    let done = if answer.status == 202 { "will be revoked soon" } else { "revoked" };
    session.show_or(&answer, &format!("{done}: {what}"))
}

/// Noun of the prefix in error messages.
const PREFIX: &str = "the prefix";
