//! What can be wrong with the settings of any connection, and the sentence for it.
//!
//! The attack this file stops: a password that travels in an error. A refusal names settings,
//! positions and parameters; it has no room for a setting's value.

use crate::database_plugin::Refusal;

/// What is wrong with a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each has its sentence below")]
pub enum Fault {
    TextExpected,
    FlagExpected,
    NumberExpected,
    DurationExpected,
    PemExpected,
    UrlEscaping,
    UrlHost,
    UrlPort,
    UnixSocket,
    TooManyHosts,
    ParameterUnknown,
    ParameterUnsupported,
    ParameterValue,
    PlaceholderUnknown,
    PlaceholderMisplaced,
    CredentialMissing,
    CredentialTemplate,
    CertificateWithoutKey,
    UsernameTemplate,
    UsernameTemplateRepeats,
    UsernameEmpty,
    UsernameTooLong,
}

/// Each fault with its word and its sentence, in the order of [`Fault`]; a plugin's description
/// holds them all.
pub const FAULTS: [(Fault, &str, &str); 22] = [
    (Fault::TextExpected, "text-expected", "{setting} must be a text"),
    (Fault::FlagExpected, "flag-expected", "{setting} must be true or false"),
    (Fault::NumberExpected, "number-expected", "{setting} must be a whole number, 0 or more"),
    (
        Fault::DurationExpected,
        "duration-expected",
        "{setting} must be a duration such as 30s or 1h, or a number of seconds",
    ),
    (
        Fault::PemExpected,
        "pem-expected",
        "{setting} must hold PEM text that begins with -----BEGIN",
    ),
    (
        Fault::UrlEscaping,
        "url-escaping",
        "{setting} has a character that must be percent-encoded, such as # / ? @ or % in a user \
         name or password; better, leave both out and give them as the settings username and \
         password",
    ),
    (
        Fault::UrlHost,
        "url-host",
        "{setting} has no usable host name; write host:port, and an IPv6 address in brackets",
    ),
    (
        Fault::UrlPort,
        "url-port",
        "{setting} has a port that is not a number from 1 to 65535, or not one port a host; write \
         host:port",
    ),
    (
        Fault::UnixSocket,
        "unix-socket",
        "{setting} names a Unix socket; a plugin reaches databases over the network only, so name \
         a host",
    ),
    (Fault::TooManyHosts, "too-many-hosts", "{setting} names more than sixteen hosts; name fewer"),
    (
        Fault::ParameterUnknown,
        "parameter-unknown",
        "{setting} has an unknown parameter in place {position}; check its spelling or leave it \
         out",
    ),
    (
        Fault::ParameterUnsupported,
        "parameter-unsupported",
        "{setting} has the parameter {parameter}, which this plugin cannot honour; leave it out",
    ),
    (
        Fault::ParameterValue,
        "parameter-value",
        "{setting} gives the parameter {parameter} a value that it cannot have; it may be \
         {accepted}",
    ),
    (
        Fault::PlaceholderUnknown,
        "placeholder-unknown",
        "{setting} has an unknown placeholder; there are username, name and password, each in two \
         pairs of braces, without spaces",
    ),
    (
        Fault::PlaceholderMisplaced,
        "placeholder-misplaced",
        "{setting} has a placeholder outside user name, password and database name; move it there",
    ),
    (
        Fault::CredentialMissing,
        "credential-missing",
        "{setting} is required, because connection_url does not hold it",
    ),
    (
        Fault::CredentialTemplate,
        "credential-template",
        "{setting} must be the value itself and cannot contain a placeholder",
    ),
    (
        Fault::CertificateWithoutKey,
        "certificate-without-key",
        "{setting} needs its partner: give the certificate and its private key together",
    ),
    (Fault::UsernameTemplate, "invalid-username-template", "{setting} cannot be used: {fault}"),
    (
        Fault::UsernameTemplateRepeats,
        "username-template-repeats",
        "{setting} leaves fewer than eight random characters in the name, so that two users could \
         share one; put (random 20) before anything that truncate may cut",
    ),
    (
        Fault::UsernameEmpty,
        "username-empty",
        "{setting} makes an empty name; let it make at least one character",
    ),
    (
        Fault::UsernameTooLong,
        "username-too-long",
        "{setting} makes a name of {bytes} bytes, and the database takes {most}; end it with \
         | truncate {most}",
    ),
];

impl Fault {
    /// A refusal of one setting.
    #[must_use]
    pub fn about(self, setting: &str) -> Refusal {
        let found = FAULTS.iter().find(|(fault, ..)| *fault == self);
        Refusal::of(found.map_or("", |(_, word, _)| word)).about(setting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_stands_in_the_table_under_its_own_word() {
        for (place, (fault, word, sentence)) in FAULTS.iter().enumerate() {
            assert_eq!(*fault as usize, place, "{word}");
            assert_eq!(fault.about("s").code, *word);
            assert!(sentence.len() > 20, "{word}");
            assert_eq!(FAULTS.iter().filter(|(_, other, _)| other == word).count(), 1, "{word}");
        }
    }

    #[test]
    fn sentences_ask_only_for_what_refusals_carry() {
        let carried = ["setting", "position", "fault", "bytes", "most", "parameter", "accepted"];
        for (_, word, sentence) in FAULTS {
            for asked in sentence.split('{').skip(1) {
                let name = asked.split('}').next().unwrap();
                assert!(carried.contains(&name), "{word} asks for {name:?}");
            }
        }
    }
}
