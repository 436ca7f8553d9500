//! What a directory's refusal means: one code, the server's own code, and words that hold nothing
//! of an entry.

use crate::bindings::secrets_engine::bulkhead::plugin::ldap;

/// A failure of the `ldap` import.
pub(crate) type LdapFailure = ldap::Failure;

/// What was asked of a server, for the code of its refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Login,
    Search,
    Change,
}

/// A failure without an answer of the server. Nothing was changed.
pub(crate) fn failed(code: &str, message: impl Into<String>) -> LdapFailure {
    LdapFailure {
        code: code.to_owned(),
        message: message.into(),
        result_code: None,
        may_have_happened: false,
        ext: Vec::new(),
    }
}

/// The server's answer, unless it is success. `text` are its own words, which are passed on
/// where they answer a change, and of a login the code alone: what else it says could be of an
/// entry.
pub(super) fn of_result(asked: Asked, code: u32, text: &str) -> Result<(), LdapFailure> {
    if code == 0 {
        return Ok(());
    }
    let word = match (asked, code) {
        // It could not even look: busy, unavailable.
        (_, 51 | 52) => "unreachable",
        // The time that it gives itself.
        (_, 3) => "timed-out",
        (Asked::Login, _) => "refused",
        (_, 32) => "not-found",
        (Asked::Search, _) => "refused-search",
        (Asked::Change, _) => "refused-change",
    };
    let what = match asked {
        Asked::Login => "refused the login",
        Asked::Search => "refused the search",
        Asked::Change => "refused the change",
    };
    let mut message = format!("the server {what}: {} ({code})", meaning(code));
    let mut ext = Vec::new();
    match asked {
        Asked::Login => {
            if let Some(data) = login_data(text) {
                message.push_str(", data ");
                message.push_str(data);
                ext.push((DATA.to_owned(), data.to_owned()));
            }
        }
        Asked::Change if !plain(text).is_empty() => {
            message.push_str(": ");
            message.push_str(&plain(text));
        }
        Asked::Change | Asked::Search => {}
    }
    Err(LdapFailure { result_code: Some(code), ext, ..failed(word, message) })
}

/// The name of Active Directory's own code for a refused login. Beside the message, because that is
/// cleaned of what looks like a piece of a password.
const DATA: &str = "data";

/// Active Directory's own code, of the text `80090308: LdapErr: DSID-0C0903A9, comment:
/// AcceptSecurityContext error, data 52e, v1db1`: that alone, and nothing else of what it says.
fn login_data(text: &str) -> Option<&str> {
    let (_, told) = text.split_once("AcceptSecurityContext error, data ")?;
    let (code, _) = told.split_once(',')?;
    let is_code = (1..=8).contains(&code.len()) && code.bytes().all(|one| one.is_ascii_hexdigit());
    is_code.then_some(code)
}

/// Characters of a server's text that are passed on.
const TEXT: usize = 512;

/// A server's words in one line. Active Directory ends them with a zero.
fn plain(text: &str) -> String {
    let readable = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(TEXT).map(readable).collect::<String>().trim().to_owned()
}

/// RFC 4511, appendix A, as far as servers are seen to answer it.
fn meaning(code: u32) -> &'static str {
    match code {
        1 => "operations error",
        2 => "protocol error",
        3 => "time limit exceeded",
        4 => "size limit exceeded",
        7 => "login method not supported",
        8 => "it wants a secured connection",
        10 => "it refers to another server, which is not followed",
        11 => "administrative limit exceeded",
        12 => "unavailable critical extension",
        13 => "it wants confidentiality",
        16 => "no such attribute",
        17 => "undefined attribute",
        18 => "inappropriate matching",
        19 => "constraint violation",
        20 => "attribute or value exists",
        21 => "invalid attribute syntax",
        32 => "no such entry",
        34 => "invalid DN syntax",
        48 => "inappropriate login",
        49 => "invalid credentials",
        50 => "insufficient access rights",
        51 => "busy",
        52 => "unavailable",
        53 => "unwilling to perform",
        64 => "naming violation",
        65 => "object class violation",
        68 => "the entry exists",
        _ => "another reason",
    }
}
