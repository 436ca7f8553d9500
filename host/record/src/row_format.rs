//! The rows in a snapshot: every column as the database has it, length-prefixed.
//!
//! A row is a byte for its kind, the length of the rest in four bytes, and the rest. All numbers
//! are big-endian. A field is its length in four bytes and its bytes; an optional number is a byte
//! 0, or a byte 1 and eight bytes.
//!
//! Rows are copied without being judged: a damaged record stays in the snapshot, and is found when
//! the record is opened.

use crate::archive_reader::damaged;
use crate::fault::StoreFault;
use crate::raw_record::RawRecord;

/// Kinds of rows. A number is never given to another kind.
const IDENTITY_KIND: u8 = 1;
const RECORD_KIND: u8 = 2;

/// A row of a snapshot.
#[derive(Debug, PartialEq, Eq)]
pub enum SnapshotRow {
    /// A row of `meta`.
    Identity(String, Vec<u8>),
    /// A row of `record`.
    Record(RawRecord),
}

/// Appends a row of `meta` to a part of the rows.
///
/// # Errors
/// A row of 4 GiB or more.
pub fn push_identity(out: &mut Vec<u8>, name: &str, value: &[u8]) -> Result<(), StoreFault> {
    let mut body = Vec::with_capacity(name.len() + value.len() + 8);
    push_field(&mut body, name.as_bytes())?;
    push_field(&mut body, value)?;
    out.push(IDENTITY_KIND);
    push_field(out, &body)
}

/// Appends a record to a part of the rows.
///
/// # Errors
/// As [`push_identity`].
pub fn push_record(out: &mut Vec<u8>, record: &RawRecord) -> Result<(), StoreFault> {
    let mut body = Vec::with_capacity(record.sealed.len() + 256);
    body.extend_from_slice(&record.space.to_be_bytes());
    push_field(&mut body, record.key.as_bytes())?;
    push_field(&mut body, &record.stamp)?;
    push_number(&mut body, record.due);
    push_field(&mut body, record.lane.as_bytes())?;
    push_field(&mut body, record.owner.as_bytes())?;
    push_number(&mut body, record.created);
    push_number(&mut body, record.modified);
    push_field(&mut body, &record.sealed)?;
    out.push(RECORD_KIND);
    push_field(out, &body)
}

fn push_field(out: &mut Vec<u8>, field: &[u8]) -> Result<(), StoreFault> {
    let length = u32::try_from(field.len()).map_err(|_| {
        StoreFault::Refused("a row of the database has 4 GiB or more; restore a backup".to_owned())
    })?;
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(field);
    Ok(())
}

fn push_number(out: &mut Vec<u8>, number: Option<i64>) {
    out.push(u8::from(number.is_some()));
    if let Some(number) = number {
        out.extend_from_slice(&number.to_be_bytes());
    }
}

/// Passes the rows of a part to `take`, in order.
///
/// # Errors
/// [`StoreFault::Refused`] for bytes that are not rows, and the errors of `take`.
pub fn read_rows(
    part: &[u8],
    mut take: impl FnMut(SnapshotRow) -> Result<(), StoreFault>,
) -> Result<(), StoreFault> {
    let mut rest = Cursor(part);
    while !rest.0.is_empty() {
        take(read_row(&mut rest).ok_or_else(|| damaged("a row has a form that no server wrote"))?)?;
    }
    Ok(())
}

fn read_row(rest: &mut Cursor<'_>) -> Option<SnapshotRow> {
    let kind = rest.byte()?;
    let mut body = Cursor(rest.field()?);
    let row = match kind {
        IDENTITY_KIND => SnapshotRow::Identity(body.text()?, body.field()?.to_vec()),
        RECORD_KIND => SnapshotRow::Record(RawRecord {
            space: i64::from_be_bytes(body.array()?),
            key: body.text()?,
            stamp: body.field()?.to_vec(),
            due: body.number()?,
            lane: body.text()?,
            owner: body.text()?,
            created: body.number()?,
            modified: body.number()?,
            sealed: body.field()?.to_vec(),
        }),
        _ => return None,
    };
    body.0.is_empty().then_some(row)
}

/// The unread bytes of a part.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn field(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(u32::from_be_bytes(self.array()?)).ok()?;
        let (field, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(field)
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.field()?.to_vec()).ok()
    }

    fn number(&mut self) -> Option<Option<i64>> {
        match self.byte()? {
            0 => Some(None),
            1 => Some(Some(i64::from_be_bytes(self.array()?))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> RawRecord {
        RawRecord {
            space: 2,
            key: "mount/a".to_owned(),
            stamp: vec![7; 16],
            due: Some(-1),
            lane: String::new(),
            owner: "o".to_owned(),
            created: None,
            modified: Some(i64::MAX),
            sealed: vec![0, 255],
        }
    }

    #[test]
    fn rows_round_trip_and_cut_rows_are_refused() {
        let mut part = Vec::new();
        push_identity(&mut part, "format", b"2").unwrap();
        push_record(&mut part, &record()).unwrap();
        let mut rows = Vec::new();
        let keep = |row| {
            rows.push(row);
            Ok(())
        };
        read_rows(&part, keep).unwrap();
        let expected = [
            SnapshotRow::Identity("format".to_owned(), b"2".to_vec()),
            SnapshotRow::Record(record()),
        ];
        assert_eq!(rows, expected);
        let first = 1 + 4 + (4 + 6) + (4 + 1);
        for length in (1..part.len()).filter(|length| *length != first) {
            assert!(read_rows(&part[..length], |_| Ok(())).is_err(), "{length} bytes");
        }
    }
}
