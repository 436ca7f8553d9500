//! Requests to a directory, and the interpretation of its answers.

use super::*;
use crate::fixture::{ENGINE, configured, dn};
use bulkhead_sdk::testbed::Flavour;

#[test]
fn refused_login_code_decides_password_proof() {
    for (data, proof) in [
        (Some(0x525), PasswordProof::NotInForce),
        (Some(0x52e), PasswordProof::NotInForce),
        (Some(0x52f), PasswordProof::CannotTell),
        (Some(0x530), PasswordProof::InForce),
        (Some(0x531), PasswordProof::InForce),
        (Some(0x532), PasswordProof::InForce),
        (Some(0x533), PasswordProof::InForce),
        (Some(0x534), PasswordProof::CannotTell),
        (Some(0x568), PasswordProof::CannotTell),
        (Some(0x569), PasswordProof::CannotTell),
        (Some(0x701), PasswordProof::InForce),
        (Some(0x773), PasswordProof::InForce),
        (Some(0x775), PasswordProof::CannotTell),
        (None, PasswordProof::NotInForce),
    ] {
        let words = "the server refused the login: invalid credentials (49)";
        let refused = LdapFault {
            result_code: Some(49),
            data,
            ..LdapFault::new(LdapFaultCode::Refused, words)
        };
        assert_eq!(login_causes::proof_by(&refused), proof, "{data:x?}");
    }
    // The server requires stronger authentication or TLS, or is unwilling.
    for code in [8, 13, 48, 50, 53] {
        let refused = LdapFault {
            result_code: Some(code),
            ..LdapFault::new(LdapFaultCode::Refused, "refused")
        };
        assert_eq!(login_causes::proof_by(&refused), PasswordProof::CannotTell, "{code}");
    }
}

#[test]
fn active_directory_password_is_quoted_in_utf_16() {
    let bytes = [0x22, 0, b'p', 0, 0xe4, 0, 0x34, 0xd8, 0x1e, 0xdd, 0x22, 0];
    assert_eq!(quoted_utf16("pä𝄞"), bytes);
}

#[test]
fn a_login_that_is_empty_is_never_sent() {
    let bed = configured(Flavour::ActiveDirectory);
    let config = Config::find(&bed.host).unwrap().unwrap();
    assert!(DirectoryClient::new(&bed.host, &config).prove(&dn("svc1"), "").is_err());
    assert_eq!(bed.host.directory().failed_logins(&dn("svc1")), 0);
}

#[test]
fn account_is_found_by_each_name() {
    for (flavour, names) in [
        (Flavour::ActiveDirectory, ["svc1@corp.example", "svc1", &dn("svc1")]),
        (Flavour::OpenLdap, ["svc1", "SVC1", &dn("svc1")]),
    ] {
        let bed = configured(flavour);
        let config = Config::find(&bed.host).unwrap().unwrap();
        for name in names {
            let found = DirectoryClient::new(&bed.host, &config).find(name).unwrap();
            assert_eq!(found.dn, dn("svc1"), "{name}");
        }
    }
}

#[test]
fn name_finds_neither_outside_account_nor_engine_login() {
    for flavour in [Flavour::ActiveDirectory, Flavour::OpenLdap] {
        let bed = configured(flavour);
        let elsewhere = "CN=keeper,OU=services,DC=corp,DC=example";
        bed.host.directory().add("OU=services,DC=corp,DC=example", "", &[("ou", "services")]);
        bed.host.directory().add(elsewhere, "of-keeper", &[("cn", "keeper")]);
        let config = Config::find(&bed.host).unwrap().unwrap();
        let directory = DirectoryClient::new(&bed.host, &config);
        for (name, why) in [
            (elsewhere, "no account"),
            ("keeper", "no account"),
            (ENGINE, "the engine's own login"),
            (&ENGINE.to_lowercase(), "the engine's own login"),
        ] {
            let refused = directory.find(name).unwrap_err();
            assert!(refused.message.contains(why), "{name}: {}", refused.message);
        }
        assert_eq!(directory.find_own().unwrap().dn, ENGINE);
        assert_eq!(directory.find(&dn("svc1")).unwrap().dn, dn("svc1"));
    }
}

#[test]
fn domain_prefixed_name_is_refused_with_accepted_forms() {
    let bed = configured(Flavour::ActiveDirectory);
    let config = Config::find(&bed.host).unwrap().unwrap();
    let refused = DirectoryClient::new(&bed.host, &config).find("CORP\\svc1").unwrap_err();
    assert!(refused.message.contains("user@domain"), "{refused}");
    let refused = DirectoryClient::new(&bed.host, &config).find("svc9").unwrap_err();
    assert!(!refused.message.contains("backslash"), "{refused}");
}

#[test]
fn a_fault_names_the_field_of_the_configuration() {
    let said = "no trusted authority signed the server's certificate; give root-certificates";
    let worded = worded(LdapFault::new(LdapFaultCode::Unreachable, said));
    assert!(worded.message.ends_with("; give certificate"), "{}", worded.message);
}
