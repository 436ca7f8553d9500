//! `bulkhead token create · lookup`.

use crate::client::Call;
use crate::commands::Command;
use crate::options::{Opt, Options};
use crate::problem::Problem;
use crate::session::Session;
use hyper::Method;
use serde_json::{Map, Value, json};

/// The command.
pub const CREATE: Command = Command {
    words: "token create",
    takes: "",
    about: "create a token below your own",
    options: &[
        Opt { name: "policy", takes: Some("NAME"), about: "may be repeated; without it the token gets your policies" },
        Opt { name: "ttl", takes: Some("TIME"), about: "how long it lives without renewal: 3600, 1h, 30m" },
        Opt { name: "explicit-max-ttl", takes: Some("TIME"), about: "how long it lives however often it is renewed" },
        Opt { name: "display-name", takes: Some("NAME"), about: "becomes part of user names that it asks for" },
        Opt { name: "metadata", takes: Some("name=value"), about: "may be repeated" },
        Opt { name: "renewable", takes: Some("true|false"), about: "whether it can be renewed; true unless told" },
    ],
    run: create,
};

/// The command.
pub const LOOKUP: Command = Command {
    words: "token lookup",
    takes: "[TOKEN|-]",
    about: "show a token, your own unless told; - reads it from standard input, where no process list shows it",
    options: &[],
    run: lookup,
};

fn create(session: &mut Session<'_, '_>) -> Result<u8, Problem> {
    let [] = session.words()?;
    let body = Value::Object(asked(&session.options)?);
    let answer = session.ask("creating a token", &Call::new(Method::POST, "auth/token/create").with(body))?;
    session.show(&answer)
}

/// Only what was typed: the server's defaults are the server's.
fn asked(options: &Options) -> Result<Map<String, Value>, Problem> {
    let mut body = Map::new();
    let policies: Vec<&str> = options.values("policy").collect();
    if !policies.is_empty() {
        body.insert("policies".to_owned(), json!(policies));
    }
    let texts = ["ttl", "explicit-max-ttl", "display-name"];
    for (name, value) in texts.iter().filter_map(|name| Some((name, options.value(name)?))) {
        body.insert(name.replace('-', "_"), json!(value));
    }
    let metadata = options.values("metadata").map(|pair| {
        let (name, value) = pair.split_once('=').ok_or_else(|| Problem::usage("-metadata is name=value"))?;
        Ok((name.to_owned(), json!(value)))
    });
    let metadata = metadata.collect::<Result<Map<_, _>, Problem>>()?;
    if !metadata.is_empty() {
        body.insert("meta".to_owned(), Value::Object(metadata));
    }
    if let Some(renewable) = options.value("renewable") {
        let wrong = |_| Problem::usage(format!("-renewable is true or false, and not {renewable:?}"));
        body.insert("renewable".to_owned(), json!(renewable.parse::<bool>().map_err(wrong)?));
    }
    Ok(body)
}

fn lookup(session: &mut Session<'_, '_>) -> Result<u8, Problem> {
    let call = match session.options.words.as_slice() {
        [] => Call::new(Method::GET, "auth/token/lookup-self"),
        [word] => {
            let word = word.clone();
            let token = if word == "-" { session.text(&word)?.trim().to_owned() } else { word };
            Call::new(Method::POST, "auth/token/lookup").with(json!({"token": token}))
        }
        _ => return Err(session.usage()),
    };
    let answer = session.ask("looking a token up", &call)?;
    session.show(&answer)
}
