//! Places of snapshots in progress.

use super::*;

#[tokio::test]
async fn places_are_bounded_and_end_on_close() {
    let places = SnapshotPlaces::default();
    let taken: Vec<SnapshotPlace> = (0..MAX_SNAPSHOTS).map(|_| places.take().unwrap()).collect();
    let Err(StoreFault::Unavailable(text)) = places.take() else { panic!("a third place") };
    assert!(text.contains("2 snapshots"), "{text}");
    let end_all = async {
        for mut place in taken {
            place.closed().await;
        }
    };
    tokio::join!(places.close(), end_all);
    let Err(StoreFault::Unavailable(text)) = places.take() else { panic!("closed") };
    assert!(text.contains("closed"), "{text}");
}
