//! The mount's cache in memory. Only one call runs at a time, so a call that finds no value leads
//! at once.

use super::script::Script;
use crate::database_plugin::StoreTime;
use crate::host::Cache;
use bulkhead_wire::failure::Failure;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Values with the time until which they are kept.
pub(super) struct TestCache {
    script: Rc<Script>,
    kept: RefCell<BTreeMap<String, (Vec<u8>, StoreTime)>>,
}

impl TestCache {
    pub(super) fn new(script: &Rc<Script>) -> Self {
        Self { script: Rc::clone(script), kept: RefCell::default() }
    }

    pub(super) fn clear(&self) {
        self.kept.borrow_mut().clear();
    }
}

impl Cache for TestCache {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Failure> {
        self.script.step("cached", None, || {
            let values = self.kept.borrow();
            let entry = values.get(key).filter(|(_, until)| self.script.now() < *until);
            Ok(entry.map(|(value, _)| value.clone()))
        })
    }

    fn get_or_lead(&self, key: &str) -> Result<Option<Vec<u8>>, Failure> {
        self.get(key)
    }

    fn put(&self, key: &str, value: &[u8], ttl: u32) -> Result<(), Failure> {
        self.script.step("cache", None, || {
            let until = self.script.now().saturating_add(u64::from(ttl).saturating_mul(1_000));
            self.kept.borrow_mut().insert(key.to_owned(), (value.to_vec(), until));
            Ok(())
        })
    }

    fn remove(&self, key: &str) -> Result<(), Failure> {
        self.script.step("uncache", None, || {
            self.kept.borrow_mut().remove(key);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn cache_remakes_value_after_expiry_removal_or_clearing() {
        let script = Rc::new(Script::default());
        let test_cache = TestCache::new(&script);
        let cache: &dyn Cache = &test_cache;
        let mut calls = 0_u8;
        let mut ask = || {
            let value = cache.get_or_make("k", 60, || {
                calls += 1;
                Ok(vec![calls])
            });
            value.unwrap()
        };
        assert_eq!((ask(), ask()), (vec![1], vec![1]));
        script.advance(60);
        assert_eq!(ask(), [2]);
        cache.remove("k").unwrap();
        assert_eq!(ask(), [3]);
        test_cache.clear();
        assert_eq!((ask(), cache.get("k").unwrap()), (vec![4], Some(vec![4])));
        let failed = cache.get_or_make("other", 60, || Err(Failure::absent()));
        assert!(failed.is_err() && cache.get("other").unwrap().is_none());
    }
}
