//! Faults in the settings of any connection, each with its sentence.
//!
//! The attack this file stops: a password that travels in an error. A refusal names settings,
//! positions and parameters; it has no room for a setting's value. A name that looks like a
//! parameter but may be part of a password is reported by its position.

use crate::refusal_codes;

refusal_codes! {
    /// A fault in a setting.
    pub enum Fault, FAULTS {
        TextExpected = "text-expected": "{setting} must be a text",
        FlagExpected = "flag-expected": "{setting} must be true or false",
        NumberExpected = "number-expected": "{setting} must be a whole number, 0 or more",
        DurationExpected = "duration-expected":
            "{setting} must be a duration such as 30s or 1h, or a number of seconds",
        PemExpected = "pem-expected": "{setting} must hold PEM text beginning with -----BEGIN",
        UrlEscaping = "url-escaping":
            "{setting} needs percent-encoding of characters such as # / ? @ or % in a user name or \
             password; better, leave both out and give both as the settings username and password",
        UrlHost = "url-host":
            "{setting} has no usable host name; write host:port, and an IPv6 address in brackets",
        UrlPort = "url-port":
            "{setting} has a port other than a number from 1 to 65535, or not one port a host; \
             write host:port",
        UnixSocket = "unix-socket":
            "{setting} names a Unix socket; a plugin reaches databases over the network only, so \
             name a host",
        TooManyHosts = "too-many-hosts": "{setting} names more than sixteen hosts; name fewer",
        ParameterUnknown = "parameter-unknown":
            "{setting} has an unknown parameter {parameter}; check the spelling or leave the \
             parameter out",
        ParameterUnreadable = "parameter-unreadable":
            "{setting} has an unknown parameter in place {position}, not named here as a possible \
             piece of a password; check the spelling, leave the parameter out, and give username \
             and password as settings",
        ParameterUnsupported = "parameter-unsupported":
            "{setting} has the parameter {parameter}, which this plugin cannot honour; leave the \
             parameter out",
        ParameterValue = "parameter-value":
            "{setting} gives the parameter {parameter} an invalid value; valid: {accepted}",
        PlaceholderUnknown = "placeholder-unknown":
            "{setting} has an unknown placeholder; there are username, name and password, each in \
             two pairs of braces, without spaces",
        PlaceholderMisplaced = "placeholder-misplaced":
            "{setting} has a placeholder outside user name, password and database name; move the \
             placeholder there",
        CredentialMissing = "credential-missing":
            "{setting} is required, because connection_url has none",
        CredentialTemplate = "credential-template":
            "{setting} must be the value itself and cannot contain a placeholder",
        CertificateWithoutKey = "certificate-without-key":
            "{setting} is half of a pair: give the certificate and the private key together",
        UsernameTemplate = "invalid-username-template": "{setting} cannot be used: {fault}",
        UsernameEmpty = "username-empty":
            "{setting} makes an empty name; add at least one character",
        UsernameTooLong = "username-too-long":
            "{setting} makes a name of {bytes} bytes, and the database takes {most}; end the \
             template with | truncate {most}",
        AuthType = "auth-type-unsupported":
            "{setting} is not available in this version; use username and password",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_sentences_use_carried_values_only() {
        let carried = ["bytes", "most", "parameter", "accepted"];
        assert_eq!(refusal_codes::find_mistakes(FAULTS, &carried), Vec::<String>::new());
    }
}
