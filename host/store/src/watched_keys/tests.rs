//! Watches of keys, and the changes that wake them.

use super::*;
use futures_util::FutureExt as _;

fn address(space: Space, key: &str) -> Address {
    Address::new(space, key)
}

#[tokio::test]
async fn bell_rings_for_watched_keys_and_remembers_ring() {
    let watched = Arc::new(WatchedKeys::default());
    let watch = watched.watch(vec!["m/a".to_owned(), "m/b".to_owned()]);
    watched.ring([address(Space::Data, "m/c"), address(Space::Core, "m/a")].iter());
    assert!(watch.changed().now_or_never().is_none());
    watched.ring([address(Space::Data, "m/b")].iter());
    assert!(watch.changed().now_or_never().is_some());
    assert!(watch.changed().now_or_never().is_none(), "a ring counts once");
}

#[tokio::test]
async fn a_bell_that_is_dropped_leaves_the_others() {
    let watched = Arc::new(WatchedKeys::default());
    let (one, other) =
        (watched.watch(vec!["m/a".to_owned()]), watched.watch(vec!["m/a".to_owned()]));
    drop(one);
    watched.ring([address(Space::Data, "m/a")].iter());
    assert!(other.changed().now_or_never().is_some());
    drop(other);
    assert_eq!(watched.keys.load(Ordering::SeqCst), 0);
    assert!(sync::lock(&watched.bells).is_empty());
}
