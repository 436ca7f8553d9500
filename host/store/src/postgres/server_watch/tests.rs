//! The finding that another server is behind the connections.

use futures_util::FutureExt as _;

use super::*;

#[test]
fn other_start_or_silence_ends_statements() {
    let watch = ServerWatch::default();
    let started = |text: &str| Some(text.to_owned());
    let found = [
        ((1, 0), started("a"), false),
        ((2, 0), started("a"), false),
        ((3, 0), started("b"), true),
        ((4, 0), None, true),
        ((5, 0), started("b"), true),
        ((6, 0), started("b"), false),
        ((7, 1), started("b"), true),
        ((8, 1), started("b"), false),
    ];
    for (connections, started, is_other) in found {
        assert_eq!(watch.note(connections, started), is_other, "{connections:?}");
    }
}

#[tokio::test]
async fn waiting_statement_ends_with_its_server() {
    let watch = ServerWatch::default();
    let mut changes = watch.changes();
    assert!(changes.unless_replaced(async { Ok(()) }).await.is_ok());
    watch.replaced.send_replace(());
    let waiting = std::future::pending::<Result<(), PostgresError>>();
    let error = changes.unless_replaced(waiting).await.unwrap_err();
    assert!(error.ends_session() && !error.is_timeout());
    let waiting = std::future::pending::<Result<(), PostgresError>>();
    assert!(watch.changes().unless_replaced(waiting).now_or_never().is_none());
}
