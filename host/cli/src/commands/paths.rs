//! Paths of the API below which things have names.

use crate::problem::Problem;

/// The path of what is called `name` below `base`. `noun` is what has the name, like `the policy`.
///
/// # Errors
/// An empty name, which would act on the whole collection.
pub(super) fn below(base: &str, name: &str, noun: &str) -> Result<String, Problem> {
    match name.trim_matches('/') {
        "" => Err(Problem::usage(format!("{noun} needs a name"))),
        name => Ok(format!("{base}/{name}")),
    }
}
