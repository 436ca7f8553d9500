//! `bulkhead login`: asks an auth method for a token and keeps the token for the next commands.
//!
//! This file prevents a password or token in a shell's history or on the screen: a missing secret
//! is asked for without showing the answer, and a stored token is not printed.

mod method;

use crate::client::{ServerAnswer, ServerRequest};
use crate::command::Command;
use crate::commands::paths::join_path;
use crate::option::CommandOption;
use crate::options::OutputFormat;
use crate::output::{self, TableRows};
use crate::problem::CommandProblem;
use crate::refusal::NO_METHOD_AT_PATH;
use crate::session::{RequestIdentity, Session};
use crate::wrapping::AnswerWrapping;
use bulkhead_wire::secret::Secret;
use hyper::Method as Verb;
use method::{LoginMethod, SERVED};
use serde_json::{Value, json};
use std::path::Path;

pub(crate) const LOGIN: Command = Command {
    words: "login",
    takes: "[TOKEN|-] | -method=METHOD [name=value ...]",
    about: "log in and keep the token in ~/.bulkhead-token for the next commands\n\n\
            Without -method, asks for a token and checks the token. \
            A TOKEN on the command line stays\n\
            in the shell's history.\n\
            -method=userpass username=NAME asks for the password.\n\
            -method=approle role_id=ID secret_id=- reads the secret ID from standard input.\n\
            -method=jwt, azure, gcp or kubernetes role=NAME jwt=@FILE sends a signed token.\n\
            Any other method is asked at auth/METHOD/login with the given fields.",
    options: &[&[
        CommandOption::text("method", "METHOD", "the auth method; token without this option"),
        CommandOption::text(
            "path",
            "PATH",
            "the mount of the method; the method's name without this option",
        ),
        CommandOption::switch("no-store", "do not keep the token"),
        CommandOption::switch("no-print", "print nothing about the token"),
        CommandOption::switch("token-only", "print only the token, and do not store the token"),
    ]],
    wrapping: AnswerWrapping::Sent,
    run,
};

/// The origin of a token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TokenOrigin {
    /// The caller typed the token.
    Typed,
    /// The server made the token for this login.
    New,
}

fn run(session: &mut Session<'_, '_>) -> Result<u8, CommandProblem> {
    let method = session.options.value("method").unwrap_or("token").to_owned();
    let (answer, origin) = match method.as_str() {
        "token" => (with_token(session)?, TokenOrigin::Typed),
        name => (with_method(session, name)?, TokenOrigin::New),
    };
    if output::is_wrapped(&answer.body) {
        return session.show(&answer);
    }
    let token = answer.body.pointer("/auth/client_token").and_then(Value::as_str);
    let token = token.filter(|token| !token.is_empty()).map(Secret::new).ok_or_else(|| {
        CommandProblem::refused(
            "logging in",
            "the answer has no token; does the method ask for more?",
        )
    })?;
    if session.options.switch("token-only") {
        session.options.field = Some("token".to_owned());
        session.options.format = Some(OutputFormat::Table);
        return session.show(&answer);
    }
    let stored = match session.options.switch("no-store") {
        true => None,
        false => Some(session.store_token(&token)?),
    };
    if session.options.switch("no-print") {
        return Ok(0);
    }
    show(session, &answer, origin, stored.as_deref())
}

/// Looks up a typed token with the token itself.
fn with_token(session: &mut Session<'_, '_>) -> Result<ServerAnswer, CommandProblem> {
    let typed = session.at_most_one_word()?;
    let typed = typed.as_deref().map(|word| word.strip_prefix("token=").unwrap_or(word));
    let token = Secret::new(session.secret_word(typed, "token")?);
    let call = ServerRequest::new(Verb::GET, "auth/token/lookup-self");
    let found =
        session.ask_as(RequestIdentity::Token(token.clone()), "checking the token", &call)?;
    if output::is_wrapped(&found.body) {
        return Ok(found);
    }
    let part = |name: &str| found.body.get("data").and_then(|data| data.get(name)).cloned();
    let auth = json!({
        "client_token": token.expose(),
        "accessor": part("accessor"),
        "lease_duration": part("ttl"),
        "renewable": part("renewable").unwrap_or(Value::Bool(false)),
        "token_policies": part("policies"),
        "identity_policies": part("identity_policies"),
        "policies": part("policies"),
        "metadata": part("meta"),
    });
    let body = json!({ "request_id": "", "auth": auth, "data": null, "warnings": null });
    Ok(ServerAnswer { status: found.status, body })
}

fn with_method(session: &mut Session<'_, '_>, name: &str) -> Result<ServerAnswer, CommandProblem> {
    method::check_served(name, session.options.value("path"))?;
    let method = LoginMethod::from_name(name);
    let words = session.options.words.clone();
    let mut fields = session.fields(&words)?;
    method.complete(session, &mut fields)?;
    let path = session.options.value("path").unwrap_or(name);
    let mount = join_path("auth", path.trim_matches('/').trim_start_matches("auth/"), "the mount")?;
    let call = method.call(&mount, fields)?;
    let answer =
        session.ask_as(RequestIdentity::Anonymous, &format!("logging in at {mount}"), &call);
    answer.map_err(|problem| with_methods(problem, name))
}

/// Adds the methods of this version to the refusal of a path where nothing is mounted.
fn with_methods(problem: CommandProblem, name: &str) -> CommandProblem {
    if !problem.message.ends_with(NO_METHOD_AT_PATH) || LoginMethod::is_known(name) {
        return problem;
    }
    let message = format!("{}\nThe methods of this version are {SERVED}.", problem.message);
    CommandProblem { message, ..problem }
}

fn show(
    session: &mut Session<'_, '_>,
    answer: &ServerAnswer,
    origin: TokenOrigin,
    stored: Option<&Path>,
) -> Result<u8, CommandProblem> {
    if !session.options.is_for_people() {
        return session.show(answer);
    }
    if let (Some(variable), Some(_)) = (session.token_variable(), stored) {
        session.note(&format!(
            "warning: {variable} is set, and hides the stored token from the commands"
        ));
    }
    let mut rows = output::rows(&answer.body);
    if stored.is_some() || origin == TokenOrigin::Typed {
        hide_token(&mut rows, stored.is_some());
    }
    let place = stored.map_or_else(
        || "You are logged in. The token is not stored.".to_owned(),
        |file| format!("You are logged in. The next commands use the token in {}.", file.display()),
    );
    let place = crate::terminal::escape_controls(&place);
    session.show_text(answer, &format!("{place}\n\n{}", output::table(&rows)))
}

fn hide_token(rows: &mut TableRows, is_stored: bool) {
    let shown =
        if is_stored { "(stored; `bulkhead print token` prints it)" } else { "(not shown)" };
    for (_, value) in rows.iter_mut().filter(|(name, _)| name == "token") {
        *value = json!(shown);
    }
}
