//! Passwords without randomness: they follow the rules of real policies, and are the same in every
//! run.

use super::script::Script;
use crate::host::Passwords;
use bulkhead_wire::alphabet::Alphabet;
use bulkhead_wire::failure::{Failure, FailureKind};
use bulkhead_wire::password_policy::PasswordPolicy;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Maximum length of a password from an alphabet, in characters.
const LONGEST: u32 = 1_024;

/// Password policies, and the number of passwords generated so far.
pub(super) struct TestPasswords {
    script: Rc<Script>,
    policies: RefCell<BTreeMap<String, PasswordPolicy>>,
    generated: Cell<u32>,
}

impl TestPasswords {
    pub(super) fn new(script: &Rc<Script>) -> Self {
        Self { script: Rc::clone(script), policies: RefCell::default(), generated: Cell::new(0) }
    }

    pub(super) fn add(&self, name: &str, text: &str) -> Result<(), Failure> {
        let policy = PasswordPolicy::accept(text, &mut scattered(0))?;
        self.policies.borrow_mut().insert(name.to_owned(), policy);
        Ok(())
    }

    fn next_number(&self) -> u32 {
        self.generated.set(self.generated.get() + 1);
        self.generated.get()
    }
}

impl Passwords for TestPasswords {
    /// Numbers the passwords of the default policy, so that tests can name the expected password.
    fn generate(&self, policy: &str) -> Result<String, Failure> {
        self.script.step("generate", None, || {
            let number = self.next_number();
            if policy.is_empty() {
                return Ok(format!("Generated-Password-{number}"));
            }
            let policies = self.policies.borrow();
            let policy = policies.get(policy).ok_or_else(|| {
                Failure::new(
                    FailureKind::NotFound,
                    format!("there is no password policy {policy:?}"),
                )
            })?;
            policy.generate(&mut scattered(number))
        })
    }

    fn generate_from(&self, length: u32, alphabet: &str) -> Result<String, Failure> {
        self.script.step("generate", None, || {
            let alphabet = Alphabet::of(alphabet).map_err(Failure::invalid)?;
            let length = usize::try_from(length).ok().filter(|_| (1..=LONGEST).contains(&length));
            let length = length.ok_or_else(|| {
                Failure::invalid(format!("a password has 1 to {LONGEST} characters"))
            })?;
            alphabet.password(length, &mut scattered(self.next_number()))
        })
    }
}

/// Returns a generator of bytes that look random and depend only on `seed`.
fn scattered(seed: u32) -> impl FnMut() -> Result<u8, Failure> {
    let mut state = u64::from(seed);
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let [.., byte] = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb).to_le_bytes();
        Ok(byte)
    }
}

#[cfg(test)]
mod tests {
    use crate::host::Host;
    use crate::testbed::TestHost;
    use bulkhead_wire::failure::FailureKind;

    const DIGITS: &str = r#"length = 8 rule "charset" { charset = "0123456789" }
                            rule "charset" { charset = "-" min-chars = 1 }"#;

    #[test]
    fn passwords_follow_policy_differ_and_repeat_every_run() {
        let passwords = || {
            let host = TestHost::default();
            host.add_policy("pins", DIGITS).unwrap();
            let pin = || host.passwords().generate("pins").unwrap();
            [pin(), pin(), host.passwords().generate_from(30, "ab").unwrap()]
        };
        let [one, other, letters] = passwords();
        assert_ne!(one, other);
        for pin in [&one, &other] {
            assert!(pin.len() == 8 && pin.contains('-'), "{pin}");
            assert!(pin.chars().all(|one| one == '-' || one.is_ascii_digit()), "{pin}");
        }
        assert!(letters.len() == 30 && letters.contains("ab"), "{letters}");
        assert_eq!(passwords(), [one, other, letters]);
    }

    #[test]
    fn refusals_of_the_real_host_are_simulated() {
        let host = TestHost::default();
        assert!(host.add_policy("none", "length = 8").is_err());
        let kind =
            |result: Result<String, bulkhead_wire::failure::Failure>| result.unwrap_err().kind;
        assert_eq!(kind(host.passwords().generate("none")), FailureKind::NotFound);
        for (length, alphabet) in [(0, "ab"), (1_025, "ab"), (8, ""), (8, "\n")] {
            let result = host.passwords().generate_from(length, alphabet);
            assert_eq!(kind(result), FailureKind::InvalidRequest, "{length}");
        }
    }
}
