//! A role's constraints on a login, each with a reason. A login stops at the first unmet
//! constraint; an explanation for the operator lists all constraints, with the same reasons
//! (decision B2).
//!
//! The fault this file stops: an explanation that differs from the login's decision. A single
//! function checks a login against its role and takes [`LoginConstraints`] as a parameter.
//!
//! ```
//! use bulkhead_sdk::explain::LoginConstraints;
//! use bulkhead_sdk::{Answer, Failure};
//!
//! fn admit(constraints: &mut LoginConstraints, group: &str) -> Result<(), Failure> {
//!     let is_bound = group == "builders";
//!     let found = is_bound
//!         .then(|| ((), format!("{group} is bound")))
//!         .ok_or_else(|| Failure::invalid(format!("group not authorized: {group}")));
//!     constraints.record("bound_groups", found)?;
//!     Ok(())
//! }
//!
//! fn explain(group: &str) -> Result<Answer, Failure> {
//!     let mut constraints = LoginConstraints::for_explanation();
//!     admit(&mut constraints, group)?;
//!     constraints.answer()
//! }
//! # assert!(admit(&mut LoginConstraints::for_login(), "guests").is_err());
//! # assert!(explain("guests").is_ok());
//! ```

use crate::answer::Answer;
use bulkhead_wire::failure::Failure;
use serde::Serialize;
use serde_json::json;

/// The constraints of a login that were checked so far.
#[derive(Debug)]
pub struct LoginConstraints {
    is_listing: bool,
    known: Vec<LoginConstraint>,
}

/// A checked constraint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LoginConstraint {
    /// The role's field, or an item that every login must present, such as `jwt`.
    pub name: String,
    /// True if the login meets the constraint.
    pub held: bool,
    /// The reason for the result, in the words that a login is refused with.
    pub why: String,
}

impl LoginConstraints {
    /// Creates the list for a login: the first unmet constraint ends the login.
    #[must_use]
    pub fn for_login() -> Self {
        Self { is_listing: false, known: Vec::new() }
    }

    /// Creates the list for an explanation: all constraints are checked.
    #[must_use]
    pub fn for_explanation() -> Self {
        Self { is_listing: true, known: Vec::new() }
    }

    /// Notes a constraint: a value with the reason why the constraint is met, or the failure that
    /// says why not. Returns the value; `None` if the constraint is not met, so that the caller
    /// [leaves out](Self::record_unchecked) the constraints that need the value.
    ///
    /// # Errors
    /// For a login, the failure of the unmet constraint.
    pub fn record<T>(
        &mut self,
        name: &str,
        found: Result<(T, String), Failure>,
    ) -> Result<Option<T>, Failure> {
        match found {
            Ok((learnt, why)) => {
                self.note(name, true, why);
                Ok(Some(learnt))
            }
            Err(why) if self.is_listing => {
                self.note(name, false, why.message);
                Ok(None)
            }
            Err(why) => Err(why),
        }
    }

    /// Notes constraints that cannot be checked, because the constraint `missing` is not met.
    pub fn record_unchecked(&mut self, names: &[&str], missing: &str) {
        for name in names {
            self.note(name, false, format!("cannot be told while {missing} does not hold"));
        }
    }

    /// Returns the noted constraints in their order.
    #[must_use]
    pub fn known(&self) -> &[LoginConstraint] {
        &self.known
    }

    /// Builds the answer to the operator: `constraints`, a list of `{name, held, why}`.
    ///
    /// # Errors
    /// None in practice: a list of texts always serialises.
    pub fn answer(self) -> Result<Answer, Failure> {
        Answer::data(&json!({ "constraints": self.known }))
    }

    fn note(&mut self, name: &str, is_held: bool, why: String) {
        self.known.push(LoginConstraint { name: name.to_owned(), held: is_held, why });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(constraints: &mut LoginConstraints, first: bool) -> Result<(), Failure> {
        let one = first.then(|| (7, "it is seven".to_owned()));
        let one = constraints.record("one", one.ok_or_else(|| Failure::invalid("one is not")))?;
        if one.is_none() {
            constraints.record_unchecked(&["of-one"], "one");
        }
        constraints.record::<()>("two", Err(Failure::denied("two is not")))?;
        Ok(())
    }

    #[test]
    fn login_stops_at_first_unmet_constraint() {
        let refused = |first| admit(&mut LoginConstraints::for_login(), first).unwrap_err().message;
        assert_eq!(
            (refused(false), refused(true)),
            ("one is not".to_owned(), "permission denied: two is not".to_owned(),)
        );
    }

    #[test]
    fn explanation_lists_all_constraints_in_login_words() {
        let mut constraints = LoginConstraints::for_explanation();
        admit(&mut constraints, false).unwrap();
        let entries: Vec<(&str, bool, &str)> = constraints
            .known()
            .iter()
            .map(|it| (it.name.as_str(), it.held, it.why.as_str()))
            .collect();
        assert_eq!(
            entries,
            [
                ("one", false, "one is not"),
                ("of-one", false, "cannot be told while one does not hold"),
                ("two", false, "permission denied: two is not"),
            ]
        );
        assert!(constraints.answer().is_ok());
        let mut constraints = LoginConstraints::for_explanation();
        admit(&mut constraints, true).unwrap();
        assert!(constraints.known()[0].held);
    }
}
