//! Causes of a refused login: one table for messages about `binddn` and for proofs of a password.
//!
//! This file prevents wrong advice, such as another password for a disabled account, and a proof
//! from a refusal that says nothing about the password.

use super::PasswordProof;
use bulkhead_sdk::ldap::{LdapFault, LdapFaultCode};

/// LDAP result code for a wrong name or password.
const INVALID_CREDENTIALS: u32 = 49;

/// A cause of a refused login.
pub(super) struct LoginCause {
    /// The code that the server gives.
    code: u32,
    /// Proof about the password that the refusal gives.
    proof: PasswordProof,
    /// The cause and its remedy, for the end of a message.
    pub(super) remedy: &'static str,
}

const fn cause(code: u32, proof: PasswordProof, remedy: &'static str) -> LoginCause {
    LoginCause { code, proof, remedy }
}

/// Active Directory's own codes: the logon errors of Windows, from `ERROR_NO_SUCH_USER` to
/// `ERROR_ACCOUNT_LOCKED_OUT`. The server reports most of them only if the password was right.
const BY_DATA: [LoginCause; 13] = [
    cause(0x525, PasswordProof::NotInForce, "there is no such account: check the name"),
    cause(0x52e, PasswordProof::NotInForce, "check the name and the password"),
    cause(
        0x52f,
        PasswordProof::CannotTell,
        "a restriction of the account forbids the login: check the account's groups (Protected \
         Users)",
    ),
    cause(0x530, PasswordProof::InForce, "the account may not log in now: check logonHours"),
    cause(
        0x531,
        PasswordProof::InForce,
        "the account may not log in from this machine: check userWorkstations",
    ),
    cause(0x532, PasswordProof::InForce, "the password has expired: set a new one"),
    cause(0x533, PasswordProof::InForce, "the account is disabled: enable it"),
    cause(0x534, PasswordProof::CannotTell, "the account may not log in in this way: grant it"),
    cause(0x568, PasswordProof::CannotTell, "the account is in too many groups: remove some"),
    cause(0x569, PasswordProof::CannotTell, "the account may not log in in this way: grant it"),
    cause(0x701, PasswordProof::InForce, "the account has expired: check accountExpires"),
    cause(
        0x773,
        PasswordProof::InForce,
        "the password must be changed before the first login: set a new password, or pwdLastSet to \
         -1",
    ),
    cause(0x775, PasswordProof::CannotTell, "the account is locked: unlock it (lockoutTime 0)"),
];

/// Result codes of other refusals (RFC 4511, appendix A). None of them but 32 says
/// anything about the password.
const BY_RESULT: [LoginCause; 9] = [
    cause(7, PasswordProof::CannotTell, "the server takes no login with a password"),
    cause(8, PasswordProof::CannotTell, "use ldaps:// or starttls=true"),
    cause(13, PasswordProof::CannotTell, "use ldaps:// or starttls=true"),
    cause(19, PasswordProof::CannotTell, "the account may be locked after failed logins"),
    cause(32, PasswordProof::NotInForce, "there is no such account: check the name"),
    cause(34, PasswordProof::CannotTell, "the server does not read the name as a DN"),
    cause(
        48,
        PasswordProof::CannotTell,
        "the account has no password, or may not log in with a password",
    ),
    cause(50, PasswordProof::CannotTell, "the server does not let the account log in"),
    cause(53, PasswordProof::CannotTell, "the server takes no such login, or none at present"),
];

/// A refusal without a code of Active Directory.
const OTHERWISE: LoginCause = cause(
    INVALID_CREDENTIALS,
    PasswordProof::NotInForce,
    "the name or the password is wrong, or the account is locked, expired or without a password, \
     which the server does not tell",
);

/// Returns the known cause of a refused login.
pub(super) fn cause_of(refused: &LdapFault) -> Option<&'static LoginCause> {
    let among = |table: &'static [LoginCause], code: u32| table.iter().find(|one| one.code == code);
    match (refused.data, refused.result_code) {
        (Some(data), _) => among(&BY_DATA, data),
        (None, Some(INVALID_CREDENTIALS)) => Some(&OTHERWISE),
        (None, Some(code)) => among(&BY_RESULT, code),
        (None, None) => None,
    }
}

/// Returns the proof about the password that a refused login gives.
pub(super) fn proof_by(refused: &LdapFault) -> PasswordProof {
    match cause_of(refused) {
        Some(cause) => cause.proof,
        // An unknown code of Active Directory comes with "invalid credentials".
        None if refused.result_code.is_none_or(|code| code == INVALID_CREDENTIALS) => {
            PasswordProof::NotInForce
        }
        None => PasswordProof::CannotTell,
    }
}

/// Adds the remedy to the message of a refused login.
pub(super) fn explained(fault: LdapFault) -> LdapFault {
    match (fault.code == LdapFaultCode::Refused).then(|| cause_of(&fault)).flatten() {
        Some(cause) => {
            LdapFault { message: format!("{}; {}", fault.message, cause.remedy), ..fault }
        }
        None => fault,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(data: Option<u32>, result_code: Option<u32>) -> LdapFault {
        LdapFault { data, result_code, ..LdapFault::new(LdapFaultCode::Refused, "refused") }
    }

    #[test]
    fn each_cause_has_a_remedy_and_a_proof() {
        for (data, result_code, proof, remedy) in [
            (Some(0x52e), 49, PasswordProof::NotInForce, "check the name and the password"),
            (Some(0x533), 49, PasswordProof::InForce, "the account is disabled"),
            (Some(0x775), 49, PasswordProof::CannotTell, "the account is locked"),
            (None, 49, PasswordProof::NotInForce, "which the server does not tell"),
            (None, 13, PasswordProof::CannotTell, "use ldaps://"),
            (None, 53, PasswordProof::CannotTell, "takes no such login"),
        ] {
            let fault = refused(data, Some(result_code));
            assert_eq!(proof_by(&fault), proof, "{fault:?}");
            let message = explained(fault).message;
            assert!(message.starts_with("refused; ") && message.contains(remedy), "{message}");
        }
    }

    #[test]
    fn refusal_of_unknown_kind_gets_no_remedy() {
        for (data, result_code, proof) in [
            (Some(0x999), Some(49), PasswordProof::NotInForce),
            (None, Some(80), PasswordProof::CannotTell),
            (None, None, PasswordProof::NotInForce),
        ] {
            let fault = refused(data, result_code);
            assert_eq!(proof_by(&fault), proof, "{fault:?}");
            assert_eq!(explained(fault).message, "refused");
        }
    }

    #[test]
    fn failure_besides_refused_login_is_not_explained() {
        let fault = LdapFault {
            result_code: Some(50),
            ..LdapFault::new(LdapFaultCode::RefusedSearch, "refused")
        };
        assert_eq!(explained(fault).message, "refused");
    }
}
