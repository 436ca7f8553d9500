//! An entry of the directory in memory, and changes of its password.

use super::matching::{dn_key, is_same};
use super::{Flavour, refused, rejected, ticks};
use crate::database_plugin::StoreTime;
use crate::ldap::{AttributeChange, LdapEntry, LdapFault};
use time::OffsetDateTime;

/// An entry. No search shows its password.
#[derive(Clone)]
pub(super) struct Account {
    pub(super) entry: LdapEntry,
    pub(super) password: String,
    previous_password: String,
    pub(super) failed_logins: u32,
    pub(super) is_locked: bool,
}

impl Account {
    pub(super) fn new(dn: &str, attributes: &[(&str, &str)]) -> Self {
        let mut account = Self {
            entry: LdapEntry { dn: dn.to_owned(), attributes: Vec::new() },
            password: String::new(),
            previous_password: String::new(),
            failed_logins: 0,
            is_locked: false,
        };
        for (name, value) in attributes {
            account.add(name, vec![value.as_bytes().to_vec()]);
        }
        account
    }

    pub(super) fn renamed(mut self, dn: &str) -> Self {
        dn.clone_into(&mut self.entry.dn);
        self
    }

    /// Returns true if a login name means this entry. Active Directory also accepts names other
    /// than the DN.
    pub(super) fn is_called(&self, name: &str, has_other_names: bool) -> bool {
        let account_name = name.split_once('\\').map(|(_, name)| name);
        let is_value = |attribute: &str, wanted: &str| {
            self.entry.values(attribute).iter().any(|value| is_same(value, wanted.as_bytes()))
        };
        dn_key(name) == dn_key(&self.entry.dn)
            || has_other_names
                && (is_value("userPrincipalName", name)
                    || account_name.is_some_and(|name| is_value("sAMAccountName", name)))
    }

    pub(super) fn log_in(&mut self, password: &str, takes_old: bool) -> Result<(), LdapFault> {
        if self.is_locked {
            return Err(LdapFault { data: Some(0x775), ..refused(49, "invalid credentials") });
        }
        let is_old = takes_old && !self.previous_password.is_empty();
        if password == self.password || is_old && password == self.previous_password {
            return Ok(());
        }
        self.failed_logins += 1;
        Err(LdapFault { data: Some(0x52e), ..refused(49, "invalid credentials") })
    }

    /// Sets the password, and the time of the change in the attribute of the server's kind.
    pub(super) fn set_password(&mut self, password: &str, now: StoreTime, flavour: Flavour) {
        self.previous_password = std::mem::replace(&mut self.password, password.to_owned());
        match flavour {
            Flavour::ActiveDirectory => {
                self.replace("pwdLastSet", vec![ticks(now).to_string().into_bytes()]);
            }
            Flavour::OpenLdap => {
                self.replace("pwdChangedTime", vec![generalized(now).into_bytes()]);
            }
        }
    }

    /// Returns true if an entry may make these changes to itself: a deletion of the current
    /// `unicodePwd` (Active Directory) or a replacement of `userPassword` (OpenLDAP).
    pub(super) fn names_old_password(&self, changes: &[AttributeChange]) -> bool {
        changes.iter().any(|change| match change {
            AttributeChange::Delete(name, values) if name.eq_ignore_ascii_case("unicodePwd") => {
                values.iter().any(|value| quoted(value).as_deref() == Some(&self.password))
            }
            AttributeChange::Replace(name, _) => name.eq_ignore_ascii_case("userPassword"),
            _ => false,
        })
    }

    /// Applies the changes in order. After a failure, earlier changes remain applied.
    pub(super) fn apply(
        &mut self,
        changes: &[AttributeChange],
        now: StoreTime,
        flavour: Flavour,
        shortest: usize,
    ) -> Result<(), LdapFault> {
        for change in changes {
            let (name, values) = change.attribute();
            let is = |other: &str| name.eq_ignore_ascii_case(other);
            match (flavour, change, values) {
                (Flavour::ActiveDirectory, AttributeChange::Delete(..), [old])
                    if is("unicodePwd") =>
                {
                    if quoted(old).as_deref() != Some(&self.password) {
                        return Err(rejected(19, "the old password is another one"));
                    }
                }
                (Flavour::ActiveDirectory, _, [new]) if is("unicodePwd") => {
                    let new = quoted(new).ok_or_else(|| {
                        rejected(53, "unicodePwd takes a quoted text in UTF-16, little end first")
                    })?;
                    check_length(&new, shortest)?;
                    self.set_password(&new, now, flavour);
                }
                (Flavour::OpenLdap, AttributeChange::Replace(..), [new]) if is("userPassword") => {
                    let new = String::from_utf8_lossy(new).into_owned();
                    check_length(&new, shortest)?;
                    self.set_password(&new, now, flavour);
                }
                (Flavour::OpenLdap, ..) if is("unicodePwd") => {
                    return Err(rejected(17, "unicodePwd: attribute type undefined"));
                }
                (_, AttributeChange::Add(..), _) => self.add(name, values.to_vec()),
                (_, AttributeChange::Replace(..), _) => self.replace(name, values.to_vec()),
                (_, AttributeChange::Delete(..), []) => self.replace(name, Vec::new()),
                (_, AttributeChange::Delete(..), _) => self.delete(name, values),
            }
        }
        Ok(())
    }

    /// Sets an attribute; without values, removes the attribute.
    pub(super) fn replace(&mut self, name: &str, values: Vec<Vec<u8>>) {
        self.entry.attributes.retain(|(attribute, _)| !attribute.eq_ignore_ascii_case(name));
        if !values.is_empty() {
            self.entry.attributes.push((name.to_owned(), values));
        }
    }

    fn add(&mut self, name: &str, more: Vec<Vec<u8>>) {
        let mut values = self.entry.values(name).to_vec();
        values.extend(more);
        self.replace(name, values);
    }

    fn delete(&mut self, name: &str, unwanted: &[Vec<u8>]) {
        let mut values = self.entry.values(name).to_vec();
        values.retain(|value| !unwanted.contains(value));
        self.replace(name, values);
    }
}

pub(super) fn check_length(password: &str, shortest: usize) -> Result<(), LdapFault> {
    if password.chars().count() < shortest {
        return Err(rejected(19, "the password fails the quality rules"));
    }
    Ok(())
}

/// Returns the text of a value of `unicodePwd`: in quotes, UTF-16 little-endian.
fn quoted(value: &[u8]) -> Option<String> {
    let (pairs, []) = value.as_chunks::<2>() else { return None };
    let units: Vec<u16> = pairs.iter().map(|pair| u16::from_le_bytes(*pair)).collect();
    let text = String::from_utf16(&units).ok()?;
    text.strip_prefix('"')?.strip_suffix('"').map(str::to_owned)
}

/// Formats a time as in `pwdChangedTime`: `20300101000000Z`.
fn generalized(now: StoreTime) -> String {
    let seconds = i64::try_from(now / 1_000).unwrap_or(i64::MAX);
    let at = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (date, clock) = (at.date(), at.time());
    let (year, month, day) = (date.year(), u8::from(date.month()), date.day());
    let (hour, minute, second) = (clock.hour(), clock.minute(), clock.second());
    format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}Z")
}
