//! What a directory's refusal means to an engine, and what it becomes to the caller.

use bulkhead_wire::failure::{Failure, Kind};

/// Why something was not done in a directory. The words are the host's, and never those of an
/// entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What kind of refusal it is.
    pub code: Code,
    /// What was wrong, which server, what to do.
    pub message: String,
    /// The server's own code, where it answered (RFC 4511, appendix A).
    pub result_code: Option<u32>,
    /// Active Directory's own code for why it refused a login, where it told: `0x52e` is a wrong
    /// password, `0x775` a locked account.
    pub data: Option<u32>,
    /// A change that the server may have made all the same: its answer did not come.
    pub may_have_happened: bool,
}

/// What kind of refusal it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// No server answered, TLS failed, or the session broke.
    Unreachable,
    /// The login was rejected.
    Refused,
    /// It took too long.
    TimedOut,
    /// There is no such entry.
    NotFound,
    /// The server said no to a change.
    RefusedChange,
    /// The server said no to a search.
    RefusedSearch,
    /// Something of the arguments; nothing was dialled.
    InvalidRequest,
    /// The address is never dialled.
    ForbiddenAddress,
    /// A grant is missing; the message names it.
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
    /// The code behind a word of the contract; one that is not known is as if no server answered.
    #[must_use]
    pub fn of_word(word: &str) -> Self {
        let known = CODES.iter().find(|(_, known)| *known == word);
        known.map_or(Self::Unreachable, |(code, _)| *code)
    }
}

impl Fault {
    /// A fault of which nothing happened.
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

/// What a directory refuses, the caller has to solve (decision P4): only where no server answered
/// does it help to ask again.
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
