//! The directory in memory answers as observed on servers of both kinds.

use super::*;
use crate::ldap::Filter;
use crate::testbed::script::StepFate;

const ADMIN: &str = "CN=admin,DC=corp,DC=example";
const BOB: &str = "CN=bob,OU=people,DC=corp,DC=example";

fn directory(flavour: Flavour) -> (TestDirectory, LdapTarget, Rc<Script>) {
    let script = Rc::new(Script::default());
    let directory = TestDirectory::new(&script);
    directory.be(flavour);
    directory.add_administrator(ADMIN, "secret of admin");
    directory.add(
        BOB,
        "first password",
        &[("cn", "bob"), ("userPrincipalName", "bob@corp.example"), ("sAMAccountName", "bob")],
    );
    let target = LdapTarget { urls: vec!["ldaps://dc1".to_owned()], ..LdapTarget::default() };
    (directory, target.log_in_as(ADMIN, "secret of admin"), script)
}

fn unicode(password: &str) -> Vec<u8> {
    format!("\"{password}\"").encode_utf16().flat_map(u16::to_le_bytes).collect()
}

#[test]
fn logins_take_the_names_that_the_server_takes() {
    for (flavour, name, taken) in [
        (Flavour::ActiveDirectory, BOB, true),
        (Flavour::ActiveDirectory, "cn=BOB, ou=People,dc=corp,dc=example", true),
        (Flavour::ActiveDirectory, "Bob@Corp.Example", true),
        (Flavour::ActiveDirectory, r"CORP\bob", true),
        (Flavour::ActiveDirectory, "bob", false),
        (Flavour::OpenLdap, BOB, true),
        (Flavour::OpenLdap, "bob@corp.example", false),
    ] {
        let (directory, target, _) = directory(flavour);
        let login = directory.bind(&target.log_in_as(name, "first password"));
        assert_eq!(login.is_ok(), taken, "{flavour:?} {name}: {login:?}");
    }
}

#[test]
fn wrong_login_is_counted_and_empty_password_unsent() {
    let (directory, target, _) = directory(Flavour::OpenLdap);
    let wrong = directory.bind(&target.log_in_as(BOB, "guess")).unwrap_err();
    assert_eq!((wrong.code, wrong.result_code), (LdapFaultCode::Refused, Some(49)));
    let empty = directory.bind(&target.log_in_as(BOB, "")).unwrap_err();
    assert_eq!(empty.code, LdapFaultCode::InvalidRequest);
    assert_eq!(directory.failed_logins(BOB), 1);
    directory.lock(BOB, true);
    assert!(directory.bind(&target.log_in_as(BOB, "first password")).is_err());
}

#[test]
fn active_directory_stores_quoted_unicode_password_with_time() {
    let (directory, target, script) = directory(Flavour::ActiveDirectory);
    script.advance(5);
    let set = |value: Vec<u8>| {
        directory.modify(&target, BOB, &[AttributeChange::replace("unicodePwd", value)])
    };
    set(unicode("pä𝄞ssword")).unwrap();
    assert!(directory.has_password(BOB, "pä𝄞ssword"));
    assert_eq!(directory.text(BOB, "pwdLastSet").unwrap(), "135379296050000000");
    assert_eq!(set(b"bare".to_vec()).unwrap_err().result_code, Some(53));
    directory.ask_for_length(7);
    assert_eq!(set(unicode("short")).unwrap_err().result_code, Some(19));
    let exop = directory.change_password(&target, BOB, None, "another one").unwrap_err();
    assert_eq!(exop.result_code, Some(2));
    let clear =
        directory.modify(&target, BOB, &[AttributeChange::replace("userPassword", "in clear")]);
    assert!(
        clear.is_ok() && directory.has_password(BOB, "pä𝄞ssword"),
        "the refused change changes nothing"
    );
}

#[test]
fn entry_changes_own_password_with_old_password() {
    let (directory, target, _) = directory(Flavour::ActiveDirectory);
    let bob = target.log_in_as(BOB, "first password");
    let add = AttributeChange::Add("unicodePwd".to_owned(), vec![unicode("next password")]);
    let delete = |old: &str| AttributeChange::Delete("unicodePwd".to_owned(), vec![unicode(old)]);
    let alone = directory.modify(&bob, BOB, std::slice::from_ref(&add)).unwrap_err();
    assert_eq!(alone.result_code, Some(50));
    let wrong = directory.modify(&bob, BOB, &[delete("guess"), add.clone()]).unwrap_err();
    assert_eq!(wrong.result_code, Some(19));
    directory.modify(&bob, BOB, &[delete("first password"), add]).unwrap();
    assert!(directory.has_password(BOB, "next password"));
    directory.take_old_passwords();
    assert!(directory.bind(&bob).is_ok(), "the old one still logs in");
}

#[test]
fn openldap_sets_a_password_in_two_ways() {
    let (directory, target, _) = directory(Flavour::OpenLdap);
    directory.change_password(&target, BOB, None, "second").unwrap();
    assert_eq!(directory.text(BOB, "pwdChangedTime").unwrap(), "20300101000000Z");
    directory.modify(&target, BOB, &[AttributeChange::replace("userPassword", "third")]).unwrap();
    assert!(directory.has_password(BOB, "third"));
    let bob = target.log_in_as(BOB, "third");
    assert!(directory.change_password(&bob, BOB, Some("guess"), "fourth").is_err());
    directory.change_password(&bob, BOB, Some("third"), "fourth").unwrap();
    let other = directory.change_password(&bob.log_in_as(BOB, "fourth"), ADMIN, None, "x");
    assert_eq!(other.unwrap_err().result_code, Some(50));
    let gone = directory.change_password(&target, "cn=gone", None, "x").unwrap_err();
    assert_eq!(gone.code, LdapFaultCode::NotFound);
}

#[test]
fn search_applies_scope_filter_and_requested_attributes() {
    let (directory, target, _) = directory(Flavour::ActiveDirectory);
    let names = |search: Search| -> Vec<String> {
        let found = directory.search(&target, &search).unwrap();
        found.into_iter().map(|entry| entry.dn).collect()
    };
    let upn = Filter::equal("userPrincipalName", "BOB@corp.example");
    assert_eq!(names(Search::below("dc=corp, dc=example", upn.clone())), [BOB]);
    assert_eq!(names(Search::below("ou=people,dc=corp,dc=example", Filter::everything())), [BOB]);
    assert_eq!(names(Search::below("dc=corp,dc=example", Filter::equal("cn", "*"))), [""; 0]);
    let one_level =
        Search { scope: crate::ldap::SearchScope::OneLevel, ..Search::entry("dc=corp,dc=example") };
    assert_eq!(names(one_level), [ADMIN]);
    assert_eq!(names(Search::below("dc=corp,dc=example", Filter::default()).limit(1)).len(), 1);
    let shown = directory.search(&target, &Search::entry(BOB).attributes(&["CN"])).unwrap();
    assert_eq!((shown[0].attributes.len(), shown[0].text("cn")), (1, Some("bob")));
    let gone = directory.search(&target, &Search::below("dc=other", upn)).err().unwrap();
    assert_eq!(gone.code, LdapFaultCode::NotFound);
    let root =
        directory.search(&target, &Search::root_dse().attributes(&["supportedCapabilities"]));
    assert_eq!(root.unwrap()[0].text("supportedCapabilities"), Some("1.2.840.113556.1.4.800"));
}

#[test]
fn renamed_entry_keeps_password_and_servers_fail_individually() {
    let (directory, target, _) = directory(Flavour::OpenLdap);
    let moved = "CN=bob,OU=leavers,DC=corp,DC=example";
    directory.rename(BOB, moved);
    let mut bob = target.log_in_as(moved, "first password");
    bob.urls.push("ldaps://dc2".to_owned());
    directory.take_down("ldaps://dc1");
    assert!(directory.bind(&bob).is_ok());
    directory.take_down("ldaps://dc2");
    assert_eq!(directory.bind(&bob).unwrap_err().code, LdapFaultCode::Unreachable);
    directory.bring_up("ldaps://dc1");
    assert!(directory.bind(&bob).is_ok());
}

#[test]
fn directory_step_can_be_refused_unanswered_or_last() {
    let (directory, target, script) = directory(Flavour::OpenLdap);
    let change = |new: &str| directory.change_password(&target, BOB, None, new);
    let busy = LdapFault {
        result_code: Some(53),
        ..LdapFault::new(LdapFaultCode::RefusedChange, "not now")
    };
    directory.refuse("ldap-change-password", busy.clone());
    assert_eq!(change("second").unwrap_err(), busy);
    let hangs = Failure::new(FailureKind::TimedOut, "no answer");
    script.arrange("ldap-change-password", StepFate::Refuse(hangs.clone()));
    let unsent = change("second").unwrap_err();
    assert_eq!((unsent.code, unsent.may_have_happened), (LdapFaultCode::TimedOut, false));
    assert!(directory.has_password(BOB, "first password"));
    script.arrange("ldap-change-password", StepFate::LoseReply(hangs));
    let unheard = change("second").unwrap_err();
    assert_eq!((unheard.code, unheard.may_have_happened), (LdapFaultCode::TimedOut, true));
    assert!(directory.has_password(BOB, "second"));
    script.arrange("ldap-change-password", StepFate::Die);
    assert!(change("third").is_err() && directory.has_password(BOB, "third"));
    let steps = script.take_steps().join("\n");
    assert!(steps.contains(BOB) && !steps.contains("second"), "{steps}");
}
