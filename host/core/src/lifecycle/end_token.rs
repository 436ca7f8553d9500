//! Due work on a token: its end, when its time has come, and clearing away what has ended.

use crate::core::Core;
use crate::tokens::Ending;
use bulkhead_wire::failure::Failure;

/// Ends the token if it is due, clears its tree away, deepest tokens first, and then itself.
///
/// # Errors
/// Those of the store. The row stays due.
pub(crate) async fn end_token(core: &Core, key: &str) -> Result<(), Failure> {
    let Some(ending) = core.tokens.end_if_due(key).await? else { return Ok(()) };
    match ending {
        Ending::Alone => core.tokens.release_children(key).await?,
        Ending::WithChildren => {
            for descendant in core.tokens.refuse_descendants(key).await?.iter().rev() {
                clear_away(core, descendant).await?;
            }
        }
    }
    clear_away(core, key).await
}

/// Makes the leases of an ended token due, and removes its row.
async fn clear_away(core: &Core, key: &str) -> Result<(), Failure> {
    core.leases.end_owned(key).await?;
    core.tokens.remove_ended(key).await
}
