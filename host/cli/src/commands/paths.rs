//! API paths of named objects.

use crate::problem::CommandProblem;

/// Returns the path of the object `name` below `base`. `noun` names the object in messages, for
/// example `the policy`.
///
/// # Errors
/// An empty name, which would act on the whole collection.
pub(super) fn join_path(base: &str, name: &str, noun: &str) -> Result<String, CommandProblem> {
    match name.trim_matches('/') {
        "" => Err(CommandProblem::usage(format!("{noun} needs a name"))),
        name => Ok(format!("{base}/{name}")),
    }
}
