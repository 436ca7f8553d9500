//! The doorman: an auth method that verifies nothing and returns the login that a test describes,
//! valid or not, so that tests can check the host's validation.
//!
//! The SDK is not used, because it cannot express a login without an alias.

#![allow(
    clippy::all,
    missing_docs,
    unreachable_pub,
    unsafe_code,
    reason = "half of it is generated from wit/"
)]

wit_bindgen::generate!({ path: "../../../wit", world: "auth-method" });

use bulkhead::plugin::storage;
use bulkhead::plugin::types::{Call, Context, Failure};
use exports::bulkhead::plugin::auth::{Alias, AuthAnswer, Guest, HeldLogin, Login, Outcome};
use serde_json::{Map, Value, json};

struct Doorman;

/// Key of the changes that the next renewals apply.
const RENEWALS: &str = "renewals";

fn refuse(code: &str, message: &str) -> Failure {
    let (code, message) = (code.to_owned(), message.to_owned());
    Failure { code, message, retry_after: None, ext: Vec::new() }
}

fn answer(outcome: Outcome) -> AuthAnswer {
    AuthAnswer { outcome, warnings: Vec::new(), ext: Vec::new() }
}

fn texts(said: &Value) -> Vec<String> {
    let list = said.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn pairs(said: &Value) -> Vec<(String, String)> {
    let pairs = said.as_object().into_iter().flatten();
    pairs
        .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()))
        .collect()
}

/// Builds the described login member by member. Without `alias`, the login is amy's.
fn login(said: &Map<String, Value>) -> Result<Login, Failure> {
    let member = |name: &str| said.get(name).cloned().unwrap_or_default();
    let number = |name: &str| member(name).as_u64().unwrap_or_default();
    if let Some(message) = member("refuse").as_str() {
        return Err(refuse("permission-denied", message));
    }
    let named = |name: String| Alias { name, metadata: pairs(&member("known")), ext: Vec::new() };
    let alias = match said.get("alias") {
        None => Some(named("amy".to_owned())),
        Some(name) => name.as_str().map(|name| named(name.to_owned())),
    };
    Ok(Login {
        display_name: member("display_name").as_str().unwrap_or_default().to_owned(),
        alias,
        group_aliases: said.get("groups").map(texts),
        policies: texts(&member("policies")),
        metadata: pairs(&member("metadata")),
        internal: match member("internal_bytes").as_u64() {
            Some(bytes) => "x".repeat(bytes as usize),
            None => Value::Object(said.clone()).to_string(),
        },
        ttl: number("ttl"),
        max_ttl: number("max_ttl"),
        explicit_max_ttl: number("explicit_max_ttl"),
        period: number("period"),
        num_uses: number("num_uses"),
        renewable: member("renewable").as_bool().unwrap_or(true),
        no_default_policy: member("no_default_policy").as_bool().unwrap_or_default(),
        token_type: member("token_type").as_str().unwrap_or_default().to_owned(),
        bound_cidrs: texts(&member("bound_cidrs")),
        ext: Vec::new(),
    })
}

fn said(text: &str) -> Map<String, Value> {
    let fields: Value = serde_json::from_str(text).unwrap_or_default();
    fields["say"].as_object().cloned().unwrap_or_default()
}

impl Guest for Doorman {
    fn describe() -> String {
        let say = json!([{"name": "say", "kind": "any", "about": "What to answer."}]);
        let row = |path: &str, login: bool| {
            let mut row =
                json!({"verb": "write", "path": path, "about": "Answers.", "fields": say});
            if login {
                row["login"] = json!(true);
            }
            row
        };
        json!({
            "kind": "auth-method", "name": "doorman", "version": "1.0.0", "schema": 1,
            "about": "Answers the login that it is told to.",
            "routes": [row("login", true), row("unmarked", false), row("renewals", false)],
        })
        .to_string()
    }

    fn migrate(_context: Context, _from: u32) -> Result<(), Failure> {
        Ok(())
    }

    /// Writes a record before the login; the record must be gone if the host refuses the login.
    fn handle(call: Call) -> Result<AuthAnswer, Failure> {
        let said = said(&call.fields);
        if call.route == "renewals" {
            storage::put(RENEWALS, Value::Object(said).to_string().as_bytes())?;
            return Ok(answer(Outcome::Nothing));
        }
        storage::put("came", call.caller.id.as_bytes())?;
        Ok(answer(Outcome::Login(login(&said)?)))
    }

    fn wake(_context: Context, _key: String, _attempt: u32) -> Result<(), Failure> {
        Ok(())
    }

    /// Returns the original login with the members of `renewals` replaced.
    fn renew_login(
        _context: Context,
        original: HeldLogin,
        _increment: u64,
    ) -> Result<Login, Failure> {
        let mut said: Map<String, Value> = serde_json::from_str(&original.internal)
            .map_err(|_| refuse("internal", "it was kept in another shape"))?;
        if let Some(over) = storage::get(RENEWALS)? {
            let over: Map<String, Value> = serde_json::from_slice(&over.value).unwrap_or_default();
            said.extend(over);
        }
        login(&said)
    }

    fn alias_lookahead(call: Call) -> Result<Option<String>, Failure> {
        let mut said = said(&call.fields);
        said.remove("refuse");
        Ok(login(&said)?.alias.map(|alias| alias.name))
    }
}

export!(Doorman);
