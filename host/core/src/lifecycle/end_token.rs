//! Due work on a token: ends the token at its time, and clears ended tokens away.

use crate::core::Core;
use bulkhead_access::background::DueOutcome;
use bulkhead_access::cubbyhole;
use bulkhead_access::tokens::TokenEnding;
use bulkhead_access::wrapping;
use bulkhead_wire::failure::Failure;

/// Ends a due token and clears the token away. Its descendants are cleared away before, deepest
/// first; a token that ends alone releases its children instead.
///
/// # Errors
/// The store's failure. The row stays due.
pub(crate) async fn end_token(core: &Core, key: &str) -> Result<DueOutcome, Failure> {
    let Some(ending) = core.tokens.end_if_due(key).await? else { return Ok(DueOutcome::Moot) };
    match ending {
        TokenEnding::Alone => core.tokens.release_children(key).await?,
        TokenEnding::WithChildren => {
            for descendant in core.tokens.refuse_descendants(key).await?.iter().rev() {
                clear_away(core, descendant).await?;
            }
        }
    }
    clear_away(core, key).await.map(|()| DueOutcome::Done)
}

/// Makes the leases of an ended token due, and removes its wrapped answer, its
/// cubbyhole and its row.
async fn clear_away(core: &Core, key: &str) -> Result<(), Failure> {
    core.leases.end_owned(key).await?;
    wrapping::erase(&core.store, key).await?;
    cubbyhole::erase(&core.store, key).await?;
    core.tokens.remove_ended(key).await
}
