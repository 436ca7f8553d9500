//! The mount's own records, inside the call's unit of work.

use bulkhead_wire::failure::Failure;
use bulkhead_wire::stored::{Stored, Unreadable};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Records that are asked for at a time.
const PAGE: u32 = 1_000;

/// The mount's own storage inside the call's unit of work: writes are buffered, and the engine sees
/// its own.
///
/// Most code uses [`get`](trait.Storage.html#method.get) and
/// [`put`](trait.Storage.html#method.put), for records that [`stored!`](crate::stored) named: their
/// tests read what earlier versions of the engine wrote.
pub trait Storage {
    /// The bytes under `key` with their place in the mount's history; `None` when it is absent,
    /// which is remembered too.
    ///
    /// # Errors
    /// Invalid request for keys outside the contract's rules; unavailable when the store cannot be
    /// read.
    fn entry_bytes(&self, key: &str) -> Result<Option<Entry<Vec<u8>>>, Failure>;

    /// The bytes under `key`.
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

    /// Buffers the removal of `key`. An absent key is success.
    ///
    /// # Errors
    /// As [`put_bytes`](Self::put_bytes).
    fn delete(&self, key: &str) -> Result<(), Failure>;

    /// Up to `limit` (1 to 1,000) keys below `prefix` and after `after`, in order and without the
    /// prefix.
    ///
    /// # Errors
    /// As [`get_bytes`](Self::get_bytes).
    fn keys(&self, prefix: &str, after: &str, limit: u32) -> Result<Vec<String>, Failure>;

    /// Up to `limit` (1 to 1,000) records below `prefix` and after `after`, in the order of their
    /// keys and with those, without the prefix: as many as have 1 MiB together. Only an empty page
    /// is the end.
    ///
    /// # Errors
    /// As [`get_bytes`](Self::get_bytes).
    fn scan_bytes(&self, prefix: &str, after: &str, limit: u32) -> Result<Page, Failure>;

    /// A number of all that is below `prefix`, which is empty or ends in a slash: another one after
    /// each commit that put or deleted anything there, and at each start of the server. What was
    /// made from all records of a folder is kept in the cache under it.
    ///
    /// # Errors
    /// As [`get_bytes`](Self::get_bytes); invalid request for a prefix that ends in the middle of a
    /// name.
    fn revision(&self, prefix: &str) -> Result<u64, Failure>;

    /// Commits what is buffered, before an effect. Earlier reads are no longer validated. Things
    /// that end should use [`Reservation`](crate::reservation::Reservation), and things that roll
    /// forward [`Intent`](crate::intent::Intent), which call this at the right moment. Gives the
    /// index of the commit; 0 where nothing was written, or the engine is not
    /// [`INDEXED`](crate::SecretsEngine::INDEXED).
    ///
    /// # Errors
    /// Conflict when something that was read has changed: pass it on, the host runs the call again
    /// if it may.
    fn checkpoint(&self) -> Result<u64, Failure>;
}

/// Some records as they are stored, with their names.
pub type Page = Vec<(String, Entry<Vec<u8>>)>;

/// A record with its place in the mount's history. Both indexes are 0 for what the call wrote
/// itself and has not committed, and for every record of an engine that is not
/// [`INDEXED`](crate::SecretsEngine::INDEXED).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<T> {
    /// What was stored.
    pub value: T,
    /// Index at which the key was created.
    pub created: u64,
    /// Index at which it was last written.
    pub modified: u64,
}

impl dyn Storage + '_ {
    /// The record under `key`.
    ///
    /// # Errors
    /// As [`Storage::get_bytes`]; internal when the record is none of `T`, or of a later version.
    pub fn get<T: Stored>(&self, key: &str) -> Result<Option<T>, Failure> {
        Ok(self.entry(key)?.map(|entry| entry.value))
    }

    /// Some fields of the record under `key`, of which the rest is not read.
    ///
    /// # Errors
    /// As [`get`](trait.Storage.html#method.get).
    pub fn part<T: Stored, P: DeserializeOwned>(&self, key: &str) -> Result<Option<P>, Failure> {
        let bytes = self.get_bytes(key)?;
        bytes.map(|bytes| T::part_from_bytes(&bytes).map_err(|why| unread(key, why))).transpose()
    }

    /// The record under `key` with its place in the mount's history.
    ///
    /// # Errors
    /// As [`get`](trait.Storage.html#method.get).
    pub fn entry<T: Stored>(&self, key: &str) -> Result<Option<Entry<T>>, Failure> {
        self.entry_bytes(key)?.map(|found| parse(key, found)).transpose()
    }

    /// Calls `visit` for each record below `prefix` in the order of their keys, with its name: its
    /// key without the prefix.
    ///
    /// # Errors
    /// As [`get`](trait.Storage.html#method.get), for each of them; what `visit` fails with, and
    /// the rest is left out.
    pub fn scan<T: Stored>(
        &self,
        prefix: &str,
        mut visit: impl FnMut(&str, Entry<T>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut after = String::new();
        loop {
            let page = self.scan_bytes(prefix, &after, PAGE)?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after.clone_from(last);
            for (name, entry) in page {
                visit(&name, parse(&format!("{prefix}{name}"), entry)?)?;
            }
        }
    }

    /// Buffers `record` under `key`.
    ///
    /// # Errors
    /// As [`Storage::put_bytes`]; internal when `record` cannot be written as JSON.
    pub fn put<T: Stored>(&self, key: &str, record: &T) -> Result<(), Failure> {
        self.put_bytes(key, record.to_bytes().map_err(|_| unwritable(key))?)
    }

    /// The lone text, number or flag under `key`.
    ///
    /// # Errors
    /// As [`get`](trait.Storage.html#method.get).
    pub fn get_plain<T: Plain + DeserializeOwned>(&self, key: &str) -> Result<Option<T>, Failure> {
        let bytes = self.get_bytes(key)?;
        let read = |bytes: Vec<u8>| serde_json::from_slice(&bytes).map_err(|_| garbled(key));
        bytes.map(read).transpose()
    }

    /// Buffers a lone text, number or flag under `key`. What may get a field one day is a record,
    /// for [`put`](trait.Storage.html#method.put).
    ///
    /// # Errors
    /// As [`Storage::put_bytes`].
    pub fn put_plain<T: Plain + ?Sized>(&self, key: &str, value: &T) -> Result<(), Failure> {
        self.put_bytes(key, serde_json::to_vec(value).map_err(|_| unwritable(key))?)
    }
}

/// A text, a number, a flag, or a list of texts: what is stored alone, and never gets a field.
pub trait Plain: Serialize + sealed::Sealed {}

impl<T: Serialize + sealed::Sealed + ?Sized> Plain for T {}

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

fn unread(key: &str, why: Unreadable) -> Failure {
    match why {
        Unreadable::Garbled => garbled(key),
        newer => newer.of(format_args!("the record {key:?}")),
    }
}

/// The parser's own words are left out, because they can quote a stored secret.
fn garbled(key: &str) -> Failure {
    Failure::internal(format!(
        "the record {key:?} cannot be read; a newer version may have written it"
    ))
}

fn unwritable(key: &str) -> Failure {
    Failure::internal(format!("the record {key:?} cannot be written as JSON"))
}
