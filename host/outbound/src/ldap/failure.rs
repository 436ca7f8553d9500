//! Failures of directories: a single code of the `ldap` import, the server's own code, and a text
//! that shows nothing of an entry.

/// A failure of a directory. `wit/ldap.wit` lists the codes.
#[derive(Clone, Debug)]
pub struct LdapFailure {
    /// Code of the failure.
    pub code: String,
    /// A text without the content of an entry.
    pub message: String,
    /// The server's result code, if the server answered (RFC 4511, appendix A).
    pub result_code: Option<u32>,
    /// The change was sent and its answer did not arrive.
    pub may_have_happened: bool,
    /// Active Directory's own code for a refused login, in hexadecimal. The code is also outside
    /// the message, because a message is redacted where its words look like a part of a password.
    pub login_data: Option<String>,
}

/// The kind of request, which determines the code of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LdapRequestKind {
    Login,
    Search,
    Change,
}

/// Creates a failure without an answer of the server. The server changed nothing.
pub fn failed(code: &str, message: impl Into<String>) -> LdapFailure {
    LdapFailure {
        code: code.to_owned(),
        message: message.into(),
        result_code: None,
        may_have_happened: false,
        login_data: None,
    }
}

/// Converts the server's result; code 0 is success. `text` is the server's own text. The failure
/// shows all of the text for a change, only Active Directory's code for a login, and nothing for a
/// search, because the text may quote an entry.
pub(super) fn of_result(kind: LdapRequestKind, code: u32, text: &str) -> Result<(), LdapFailure> {
    if code == 0 {
        return Ok(());
    }
    let word = match (kind, code) {
        // Busy or unavailable: the server did not process the request.
        (_, 51 | 52) => "unreachable",
        // The server's own time limit.
        (_, 3) => "timed-out",
        (LdapRequestKind::Login, _) => "refused",
        (_, 32) => "not-found",
        (LdapRequestKind::Search, _) => "refused-search",
        (LdapRequestKind::Change, _) => "refused-change",
    };
    let what = match kind {
        LdapRequestKind::Login => "refused the login",
        LdapRequestKind::Search => "refused the search",
        LdapRequestKind::Change => "refused the change",
    };
    let mut message = format!("the server {what}: {} ({code})", code_meaning(code));
    let mut of_login = None;
    match kind {
        LdapRequestKind::Login => {
            if let Some(data) = login_data(text) {
                message.push_str(", data ");
                message.push_str(data);
                of_login = Some(data.to_owned());
            }
        }
        LdapRequestKind::Change if !single_line(text).is_empty() => {
            message.push_str(": ");
            message.push_str(&single_line(text));
        }
        LdapRequestKind::Change | LdapRequestKind::Search => {}
    }
    Err(LdapFailure { result_code: Some(code), login_data: of_login, ..failed(word, message) })
}

/// Returns Active Directory's own code, and nothing else of the text, from a text like `80090308:
/// LdapErr: DSID-0C0903A9, comment: AcceptSecurityContext error, data 52e, v1db1`.
fn login_data(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("AcceptSecurityContext error, data ")?;
    let (code, _) = rest.split_once(',')?;
    let is_code = (1..=8).contains(&code.len()) && code.bytes().all(|one| one.is_ascii_hexdigit());
    is_code.then_some(code)
}

/// Maximum number of characters of a server's text in a failure.
const SERVER_TEXT_CHARACTERS: usize = 512;

/// Returns a server's text in a single line. Active Directory ends its texts with a zero byte.
fn single_line(text: &str) -> String {
    let readable = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(SERVER_TEXT_CHARACTERS).map(readable).collect::<String>().trim().to_owned()
}

/// Returns the meaning of a result code (RFC 4511, appendix A), for all codes of errors but 80
/// (`other`).
fn code_meaning(code: u32) -> &'static str {
    match code {
        1 => "operations error",
        2 => "protocol error",
        3 => "time limit exceeded",
        4 => "size limit exceeded",
        7 => "login method not supported",
        8 => "secured connection required",
        10 => "referral to another server, which is not followed",
        11 => "administrative limit exceeded",
        12 => "unavailable critical extension",
        13 => "confidentiality required",
        14 => "further step of the login required",
        16 => "no such attribute",
        17 => "undefined attribute",
        18 => "inappropriate matching",
        19 => "constraint violation",
        20 => "attribute or value exists",
        21 => "invalid attribute syntax",
        32 => "no such entry",
        33 => "alias problem",
        34 => "invalid DN syntax",
        36 => "alias dereferencing problem",
        48 => "inappropriate login",
        49 => "invalid credentials",
        50 => "insufficient access rights",
        51 => "busy",
        52 => "unavailable",
        53 => "unwilling to perform",
        54 => "loop detected",
        64 => "naming violation",
        65 => "object class violation",
        66 => "not allowed on an entry with entries below",
        67 => "not allowed on the name of an entry",
        68 => "the entry exists",
        69 => "the object class cannot be changed",
        71 => "the entries are on several servers",
        _ => "another reason",
    }
}

#[cfg(test)]
mod tests {
    use super::code_meaning;
    use std::collections::BTreeSet;

    /// Codes of errors of RFC 4511, appendix A.1, without the result of a comparison.
    const ERRORS: [u32; 35] = [
        1, 2, 3, 4, 7, 8, 10, 11, 12, 13, 14, 16, 17, 18, 19, 20, 21, 32, 33, 34, 36, 48, 49, 50,
        51, 52, 53, 54, 64, 65, 66, 67, 68, 69, 71,
    ];

    #[test]
    fn every_error_of_the_protocol_has_its_meaning() {
        let meanings: BTreeSet<&str> = ERRORS.into_iter().map(code_meaning).collect();
        assert_eq!(meanings.len(), ERRORS.len());
        let unnamed: Vec<u32> = (1..=120).filter(|code| !ERRORS.contains(code)).collect();
        assert!(unnamed.into_iter().all(|code| code_meaning(code) == "another reason"));
    }
}
