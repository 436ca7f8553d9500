//! The mount's own records, inside the call's unit of work.

use bulkhead_wire::failure::Failure;
use bulkhead_wire::stored::{Stored, UnreadableRecord};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Maximum number of records per page of a scan.
const PAGE: u32 = 1_000;

/// The mount's own storage inside the call's unit of work: writes are buffered, and the engine sees
/// its own writes.
///
/// Most code uses [`get`](trait.Storage.html#method.get) and
/// [`put`](trait.Storage.html#method.put), for records that [`stored!`](crate::stored) declares:
/// the tests of these records read records that earlier versions of the engine wrote.
pub trait Storage {
    /// Returns the bytes under `key` with their indexes in the mount's history; `None` if the key
    /// is absent. The commit checks the absence again, too.
    ///
    /// # Errors
    /// Invalid request for keys outside the contract's rules; unavailable if the store cannot be
    /// read.
    fn entry_bytes(&self, key: &str) -> Result<Option<Entry<Vec<u8>>>, Failure>;

    /// Returns the bytes under `key`.
    ///
    /// # Errors
    /// As [`entry_bytes`](Self::entry_bytes).
    fn get_bytes(&self, key: &str) -> Result<Option<Vec<u8>>, Failure> {
        Ok(self.entry_bytes(key)?.map(|entry| entry.value))
    }

    /// Buffers `value` under `key`.
    ///
    /// # Errors
    /// Invalid request for keys outside the contract's rules and values over 1 MiB.
    fn put_bytes(&self, key: &str, value: Vec<u8>) -> Result<(), Failure>;

    /// Buffers the removal of `key`. Succeeds if the key is absent.
    ///
    /// # Errors
    /// As [`put_bytes`](Self::put_bytes).
    fn delete(&self, key: &str) -> Result<(), Failure>;

    /// Returns up to `limit` (1 to 1,000) keys below `prefix` and after `after`, in order and
    /// without the prefix.
    ///
    /// # Errors
    /// As [`get_bytes`](Self::get_bytes).
    fn keys(&self, prefix: &str, after: &str, limit: u32) -> Result<Vec<String>, Failure>;

    /// Returns up to `limit` (1 to 1,000) records below `prefix` and after `after`, in the order of
    /// their keys, each with its key without the prefix. A page ends at 1 MiB of values; only an
    /// empty page means the end.
    ///
    /// # Errors
    /// As [`get_bytes`](Self::get_bytes).
    fn scan_bytes(&self, prefix: &str, after: &str, limit: u32) -> Result<RecordPage, Failure>;

    /// Returns the revision of all records below `prefix`, which is empty or ends in a slash. The
    /// revision changes with each commit that puts or deletes a record there, and at each start of
    /// the server. Use it in the cache key of a value that was derived from all records of a
    /// folder.
    ///
    /// # Errors
    /// As [`get_bytes`](Self::get_bytes); invalid request for a prefix that ends in the middle of a
    /// name.
    fn revision(&self, prefix: &str) -> Result<u64, Failure>;

    /// Commits the buffered writes before an effect. The final commit does not check earlier reads
    /// again. For things that end use [`Reservation`](crate::reservation::Reservation), for changes
    /// that roll forward [`Intent`](crate::intent::Intent): both call this method at the right
    /// moment. Returns the index of the commit; 0 if nothing was written, or if the engine is not
    /// [`INDEXED`](crate::MountedPlugin::INDEXED).
    ///
    /// # Errors
    /// Conflict if a record that was read has changed: pass the failure on, the host runs the call
    /// again if that is safe.
    fn checkpoint(&self) -> Result<u64, Failure>;
}

/// A page of records with their names.
pub type RecordPage = Vec<(String, Entry<Vec<u8>>)>;

/// A record with its indexes in the mount's history. Both indexes are 0 for a record that the call
/// wrote itself and has not committed, and for every record of an engine that is not
/// [`INDEXED`](crate::MountedPlugin::INDEXED).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<T> {
    /// The stored value.
    pub value: T,
    /// Index at which the key was created.
    pub created: u64,
    /// Index at which the key was last written.
    pub modified: u64,
}

impl dyn Storage + '_ {
    /// Returns the record under `key`.
    ///
    /// # Errors
    /// As [`Storage::get_bytes`]; internal if the record is not a `T`, or of a later version.
    pub fn get<T: Stored>(&self, key: &str) -> Result<Option<T>, Failure> {
        Ok(self.entry(key)?.map(|entry| entry.value))
    }

    /// Returns some fields of the record under `key`; the other fields are not read.
    ///
    /// # Errors
    /// As [`get`](trait.Storage.html#method.get).
    pub fn part<T: Stored, P: DeserializeOwned>(&self, key: &str) -> Result<Option<P>, Failure> {
        let bytes = self.get_bytes(key)?;
        bytes.map(|bytes| T::part_from_bytes(&bytes).map_err(|why| unread(key, why))).transpose()
    }

    /// Returns the record under `key` with its indexes in the mount's history.
    ///
    /// # Errors
    /// As [`get`](trait.Storage.html#method.get).
    pub fn entry<T: Stored>(&self, key: &str) -> Result<Option<Entry<T>>, Failure> {
        self.entry_bytes(key)?.map(|found| parse(key, found)).transpose()
    }

    /// Calls `visit` for each record below `prefix`, in the order of the keys, with the record's
    /// name: the key without the prefix.
    ///
    /// # Errors
    /// As [`get`](trait.Storage.html#method.get), for each record; the failure of `visit`, which
    /// ends the scan.
    pub fn scan<T: Stored>(
        &self,
        prefix: &str,
        mut visit: impl FnMut(&str, Entry<T>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut after = String::new();
        loop {
            let page = self.page(prefix, &after, PAGE)?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after.clone_from(last);
            for (name, entry) in page {
                visit(&name, entry)?;
            }
        }
    }

    /// Returns up to `limit` (1 to 1,000) records below `prefix` and after `after`, as
    /// [`scan_bytes`](Storage::scan_bytes) does. Only an empty page means the end.
    ///
    /// # Errors
    /// As [`get`](trait.Storage.html#method.get), for each record.
    pub fn page<T: Stored>(
        &self,
        prefix: &str,
        after: &str,
        limit: u32,
    ) -> Result<Vec<(String, Entry<T>)>, Failure> {
        let page = self.scan_bytes(prefix, after, limit)?;
        let read = |(name, entry): (String, Entry<Vec<u8>>)| {
            let entry = parse(&format!("{prefix}{name}"), entry)?;
            Ok((name, entry))
        };
        page.into_iter().map(read).collect()
    }

    /// Buffers `hold` under `key`.
    ///
    /// # Errors
    /// As [`Storage::put_bytes`]; internal when `hold` cannot be written as JSON.
    pub fn put<T: Stored>(&self, key: &str, record: &T) -> Result<(), Failure> {
        self.put_bytes(key, record.to_bytes().map_err(|_| unwritable(key))?)
    }

    /// Returns the single text, number, flag or list of texts under `key`.
    ///
    /// # Errors
    /// As [`get`](trait.Storage.html#method.get).
    pub fn get_plain<T: PlainValue + DeserializeOwned>(
        &self,
        key: &str,
    ) -> Result<Option<T>, Failure> {
        let bytes = self.get_bytes(key)?;
        let read = |bytes: Vec<u8>| serde_json::from_slice(&bytes).map_err(|_| garbled(key));
        bytes.map(read).transpose()
    }

    /// Buffers a single text, number, flag or list of texts under `key`. A value that may need more
    /// fields later must be a record, for [`put`](trait.Storage.html#method.put).
    ///
    /// # Errors
    /// As [`Storage::put_bytes`].
    pub fn put_plain<T: PlainValue + ?Sized>(&self, key: &str, value: &T) -> Result<(), Failure> {
        self.put_bytes(key, serde_json::to_vec(value).map_err(|_| unwritable(key))?)
    }
}

/// A value that is stored alone and never gets a field: a text, a number, a flag, or a list of
/// texts.
pub trait PlainValue: Serialize + sealed::Sealed {}

impl<T: Serialize + sealed::Sealed + ?Sized> PlainValue for T {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for bool {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
    impl Sealed for i64 {}
    impl Sealed for str {}
    impl Sealed for String {}
    impl Sealed for Vec<String> {}
}

fn parse<T: Stored>(key: &str, found: Entry<Vec<u8>>) -> Result<Entry<T>, Failure> {
    let Entry { value, created, modified } = found;
    let value = T::from_bytes(&value).map_err(|why| unread(key, why))?;
    Ok(Entry { value, created, modified })
}

fn unread(key: &str, why: UnreadableRecord) -> Failure {
    match why {
        UnreadableRecord::Garbled => garbled(key),
        newer => newer.of(format_args!("the record {key:?}")),
    }
}

/// Returns the failure for an unreadable record. The parser's own message is left out, because the
/// message can quote a stored secret.
fn garbled(key: &str) -> Failure {
    Failure::internal(format!(
        "the record {key:?} cannot be read; perhaps a newer version wrote the record"
    ))
}

fn unwritable(key: &str) -> Failure {
    Failure::internal(format!("the record {key:?} cannot be written as JSON"))
}
