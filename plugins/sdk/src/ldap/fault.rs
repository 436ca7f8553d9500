//! Failures of directory operations, and the failure that the caller receives.

use bulkhead_wire::failure::{Failure, FailureKind};

/// Failure of a directory operation. The words are the host's; nothing of an entry is repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LdapFault {
    /// Kind of the failure.
    pub code: LdapFaultCode,
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
pub enum LdapFaultCode {
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

const CODES: [(LdapFaultCode, &str); 9] = [
    (LdapFaultCode::Unreachable, "unreachable"),
    (LdapFaultCode::Refused, "refused"),
    (LdapFaultCode::TimedOut, "timed-out"),
    (LdapFaultCode::NotFound, "not-found"),
    (LdapFaultCode::RefusedChange, "refused-change"),
    (LdapFaultCode::RefusedSearch, "refused-search"),
    (LdapFaultCode::InvalidRequest, "invalid-request"),
    (LdapFaultCode::ForbiddenAddress, "forbidden-address"),
    (LdapFaultCode::PermissionDenied, "permission-denied"),
];

impl LdapFaultCode {
    /// Returns the code of a word of the contract. An unknown word counts as unreachable.
    #[must_use]
    pub fn of_word(word: &str) -> Self {
        let entry = CODES.iter().find(|(_, name)| *name == word);
        entry.map_or(Self::Unreachable, |(code, _)| *code)
    }
}

impl LdapFault {
    /// Returns a fault of an operation that changed nothing.
    #[must_use]
    pub fn new(code: LdapFaultCode, message: impl Into<String>) -> Self {
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
impl From<LdapFault> for Failure {
    fn from(fault: LdapFault) -> Self {
        let kind = match fault.code {
            LdapFaultCode::Unreachable => FailureKind::Unreachable,
            LdapFaultCode::TimedOut => FailureKind::TimedOut,
            LdapFaultCode::PermissionDenied => FailureKind::PermissionDenied,
            LdapFaultCode::Refused
            | LdapFaultCode::NotFound
            | LdapFaultCode::RefusedChange
            | LdapFaultCode::RefusedSearch
            | LdapFaultCode::InvalidRequest
            | LdapFaultCode::ForbiddenAddress => FailureKind::InvalidRequest,
        };
        Self::new(kind, fault.message)
    }
}
