//! Storage, leases, clock and log of the host in memory. A test can refuse every function that may
//! fail, except `widen` and `rest`.

use super::{TestHost, Timer};
use crate::database_plugin::StoreTime;
use crate::host::{Clock, Entry, Leases, Log, LogLevel, RecordPage, Storage};
use bulkhead_wire::failure::Failure;

impl Storage for TestHost {
    fn entry_bytes(&self, key: &str) -> Result<Option<Entry<Vec<u8>>>, Failure> {
        self.script.count_reads(1);
        self.script.step("get", None, || Ok(self.records.borrow().get(key)))
    }

    fn put_bytes(&self, key: &str, value: Vec<u8>) -> Result<(), Failure> {
        self.script.step("put", None, || {
            self.script.spend(|used| used.storage_bytes += key.len() + value.len())?;
            self.records.borrow_mut().put(key, Some(value));
            Ok(())
        })
    }

    fn delete(&self, key: &str) -> Result<(), Failure> {
        self.script.step("delete", None, || {
            self.records.borrow_mut().put(key, None);
            Ok(())
        })
    }

    fn keys(&self, prefix: &str, after: &str, limit: u32) -> Result<Vec<String>, Failure> {
        self.script.step("keys", None, || {
            let keys = self.records.borrow().keys(prefix, after, limit);
            self.script.count_reads(keys.len());
            Ok(keys)
        })
    }

    fn scan_bytes(&self, prefix: &str, after: &str, limit: u32) -> Result<RecordPage, Failure> {
        self.script.step("scan", None, || {
            let page = self.records.borrow().scan(prefix, after, limit);
            self.script.count_reads(page.len());
            Ok(page)
        })
    }

    fn revision(&self, prefix: &str) -> Result<u64, Failure> {
        self.script.step("revision", None, || self.records.borrow_mut().revision(prefix))
    }

    fn checkpoint(&self) -> Result<u64, Failure> {
        self.script.step("checkpoint", Some(""), || {
            self.check_commit()?;
            Ok(self.commit())
        })
    }
}

impl Leases for TestHost {
    fn reserve(&self, tag: &str, lane: &str, internal: &str) -> Result<String, Failure> {
        self.script.step("reserve", Some(&format!("{tag} in {lane}")), || {
            self.leases.borrow_mut().reserve(tag, lane, internal, self.now())
        })
    }

    fn amend(&self, tag: &str, internal: &str) -> Result<(), Failure> {
        self.script.step("amend", Some(tag), || self.leases.borrow_mut().amend(tag, internal))
    }

    fn end_issued(&self, handle: &str) -> Result<(), Failure> {
        self.script.step("end-issued", Some(handle), || self.leases.borrow_mut().end_issued(handle))
    }

    fn end(&self, tag: &str) -> Result<(), Failure> {
        self.script.step("end", Some(tag), || self.leases.borrow_mut().end(tag))
    }

    fn count(&self, lane: &str) -> Result<u32, Failure> {
        self.script.step("count", None, || Ok(self.leases.borrow().count(lane)))
    }
}

impl Clock for TestHost {
    fn now(&self) -> StoreTime {
        self.script.now()
    }

    fn pause(&self, milliseconds: u64) {
        self.record(format!("pause {milliseconds}"));
        self.script.pass(milliseconds);
    }

    fn schedule(&self, key: &str, at: StoreTime, lane: &str) -> Result<(), Failure> {
        self.script.step("schedule", Some(&format!("{key} in {lane}")), || {
            self.timers.borrow_mut().set(key, Timer::scheduled(at));
            Ok(())
        })
    }

    fn guard(&self, key: &str, lane: &str) -> Result<(), Failure> {
        self.script.step("guard", Some(&format!("{key} in {lane}")), || {
            self.timers.borrow_mut().set(key, Timer::guard(self.now()));
            Ok(())
        })
    }

    fn widen(&self, lane: &str, places: u32) -> Result<(), Failure> {
        self.lanes.borrow_mut().widths.insert(lane.to_owned(), places);
        Ok(())
    }

    fn rest(&self, lane: &str) -> Result<Option<u64>, Failure> {
        Ok(self.lanes.borrow().rests.get(lane).copied())
    }

    fn cancel(&self, key: &str) -> Result<(), Failure> {
        self.script.step("cancel", Some(key), || {
            self.timers.borrow_mut().cancel(key);
            Ok(())
        })
    }
}

impl Log for TestHost {
    fn write(&self, _level: LogLevel, event: &str, pairs: &[(&str, &str)]) {
        let pairs: Vec<String> =
            pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
        self.record(format!("log {event} {}", pairs.join(" ")).trim_end().to_owned());
    }
}
