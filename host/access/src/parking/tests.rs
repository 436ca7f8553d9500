//! Groups of equal requests, places of clients and strangers, and bytes.

use super::*;
use std::net::{IpAddr, Ipv4Addr};

fn answer(text: &str) -> Result<RawResponse, Failure> {
    let body = Arc::new(text.as_bytes().to_vec());
    Ok(RawResponse { status: 200, headers: Vec::new(), body })
}

fn client(last: u8) -> Client {
    Client::of(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)))
}

#[tokio::test]
async fn equal_requests_share_group_until_answer() {
    let parking = ParkedRequests::default();
    let (mut one, group) = parking.join("a", "m");
    let group = group.unwrap();
    let (mut other, joined) = parking.join("a", "m");
    assert!(joined.is_none());
    parking.answer(&group, answer("x"));
    assert!(one.answer().await == answer("x") && other.answer().await == answer("x"));
    assert!(parking.join("a", "m").1.is_some(), "a new run begins after the end of the first");
}

#[tokio::test]
async fn group_ends_on_last_departure_or_release() {
    let parking = ParkedRequests::default();
    let (seat, group) = parking.join("a", "m");
    drop(seat);
    assert_eq!(parking.wait_until_idle(&group.unwrap()).await, WaitOutcome::Empty);
    let (mut seat, group) = parking.join("a", "m");
    let group = group.unwrap();
    parking.release("other", &Failure::denied("x"));
    parking.release("m", &Failure::denied("gone"));
    assert_eq!(parking.wait_until_idle(&group).await, WaitOutcome::Released);
    assert_eq!(seat.answer().await.err().unwrap(), Failure::denied("gone"));
}

fn claim(last: u8, is_known: bool, bytes: usize) -> PlaceClaim {
    PlaceClaim { client: client(last), is_known, bytes }
}

/// Takes places until a claim is refused. Returns the places and the refusal.
fn take_all(
    parking: &ParkedRequests,
    claims: impl Iterator<Item = PlaceClaim>,
) -> (Vec<ParkingPlace>, Option<Failure>) {
    let mut places = Vec::new();
    for claim in claims {
        match parking.take_place(claim) {
            Ok(place) => places.push(place),
            Err(refused) => return (places, Some(refused)),
        }
    }
    (places, None)
}

#[test]
fn parked_places_per_client_are_limited_and_returned() {
    let parking = ParkedRequests::default();
    let (taken, refused) = take_all(&parking, std::iter::repeat(claim(1, true, 100)));
    assert_eq!(taken.len(), MAX_PARKED_PER_CLIENT);
    assert_eq!(refused.unwrap().kind, FailureKind::RateLimited);
    let of_other = parking.take_place(claim(2, true, 100)).ok();
    assert_eq!(parking.waiting(), MAX_PARKED_PER_CLIENT + 1);
    drop((taken, of_other));
    assert_eq!(parking.waiting(), 0);
    assert!(sync::lock(&parking.places).by_client.is_empty());
    assert!(parking.take_place(claim(1, true, 100)).is_ok());
}

#[test]
fn strangers_leave_most_places_to_known_callers() {
    let parking = ParkedRequests::default();
    let of_one = take_all(&parking, std::iter::repeat(claim(1, false, 100)));
    assert_eq!(of_one.0.len(), MAX_PARKED_UNNAMED_PER_CLIENT);
    let refused = of_one.1.unwrap().message;
    assert!(refused.contains("without an accepted token"), "{refused}");
    let place = parking.take_place(claim(1, true, 100));
    assert!(place.is_ok(), "a known caller at the address of strangers has a place");
    let crowd = (2..=255).flat_map(|last| (0..50).map(move |_| claim(last, false, 100)));
    let of_many = take_all(&parking, crowd);
    assert_eq!(of_many.0.len() + of_one.0.len(), MAX_PARKED_UNNAMED);
    assert!(of_many.1.unwrap().message.contains("of a server"));
    assert!(parking.take_place(claim(3, true, 100)).is_ok());
}

#[test]
fn bytes_of_parked_requests_are_bounded() {
    let parking = ParkedRequests::default();
    let size = 32 << 10;
    let (of_unnamed_client, _) = take_all(&parking, std::iter::repeat(claim(1, false, size)));
    assert_eq!(of_unnamed_client.len(), MAX_PARKED_UNNAMED_BYTES_PER_CLIENT / size);
    let crowd = (2..=255).flat_map(|last| (0..4).map(move |_| claim(last, false, size)));
    let (of_unnamed_crowd, _) = take_all(&parking, crowd);
    let parked_bytes = (of_unnamed_client.len() + of_unnamed_crowd.len()) * size;
    assert_eq!(parked_bytes, MAX_PARKED_UNNAMED_BYTES);
    let (of_known, _) = take_all(&parking, std::iter::repeat(claim(1, true, size)));
    assert_eq!(of_unnamed_client.len() + of_known.len(), MAX_PARKED_BYTES_PER_CLIENT / size);
    let crowd = (2..=255).flat_map(|last| (0..100).map(move |_| claim(last, true, size)));
    let (_of_crowd, refused) = take_all(&parking, crowd);
    assert!(refused.unwrap().message.contains("KiB"));
    let parked_bytes = sync::lock(&parking.places).process.all.bytes;
    assert_eq!(parked_bytes, MAX_PARKED_BYTES);
}
