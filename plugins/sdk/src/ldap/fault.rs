//! Failures of directory operations, and the failure that the caller receives.

use bulkhead_wire::failure::{Failure, Kind};

/// Failure of a directory operation. The words are the host's; nothing of an entry is repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Kind of the failure.
    pub code: Code,
    /// Message: the cause, the server, and the remedy.
    pub message: String,
    /// Result code of the server, if it answered (RFC 4511, appendix A).
    pub result_code: Option<u32>,
    /// Active Directory's own code for a refused login, if the answer has one: `0x52e` is a wrong
    /// password, `0x775` a locked account.
    pub data: Option<u32>,
    /// The server may have made the change: the answer did not arrive.
    pub may_have_happened: bool,
}

/// Kind of a directory failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// No server answered, TLS failed, or the session broke.
    Unreachable,
    /// The server rejected the login.
    Refused,
    /// The operation timed out.
    TimedOut,
    /// The entry does not exist.
    NotFound,
    /// The server refused a change.
    RefusedChange,
    /// The server refused a search.
    RefusedSearch,
    /// An argument is invalid; nothing was dialled.
    InvalidRequest,
    /// The host never dials this address.
    ForbiddenAddress,
    /// A grant is missing; the message names the grant.
    PermissionDenied,
}

const CODES: [(Code, &str); 9] = [
    (Code::Unreachable, "unreachable"),
    (Code::Refused, "refused"),
    (Code::TimedOut, "timed-out"),
    (Code::NotFound, "not-found"),
    (Code::RefusedChange, "refused-change"),
    (Code::RefusedSearch, "refused-search"),
    (Code::InvalidRequest, "invalid-request"),
    (Code::ForbiddenAddress, "forbidden-address"),
    (Code::PermissionDenied, "permission-denied"),
];

impl Code {
    /// Returns the code of a word of the contract. An unknown word counts as unreachable.
    #[must_use]
    pub fn of_word(word: &str) -> Self {
        let known = CODES.iter().find(|(_, known)| *known == word);
        known.map_or(Self::Unreachable, |(code, _)| *code)
    }
}

impl Fault {
    /// Returns a fault of an operation that changed nothing.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            result_code: None,
            data: None,
            may_have_happened: false,
        }
    }
}

/// Maps a directory's refusal to the caller's error (decision P4): a retry helps only if no server
/// answered.
impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        let kind = match fault.code {
            Code::Unreachable => Kind::Unreachable,
            Code::TimedOut => Kind::TimedOut,
            Code::PermissionDenied => Kind::PermissionDenied,
            Code::Refused
            | Code::NotFound
            | Code::RefusedChange
            | Code::RefusedSearch
            | Code::InvalidRequest
            | Code::ForbiddenAddress => Kind::InvalidRequest,
        };
        Self::new(kind, fault.message)
    }
}
