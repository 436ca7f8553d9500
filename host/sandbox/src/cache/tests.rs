//! Tests of cached values, their isolation by mount and component, and the lead for a missing
//! value.

use super::*;
use std::time::Duration;

const ROOM: usize = 1 << 20;

fn text(value: Option<Zeroizing<Vec<u8>>>) -> Option<String> {
    value.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

fn long() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn lead(found: CacheLookup) -> CacheLead {
    match found {
        CacheLookup::Lead(lead) => lead,
        CacheLookup::Value(_) => panic!("there is a value"),
    }
}

#[test]
fn caches_are_separate_by_mount_and_component_version() {
    let caches = CacheRegistry::default();
    caches.of("one", "v1").put("k", b"1".to_vec().into(), long(), ROOM);
    assert!(caches.of("other", "v1").get("k", Instant::now()).is_none());
    assert_eq!(text(caches.of("one", "v1").get("k", Instant::now())).unwrap(), "1");
    assert!(caches.of("one", "v2").get("k", Instant::now()).is_none());
    assert!(
        caches.of("one", "v1").get("k", Instant::now()).is_none(),
        "a forgotten cache stays empty"
    );
    for forget in
        [|caches: &CacheRegistry| caches.forget("one"), |caches: &CacheRegistry| caches.clear()]
    {
        caches.of("one", "v1").put("k", b"1".to_vec().into(), long(), ROOM);
        forget(&caches);
        assert!(caches.of("one", "v1").get("k", Instant::now()).is_none());
    }
}

#[test]
fn least_recent_entry_is_evicted_except_for_oversize() {
    let (cache, room) = (ValueCache::default(), 3 * weight("a", b"1234"));
    for key in ["a", "b", "c"] {
        cache.put(key, b"1234".to_vec().into(), long(), room);
    }
    assert!(cache.get("a", Instant::now()).is_some());
    cache.put("d", b"1234".to_vec().into(), long(), room);
    assert!(
        cache.get("b", Instant::now()).is_none()
            && cache.get("a", Instant::now()).is_some()
            && cache.get("c", Instant::now()).is_some()
    );
    cache.put("e", vec![0; room].into(), long(), room);
    assert!(cache.get("e", Instant::now()).is_none() && cache.get("d", Instant::now()).is_some());
    cache.put("d", b"12345".to_vec().into(), long(), room);
    assert_eq!(cache.lock().entries.len(), 2, "the larger value took another's room");
    for key in ["a", "b", "c", "d"] {
        cache.remove(key);
    }
    let state = cache.lock();
    assert_eq!((state.bytes, state.by_use.len()), (0, 0));
    drop(state);
    for number in 0..=limits::CACHE_ENTRIES {
        cache.put(&number.to_string(), Zeroizing::default(), long(), usize::MAX);
    }
    assert_eq!(cache.lock().entries.len(), limits::CACHE_ENTRIES);
}

#[test]
fn all_caches_share_bound_and_largest_gives_way() {
    let caches = CacheRegistry::default();
    let small = caches.of("small", "v1");
    small.put("k", b"1".to_vec().into(), long(), ROOM);
    let large = caches.of("large", "v1");
    for number in 0..100 {
        large.put(&format!("{number:02}"), vec![0; 1_000].into(), long(), ROOM);
    }
    let (all, bound) = (small.bytes() + large.bytes(), 60_000);
    assert_eq!(caches.bytes.load(Ordering::Relaxed), all);
    assert!(all > bound);
    caches.evict_down_to(bound);
    assert!(small.get("k", Instant::now()).is_some() && large.get("99", Instant::now()).is_some());
    assert!(large.get("00", Instant::now()).is_none(), "the least recently used entry is evicted");
    let left = caches.bytes.load(Ordering::Relaxed);
    assert_eq!(left, small.bytes() + large.bytes());
    assert!(left <= bound && left > bound / 2, "{left}");
    caches.clear();
    drop((small, large));
    assert_eq!(caches.bytes.load(Ordering::Relaxed), 0);
}

#[test]
fn cached_value_expires_at_given_time() {
    let (cache, now) = (ValueCache::default(), Instant::now());
    let until = now + Duration::from_secs(5);
    cache.put("k", b"1".to_vec().into(), until, ROOM);
    assert!(cache.get("k", until - Duration::from_millis(1)).is_some());
    assert!(cache.get("k", until).is_none());
    assert_eq!(cache.lock().bytes, 0);
}

#[tokio::test]
async fn concurrent_lookups_share_value_of_one_leader() {
    let cache = Arc::new(ValueCache::default());
    let lead = lead(cache.get_or_lead("k", long()).await);
    let others: Vec<_> = (0..100)
        .map(|_| {
            let cache = Arc::clone(&cache);
            tokio::spawn(async move { cache.get_or_lead("k", long()).await })
        })
        .collect();
    tokio::task::yield_now().await;
    cache.put("k", b"made".to_vec().into(), long(), ROOM);
    drop(lead);
    for other in others {
        assert!(
            matches!(other.await.unwrap(), CacheLookup::Value(value) if value.as_slice() == b"made")
        );
    }
    assert!(cache.lock().leads.is_empty());
}

#[tokio::test]
async fn next_waiter_leads_after_leader_failure_or_delay() {
    let cache = Arc::new(ValueCache::default());
    let first = lead(cache.get_or_lead("k", long()).await);
    let (next, ()) = tokio::join!(cache.get_or_lead("k", long()), async { drop(first) });
    let dawdles = lead(next);
    let soon = Instant::now() + Duration::from_millis(20);
    let third = lead(cache.get_or_lead("k", soon).await);
    assert!(Instant::now() >= soon);
    cache.remove("k");
    drop(dawdles);
    assert!(
        cache.lock().leads.contains_key("k"),
        "a late call does not end the lead of another call"
    );
    drop(third);
    assert!(cache.lock().leads.is_empty());
}
