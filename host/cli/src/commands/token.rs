//! `bulkhead token create · lookup · renew · revoke · capabilities`.
//!
//! This file prevents a token from appearing in a process list, a shell's history, or on a visible
//! screen. `-` reads the token from standard input, and only `create` prints a token by default.

use crate::client::{ServerAnswer, ServerRequest};
use crate::command::Command;
use crate::commands::paths::join_path;
use crate::option::CommandOption;
use crate::output::{self, TableRows};
use crate::problem::CommandProblem;
use crate::session::Session;
use crate::wrapping::AnswerWrapping;
use hyper::Method;
use serde_json::{Map, Value, json};

pub(crate) const CREATE: Command = Command {
    words: "token create",
    takes: "",
    about: "create a token below your own",
    options: &[&NEW, &[ROLE, ID]],
    wrapping: AnswerWrapping::Sent,
    run: create,
};

pub(crate) const LOOKUP: Command = Command {
    words: "token lookup",
    takes: "[TOKEN|ACCESSOR|-]",
    about: "show a token; your own without an argument\n\n\
            - reads the token from standard input, hidden from process lists.",
    options: &[&[ACCESSOR]],
    wrapping: AnswerWrapping::Sent,
    run: lookup,
};

pub(crate) const RENEW: Command = Command {
    words: "token renew",
    takes: "[TOKEN|ACCESSOR|-]",
    about: "renew a token; your own without an argument\n\n\
            - reads the token from standard input, hidden from process lists.",
    options: &[&[INCREMENT, ACCESSOR]],
    wrapping: AnswerWrapping::Sent,
    run: renew,
};

pub(crate) const REVOKE: Command = Command {
    words: "token revoke",
    takes: "TOKEN|ACCESSOR|- | -self | -mode=path PATH",
    about: "revoke a token with its leases and its children\n\n\
            - reads the token from standard input, hidden from process lists.",
    options: &[&[
        ACCESSOR,
        CommandOption::switch("self", "revoke your own token"),
        CommandOption::text(
            "mode",
            "orphan|path",
            "orphan: the children live on; path: every token of the logins below a path",
        ),
    ]],
    wrapping: AnswerWrapping::Sent,
    run: revoke,
};

pub(crate) const CAPABILITIES: Command = Command {
    words: "token capabilities",
    takes: "[TOKEN|ACCESSOR|-] PATH",
    about: "show the rights of a token at a path; your own token without an argument\n\n\
            - reads the token from standard input, hidden from process lists.",
    options: &[&[ACCESSOR]],
    wrapping: AnswerWrapping::Sent,
    run: capabilities,
};

const ACCESSOR: CommandOption =
    CommandOption::switch("accessor", "the argument is an accessor, not a token");
const INCREMENT: CommandOption =
    CommandOption::text("increment", "TIME", "the new lifetime, from now: 3600, 1h, 30m")
        .with_field("increment");
const ROLE: CommandOption = CommandOption::text("role", "NAME", "the token role to use");
const ID: CommandOption = CommandOption::text(
    "id",
    "TOKEN|-",
    "the text of the token; random without this option; - reads standard input",
);

const NEW: [CommandOption; 12] = [
    CommandOption::names(
        "policy",
        "NAME",
        "policies, separated by commas; may be repeated; yours without this option",
    )
    .with_field("policies"),
    CommandOption::text("ttl", "TIME", "lifetime until the first renewal: 3600, 1h, 30m")
        .with_field("ttl"),
    CommandOption::text("explicit-max-ttl", "TIME", "maximum lifetime, with all renewals")
        .with_field("explicit_max_ttl"),
    CommandOption::text(
        "period",
        "TIME",
        "each renewal within this time extends the token by the same time",
    )
    .with_field("period"),
    CommandOption::number("use-limit", "maximum number of requests; 0: no limit")
        .with_field("num_uses"),
    CommandOption::switch("renewable", "-renewable=false makes a token without renewals")
        .with_field("renewable"),
    CommandOption::switch("orphan", "create a token without a parent, which can outlive yours")
        .with_field("no_parent"),
    CommandOption::switch("no-default-policy", "leave out the policy named default")
        .with_field("no_default_policy"),
    CommandOption::text(
        "type",
        "service|batch",
        "a batch token is not stored: no renewal, no revocation, no children",
    )
    .with_field("type"),
    CommandOption::text(
        "display-name",
        "NAME",
        "becomes part of the user names of issued credentials",
    )
    .with_field("display_name"),
    CommandOption::pairs("metadata", "may be repeated").with_field("meta"),
    CommandOption::text("entity-alias", "NAME", "the alias of the token's entity; needs -role")
        .with_field("entity_alias"),
];

/// The token that a command acts on.
enum TokenSubject {
    Own,
    Token(String),
    Accessor(String),
}

impl TokenSubject {
    /// Reads the token or accessor that `typed` and `-accessor` name.
    fn read(session: &mut Session<'_, '_>, typed: Option<&str>) -> Result<Self, CommandProblem> {
        match (typed, session.options.switch("accessor")) {
            (None, false) => Ok(Self::Own),
            (None, true) => Err(session.usage_problem()),
            (Some(word), false) => session.secret_word(Some(word), "token").map(Self::Token),
            (Some(word), true) => session.secret_word(Some(word), "accessor").map(Self::Accessor),
        }
    }

    /// Builds a call of the endpoint `base` for this token, with `fields` besides the token itself.
    fn call(self, base: &str, mut fields: Map<String, Value>) -> ServerRequest {
        let suffix = match self {
            Self::Own => "-self",
            Self::Token(token) => {
                fields.insert("token".to_owned(), json!(token));
                ""
            }
            Self::Accessor(accessor) => {
                fields.insert("accessor".to_owned(), json!(accessor));
                "-accessor"
            }
        };
        ServerRequest::new(Method::POST, format!("{base}{suffix}"))
            .with_fields(Value::Object(fields))
    }
}

fn create(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let [] = session.words()?;
    // An unset variable must not create a token with more policies or a longer life than intended.
    if let Some(opt) = session.options.first_empty(&[&NEW[..], &[ROLE, ID]].concat()) {
        return Err(CommandProblem::usage(format!(
            "-{} is empty; leave the option out, or give a value",
            opt.name
        )));
    }
    let mut body = session.options.fields(&NEW);
    if let Some(id) = session.options.value("id").map(str::to_owned) {
        body.insert("id".to_owned(), json!(session.secret_word(Some(&id), "token")?));
    }
    let path = match session.options.value("role") {
        Some(role) => join_path("auth/token/create", role, "the role")?,
        None => "auth/token/create".to_owned(),
    };
    let answer = session.ask(
        "creating a token",
        &ServerRequest::new(Method::POST, path).with_fields(Value::Object(body)),
    )?;
    session.show(&answer)
}

fn lookup(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let typed = session.at_most_one_word()?;
    let call = match TokenSubject::read(session, typed.as_deref())? {
        // The default policy allows a token to read its own data.
        TokenSubject::Own => ServerRequest::new(Method::GET, "auth/token/lookup-self"),
        other => other.call("auth/token/lookup", Map::new()),
    };
    let answer = session.ask("looking a token up", &call)?;
    session.show_rows(&answer, rows_without(&answer, "id"))
}

fn renew(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let typed = session.at_most_one_word()?;
    let fields = session.options.fields(&[INCREMENT]);
    let call = TokenSubject::read(session, typed.as_deref())?.call("auth/token/renew", fields);
    let answer = session.ask("renewing a token", &call)?;
    session.show_rows(&answer, rows_without(&answer, "token"))
}

/// Returns the rows of an answer without the token, which the caller already has.
fn rows_without(answer: &ServerAnswer, name: &str) -> TableRows {
    let mut rows = output::rows(&answer.body);
    let is_token = |value: &Value| value.as_str().is_some_and(|token| !token.is_empty());
    for (_, value) in
        rows.iter_mut().filter(|(row_name, value)| row_name == name && is_token(value))
    {
        *value = json!(format!("(not shown; -field={name} prints it)"));
    }
    rows
}

/// Tokens that end with a revocation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RevocationScope {
    /// The token, its leases and its children.
    WithChildren,
    /// The token and its leases.
    Orphaning,
    /// All tokens that logins below a path got.
    Path,
}

impl RevocationScope {
    /// Reads `-mode`.
    fn read(session: &Session<'_, '_>) -> Result<Self, CommandProblem> {
        match session.options.value("mode") {
            None | Some("") => Ok(Self::WithChildren),
            Some("orphan") => Ok(Self::Orphaning),
            Some("path") => Ok(Self::Path),
            Some(other) => Err(CommandProblem::usage(format!(
                "-mode is orphan or path, and not {other:?}; without -mode the children end, too"
            ))),
        }
    }
}

fn revoke(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let typed = session.at_most_one_word()?;
    let is_own = session.options.switch("self");
    if is_own == typed.is_some() {
        return Err(CommandProblem::usage(
            "give either the token to revoke, or -self to revoke your own",
        ));
    }
    let scope = RevocationScope::read(session)?;
    if scope == RevocationScope::Path {
        return revoke_below(session, typed);
    }
    let subject = TokenSubject::read(session, typed.as_deref())?;
    let (call, done) = revocation(subject, scope)?;
    let answer = session.ask("revoking a token", &call)?;
    // The server warns about an accessor that no token has.
    let is_unknown =
        session.options.switch("accessor") && output::warnings(&answer).next().is_some();
    session.show_or(&answer, if is_unknown { "no token was revoked" } else { done })
}

/// Returns the request that ends one token, and the sentence about its effect. The server does not
/// tell whether a token that was named by its text was valid.
fn revocation(
    subject: TokenSubject,
    scope: RevocationScope,
) -> Result<(ServerRequest, &'static str), CommandProblem> {
    let done = match (&subject, scope) {
        (TokenSubject::Token(_), RevocationScope::Orphaning) => {
            let call = subject.call("auth/token/revoke-orphan", Map::new());
            let done =
                "revoked the token and all its leases; the children live on without a parent";
            return Ok((call, done));
        }
        (TokenSubject::Own | TokenSubject::Accessor(_), RevocationScope::Orphaning) => {
            return Err(CommandProblem::usage(
                "-mode=orphan needs the token itself; leave -self and -accessor out",
            ));
        }
        (TokenSubject::Own, _) => "revoked your token, with all leases and children",
        (TokenSubject::Token(_), _) => "revoked the token, if valid, with all leases and children",
        (TokenSubject::Accessor(_), _) => {
            "revoked the token of this accessor, with all leases and children"
        }
    };
    Ok((subject.call("auth/token/revoke", Map::new()), done))
}

/// Ends all tokens that logins below a path got, with their leases.
fn revoke_below(
    session: &mut Session<'_, '_>,
    typed: Option<String>,
) -> Result<u8, CommandProblem> {
    let prefix = typed.filter(|_| !session.options.switch("accessor")).ok_or_else(|| {
        CommandProblem::usage(
            "-mode=path needs the path of a login, such as auth/userpass; leave -self and \
             -accessor out",
        )
    })?;
    let path = join_path("sys/leases/revoke-prefix", &prefix, "the path")?;
    let call = ServerRequest::new(Method::PUT, path);
    let answer = session.ask(&format!("revoking every token below {prefix}"), &call)?;
    session.show_or(&answer, &format!("revoked every token and lease below {prefix}"))
}

fn capabilities(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let (typed, path) = match session.options.words.as_slice() {
        [path] => (None, path.clone()),
        [token, path] => (Some(token.clone()), path.clone()),
        _ => return Err(session.usage_problem()),
    };
    let subject = TokenSubject::read(session, typed.as_deref())?;
    let fields = Map::from_iter([("paths".to_owned(), json!([path]))]);
    let doing = format!("asking for the rights of a token at {path}");
    let answer = session.ask(&doing, &subject.call("sys/capabilities", fields))?;
    if output::is_wrapped(&answer.body) {
        return session.show(&answer);
    }
    let Some(listed) = answer.body.pointer("/data/capabilities").and_then(Value::as_array) else {
        return Err(CommandProblem::refused(&doing, "the answer names no capabilities"));
    };
    let line: Vec<String> = listed.iter().map(output::text).collect();
    let line = format!("{}\n", crate::terminal::escape_controls(&line.join(", ")));
    session.show_part(&answer, &Value::Array(listed.clone()), &line)
}
