//! Tests of `listings.rs`.

use super::*;
use serde_json::json;

fn listings(patience: Duration) -> Arc<ListingSlots> {
    ListingSlots::new(patience)
}

async fn sorted(names: &[&str], after: &str, limit: usize) -> Option<Value> {
    let paging = Paging { after: after.to_owned(), limit };
    let mut sorted = SortedNames::new(&listings(Duration::ZERO), paging);
    for name in names {
        sorted.add((*name).to_owned()).await.unwrap();
    }
    sorted.end().map(|listing| serde_json::from_str(&listing.keys).unwrap())
}

#[tokio::test]
async fn page_holds_smallest_names_for_any_scan_order() {
    let names = ["d", "a", "c/", "b", "c/", "e"];
    assert_eq!(sorted(&names, "", usize::MAX).await.unwrap(), json!(["a", "b", "c/", "d", "e"]));
    assert_eq!(sorted(&names, "", 2).await.unwrap(), json!(["a", "b"]));
    assert_eq!(sorted(&names, "b", 2).await.unwrap(), json!(["c/", "d"]));
    assert_eq!(sorted(&names, "c/", 2).await.unwrap(), json!(["d", "e"]));
    assert_eq!(sorted(&names, "e", 2).await, None);
}

#[tokio::test]
async fn listing_text_contains_keys_and_key_info() {
    let info = |number: u8| Map::from_iter([("n\"".to_owned(), json!(number))]);
    let mut text = ListingText::with_info(&listings(Duration::ZERO));
    text.add("a\n", &info(1)).await.unwrap();
    text.add("b", &info(2)).await.unwrap();
    let listing = text.end().unwrap();
    let mut data = Vec::new();
    listing.write(&mut data);
    let expected = json!({
        "keys": ["a\n", "b"], "key_info": { "a\n": { "n\"": 1 }, "b": { "n\"": 2 } }
    });
    assert_eq!(data, expected.to_string().into_bytes());
    assert_eq!(listing.entries, 2);
    assert!(ListingText::of_names(&listings(Duration::ZERO)).end().is_none());
}

/// A listing of so many bytes.
async fn of_bytes(listings: &Arc<ListingSlots>, bytes: usize) -> Result<ListingText, Failure> {
    let mut text = ListingText::of_names(listings);
    while text.room.bytes < bytes {
        text.add(&format!("{:01000}", text.entries()), &Map::new()).await?;
    }
    Ok(text)
}

#[tokio::test]
async fn long_listings_are_limited_and_short_ones_pass() {
    let all = listings(Duration::from_millis(20));
    let mut long_listings = Vec::new();
    for _ in 0..MAX_LONG_LISTINGS {
        long_listings.push(of_bytes(&all, 2 * MAX_UNSLOTTED_BYTES).await.unwrap().end().unwrap());
    }
    let refused = of_bytes(&all, 2 * MAX_UNSLOTTED_BYTES).await.map(drop).unwrap_err();
    assert_eq!((refused.kind, refused.retry_after), (FailureKind::Unavailable, Some(RETRY_AFTER)));
    assert!(of_bytes(&all, MAX_UNSLOTTED_BYTES / 2).await.is_ok(), "a short one takes no slot");
    long_listings.pop();
    assert!(
        of_bytes(&all, 2 * MAX_UNSLOTTED_BYTES).await.is_ok(),
        "the slot is free once the answer is written"
    );
}

#[tokio::test]
async fn a_listing_waits_for_its_slot() {
    let all = listings(Duration::from_secs(60));
    let mut long_listings = Vec::new();
    for _ in 0..MAX_LONG_LISTINGS {
        long_listings.push(of_bytes(&all, 2 * MAX_UNSLOTTED_BYTES).await.unwrap());
    }
    let waiting = {
        let all = Arc::clone(&all);
        tokio::spawn(async move { of_bytes(&all, 2 * MAX_UNSLOTTED_BYTES).await.is_ok() })
    };
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    long_listings.pop();
    assert!(waiting.await.unwrap());
}

#[tokio::test]
async fn excessive_listing_is_refused_with_paging_advice() {
    let all = listings(Duration::ZERO);
    let refused = of_bytes(&all, MAX_LISTING_BYTES + 1).await.map(drop).unwrap_err();
    assert_eq!(refused.kind, FailureKind::TooLarge);
    for word in ["16MiB", "limit", "after"] {
        assert!(refused.message.contains(word), "{}", refused.message);
    }
    let paging = Paging { after: String::new(), limit: usize::MAX };
    let mut names = SortedNames::new(&all, paging);
    let mut added = Ok(());
    for number in 0..=MAX_LISTING_BYTES / 1_000 {
        added = names.add(format!("{number:01000}")).await;
        if added.is_err() {
            break;
        }
    }
    assert_eq!(added.unwrap_err().kind, FailureKind::TooLarge);
}

#[tokio::test]
async fn page_of_sorted_names_stores_only_shown_names() {
    let all = listings(Duration::ZERO);
    let mut names = SortedNames::new(&all, Paging { after: String::new(), limit: 10 });
    for number in (0..100_000).rev() {
        names.add(format!("{number:06}")).await.unwrap();
        assert!(names.found.len() <= 10 && names.room.bytes <= 10 * (6 + OF_A_NAME));
    }
    assert_eq!(names.end().unwrap().entries, 10);
}
