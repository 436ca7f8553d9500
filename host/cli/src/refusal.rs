//! Words for an answer other than 2xx: the server's reasons, and the command that helps.

use crate::client::{ServerAddress, ServerAnswer};
use serde_json::Value;

/// Facts about a refused request that the answer does not tell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RefusalContext {
    /// The token of the request.
    pub(crate) access: TokenSource,
    /// The server has keys and data. `None`: unknown.
    pub(crate) is_initialised: Option<bool>,
}

/// The token of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenSource {
    /// The request had a token.
    Token,
    /// The caller has no token.
    Missing,
    /// The request was a login, which needs no token.
    Login,
}

/// The advice for a login at a path that no auth method serves.
pub(crate) const NO_METHOD_AT_PATH: &str =
    "bulkhead login -path=PATH ...    # no auth method is mounted at this path";

/// Returns true if the answer says that the server is sealed.
pub(crate) fn is_sealed(answer: &ServerAnswer) -> bool {
    answer.status == 503 && errors(answer).iter().any(|error| error.contains("sealed"))
}

/// Describes the answer, and names the next command where one helps.
pub(crate) fn describe(
    answer: &ServerAnswer,
    server: &ServerAddress,
    circumstances: RefusalContext,
) -> String {
    let reason = match (answer.status, errors(answer).as_slice()) {
        (404, []) => "nothing exists at this path (404)".to_owned(),
        (status, []) => format!("{server} answered {status} without saying why"),
        (status, [only]) => format!("{only} ({status})"),
        (status, several) => format!("{server} answered {status}:\n  {}", several.join("\n  ")),
    };
    match next_command(answer, circumstances) {
        Some(next) => format!("{reason}\nNext: {next}"),
        None => reason,
    }
}

fn errors(answer: &ServerAnswer) -> Vec<&str> {
    let listed = answer.body.get("errors").and_then(Value::as_array).into_iter().flatten();
    listed.filter_map(Value::as_str).collect()
}

fn next_command(answer: &ServerAnswer, circumstances: RefusalContext) -> Option<&'static str> {
    if is_sealed(answer) {
        return Some(match circumstances.is_initialised {
            Some(false) => {
                "bulkhead operator init    # makes the unseal keys and the first root token"
            }
            _ => "bulkhead operator unseal    # once for each key, until the server is open",
        });
    }
    let mentions = |words: &str| errors(answer).iter().any(|error| error.contains(words));
    match answer.status {
        401 | 403 if circumstances.access == TokenSource::Missing => {
            Some("bulkhead login    # you have no token; BULKHEAD_TOKEN sets one, too")
        }
        // The server answers so for a path that no auth method serves.
        403 if circumstances.access == TokenSource::Login && mentions("needs a token") => {
            Some(NO_METHOD_AT_PATH)
        }
        405 if mentions("allow_key_holders") => {
            Some("the same command with -with-token    # uses your token, which needs sudo")
        }
        400 if mentions("missing client token") => Some("bulkhead login    # you have no token"),
        403 if mentions("the token is unknown") => {
            Some("bulkhead login    # your token is not valid")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn described(status: u16, error: &str, circumstances: RefusalContext) -> String {
        let answer = ServerAnswer { status, body: json!({ "errors": [error] }) };
        describe(&answer, &ServerAddress::parse("http://a:1").unwrap(), circumstances)
    }

    #[test]
    fn a_refusal_names_the_next_command() {
        let of = |access, is_initialised| RefusalContext { access, is_initialised };
        use TokenSource::{Login, Missing, Token};
        for (status, error, circumstances, next) in [
            (403, "permission denied", of(Missing, None), Some("bulkhead login")),
            (403, "permission denied", of(Token, None), None),
            (403, "denied: the token is unknown", of(Token, None), Some("bulkhead login")),
            (403, "bad token: the token in the body is unknown", of(Token, None), None),
            (403, "needs a token", of(Login, None), Some("bulkhead login -path=PATH ...")),
            (403, "wrong password", of(Login, None), None),
            (503, "Vault is sealed", of(Token, Some(true)), Some("bulkhead operator unseal")),
            (503, "Vault is sealed", of(Missing, None), Some("bulkhead operator unseal")),
            (503, "Vault is sealed", of(Token, Some(false)), Some("bulkhead operator init")),
            (503, "busy", of(Token, None), None),
            (500, "broken", of(Missing, None), None),
            (
                405,
                "set allow_key_holders",
                of(Token, None),
                Some("the same command with -with-token"),
            ),
        ] {
            let text = described(status, error, circumstances);
            assert!(text.starts_with(&format!("{error} ({status})")), "{text}");
            let found = text.lines().nth(1).and_then(|line| line.strip_prefix("Next: "));
            let command = found.map(|line| line.split("  ").next().unwrap());
            assert_eq!(command, next, "{text}");
        }
    }
}
