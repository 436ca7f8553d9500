//! The mount's cache in memory. Nobody else calls, so that whoever asks for what is absent leads at
//! once.

use super::host::TestHost;
use crate::database_plugin::StoreTime;
use crate::host::Cache;
use bulkhead_wire::failure::Failure;
use std::collections::BTreeMap;

/// Values, and until when they are kept.
#[derive(Default)]
pub(super) struct Kept(BTreeMap<String, (Vec<u8>, StoreTime)>);

impl TestHost {
    /// Forgets what is cached, as the host does when it is sealed or the mount is tuned.
    pub fn forget_cached(&self) {
        self.state.borrow_mut().kept.0.clear();
    }
}

impl Cache for TestHost {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Failure> {
        self.step("cached", None, |state| {
            let now = state.now();
            Ok(state
                .kept
                .0
                .get(key)
                .filter(|(_, until)| now < *until)
                .map(|(value, _)| value.clone()))
        })
    }

    fn get_or_lead(&self, key: &str) -> Result<Option<Vec<u8>>, Failure> {
        self.get(key)
    }

    fn put(&self, key: &str, value: &[u8], ttl: u32) -> Result<(), Failure> {
        self.step("cache", None, |state| {
            let until = state.now().saturating_add(u64::from(ttl).saturating_mul(1_000));
            state.kept.0.insert(key.to_owned(), (value.to_vec(), until));
            Ok(())
        })
    }

    fn remove(&self, key: &str) -> Result<(), Failure> {
        self.step("uncache", None, |state| {
            state.kept.0.remove(key);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Host as _;

    #[test]
    fn a_value_is_made_once_until_its_time_is_over_it_is_removed_or_all_is_forgotten() {
        let host = TestHost::default();
        let mut made = 0_u8;
        let mut ask = || {
            let value = host.cache().get_or_make("k", 60, || {
                made += 1;
                Ok(vec![made])
            });
            value.unwrap()
        };
        assert_eq!((ask(), ask()), (vec![1], vec![1]));
        host.advance(60);
        assert_eq!(ask(), [2]);
        host.cache().remove("k").unwrap();
        assert_eq!(ask(), [3]);
        host.forget_cached();
        assert_eq!((ask(), host.cache().get("k").unwrap()), (vec![4], Some(vec![4])));
        let failed = host.cache().get_or_make("other", 60, || Err(Failure::absent()));
        assert!(failed.is_err() && host.cache().get("other").unwrap().is_none());
    }
}
