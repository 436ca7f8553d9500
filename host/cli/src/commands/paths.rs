//! API paths of named objects.

use crate::problem::Problem;

/// Returns the path of the object `name` below `base`. `noun` names the object in messages, for
/// example `the policy`.
///
/// # Errors
/// An empty name, which would act on the whole collection.
pub(super) fn below(base: &str, name: &str, noun: &str) -> Result<String, Problem> {
    match name.trim_matches('/') {
        "" => Err(Problem::usage(format!("{noun} needs a name"))),
        name => Ok(format!("{base}/{name}")),
    }
}
