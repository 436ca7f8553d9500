//! The questions of a group as one statement, so that all answers are of one state and take one
//! round trip.
//!
//! Each sort of question is a branch of the statement; all branches have the same columns. A
//! branch looks up each row by index: the limit in the inner query keeps the planner from joining
//! the whole table, on which a serializable transaction would then depend.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use sqlx::Row as _;
use sqlx::postgres::PgRow;

use bulkhead_record::committed_state::{
    AddressState, CommittedState, RequestedRange, StateQuestions,
};
use bulkhead_record::fault::StoreFault;
use bulkhead_record::record::{Address, Space, Stamp};
use bulkhead_record::rows::SealedRow;

use super::change_rows;
use super::group_writes::ROW_SIZE;
use super::postgres_error::PostgresError;
use super::server_address::TableNames;
use super::statement_draft::StatementDraft;
use super::stored_text::{RowBounds, decode, encode, number};

/// The columns of the answer with their types, besides the number of the branch and the place of
/// the question.
const ANSWER_COLUMNS: [(&str, &str); 9] = [
    ("key", "text"),
    ("stamp", "bytea"),
    ("due", "bigint"),
    ("lane", "text"),
    ("owner", "text"),
    ("created", "bigint"),
    ("modified", "bigint"),
    ("sealed", "bytea"),
    ("bytes", "bigint"),
];

/// The numbers of the branches.
mod branch {
    pub(super) const STAMPS: i16 = 1;
    pub(super) const LISTINGS: i16 = 2;
    pub(super) const ROWS: i16 = 3;
    pub(super) const COUNTERS: i16 = 4;
    pub(super) const SIZES: i16 = 5;
    pub(super) const CHANGES: i16 = 6;
}

/// The questions of a group, in the order of their places.
pub(super) struct GroupQuestions<'a> {
    stamps: Vec<&'a Address>,
    listings: Vec<RequestedRange<'a>>,
    rows: Vec<&'a Address>,
    counters: Vec<&'a str>,
    sizes: Vec<&'a Address>,
    known_commits: Option<BTreeMap<String, i64>>,
}

impl<'a> GroupQuestions<'a> {
    pub(super) fn of(questions: StateQuestions<'a>) -> Self {
        GroupQuestions {
            stamps: questions.stamps.into_iter().collect(),
            listings: questions.listings.into_iter().collect(),
            rows: questions.rows.into_iter().collect(),
            counters: questions.counters.into_iter().collect(),
            sizes: questions.sizes.into_iter().collect(),
            known_commits: questions.known_commits,
        }
    }

    /// Returns the statement; `None` without questions.
    ///
    /// # Errors
    /// The error of the driver for a value that cannot be encoded.
    pub(super) fn statement(
        &self,
        tables: &TableNames,
    ) -> Result<Option<StatementDraft>, PostgresError> {
        let mut statement = StatementDraft::default();
        let stamp = [("stamp", "stamp")];
        look_up(&mut statement, tables, (branch::STAMPS, &self.stamps, &stamp))?;
        self.ask_listings(&mut statement, tables)?;
        let names = ["stamp", "due", "lane", "owner", "created", "modified", "sealed"];
        let columns = names.map(|name| (name, name));
        look_up(&mut statement, tables, (branch::ROWS, &self.rows, &columns))?;
        self.ask_counters(&mut statement, tables)?;
        let size = [("bytes", ROW_SIZE)];
        look_up(&mut statement, tables, (branch::SIZES, &self.sizes, &size))?;
        if let Some(known) = &self.known_commits {
            let select = selection(branch::CHANGES, &[("key", "asked.key")]);
            let changes = change_rows::unread(&mut statement, tables, known)?;
            statement.add_part(UNION, &format!("{select} FROM {changes}"));
        }
        Ok((!statement.is_empty()).then_some(statement))
    }

    /// Asks for the first keys of each range.
    fn ask_listings(
        &self,
        statement: &mut StatementDraft,
        tables: &TableNames,
    ) -> Result<(), PostgresError> {
        if self.listings.is_empty() {
            return Ok(());
        }
        let bounds: Vec<RowBounds> =
            self.listings.iter().map(|(range, _)| RowBounds::of(range)).collect();
        let numbers = |of: fn(&RowBounds) -> i16| bounds.iter().map(of).collect::<Vec<i16>>();
        let texts = |of: fn(&RowBounds) -> &str| bounds.iter().map(of).collect::<Vec<&str>>();
        let first_spaces = statement.bind(numbers(|bounds| bounds.first.0))?;
        let firsts = statement.bind(texts(|bounds| bounds.first.1.as_str()))?;
        let end_spaces = statement.bind(numbers(|bounds| bounds.end.0))?;
        let ends = statement.bind(texts(|bounds| bounds.end.1.as_str()))?;
        let limits = self.listings.iter().map(|(_, limit)| i64::from(*limit)).collect::<Vec<_>>();
        let limits = statement.bind(limits)?;
        let select = selection(branch::LISTINGS, &[("key", "found.key")]);
        let record = &tables.record;
        statement.add_part(
            UNION,
            &format!(
                "{select} FROM unnest({first_spaces}::smallint[], {firsts}::text[], \
                 {end_spaces}::smallint[], {ends}::text[], {limits}::bigint[]) \
                 WITH ORDINALITY AS asked (space, low, last_space, high, most, place) \
                 CROSS JOIN LATERAL (SELECT r.key FROM {record} AS r \
                     WHERE (r.space, r.key) >= (asked.space, asked.low) \
                         AND (r.space, r.key) < (asked.last_space, asked.high) \
                     ORDER BY r.space, r.key LIMIT asked.most) AS found"
            ),
        );
        Ok(())
    }

    /// Asks for the bytes of each counter. A name that ends in a slash stands for all counters that
    /// begin with the name.
    fn ask_counters(
        &self,
        statement: &mut StatementDraft,
        tables: &TableNames,
    ) -> Result<(), PostgresError> {
        if self.counters.is_empty() {
            return Ok(());
        }
        let bounds = |counter: &&str| match counter.strip_suffix('/') {
            // The byte behind the slash.
            Some(kind) => (format!("{counter}\0"), format!("{kind}0")),
            None => ((*counter).to_owned(), format!("{counter}\0")),
        };
        let (low, high): (Vec<String>, Vec<String>) = self.counters.iter().map(bounds).unzip();
        let stored = |texts: Vec<String>| {
            texts.iter().map(|text| encode(text).into_owned()).collect::<Vec<_>>()
        };
        let (low, high) = (statement.bind(stored(low))?, statement.bind(stored(high))?);
        let stored = &tables.stored;
        let sum = format!(
            "(SELECT coalesce(sum(s.bytes), 0)::bigint FROM {stored} AS s \
             WHERE s.mount >= asked.low AND s.mount < asked.high)"
        );
        let select = selection(branch::COUNTERS, &[("bytes", &sum)]);
        statement.add_part(
            UNION,
            &format!(
                "{select} FROM unnest({low}::text[], {high}::text[]) \
                 WITH ORDINALITY AS asked (low, high, place)"
            ),
        );
        Ok(())
    }

    /// Returns the state from the answers.
    ///
    /// # Errors
    /// The error of the driver for a column of another type.
    pub(super) fn state(&self, rows: &[PgRow]) -> Result<CommittedState<'a>, PostgresError> {
        let listings: HashMap<_, _> =
            self.listings.iter().map(|listing| (*listing, Vec::new())).collect();
        let counters: BTreeMap<_, _> = self.counters.iter().map(|counter| (*counter, 0)).collect();
        let mut state = CommittedState { listings, counters, ..CommittedState::default() };
        for row in rows {
            self.note(&mut state, row)?;
        }
        // A union does not promise an order.
        state.listings.values_mut().for_each(|keys| keys.sort_unstable());
        Ok(state)
    }

    /// Adds the answer to the state.
    fn note(&self, state: &mut CommittedState<'a>, row: &PgRow) -> Result<(), PostgresError> {
        let place = usize::try_from(row.try_get::<i64, _>("place")? - 1).unwrap_or(usize::MAX);
        let bytes = || {
            Ok::<_, PostgresError>(
                u64::try_from(row.try_get::<i64, _>("bytes")?).unwrap_or_default(),
            )
        };
        match row.try_get("branch")? {
            branch::STAMPS => {
                if let Some(address) = self.stamps.get(place) {
                    let stamp = parse_stamp(row)?;
                    let found = stamp.map_or(AddressState::Unreadable, AddressState::Stamped);
                    state.stamps.insert(address, found);
                }
            }
            branch::LISTINGS => {
                let keys = self.listings.get(place).and_then(|asked| state.listings.get_mut(asked));
                if let Some(keys) = keys {
                    keys.push(decode(row.try_get("key")?));
                }
            }
            branch::ROWS => {
                if let Some(address) = self.rows.get(place) {
                    state.rows.insert(address, parse_row(address, row)?);
                }
            }
            branch::COUNTERS => {
                if let Some(counter) = self.counters.get(place) {
                    state.counters.insert(counter, bytes()?);
                }
            }
            branch::CHANGES => {
                let space = Space::of_number(row.try_get("place")?);
                match (space, row.try_get::<Option<String>, _>("key")?) {
                    (Some(space), Some(key)) => {
                        state.changed.insert(Address::new(space, decode(key)));
                    }
                    _ => state.has_gap = true,
                }
            }
            _ => {
                if let Some(address) = self.sizes.get(place) {
                    state.sizes.insert(address, bytes()?);
                }
            }
        }
        Ok(())
    }
}

const UNION: &str = " UNION ALL ";

/// Returns the beginning of a branch, with these expressions and NULL in the other columns.
fn selection(branch: i16, expressions: &[(&str, &str)]) -> String {
    let mut text = format!("SELECT {branch}::smallint AS branch, asked.place AS place");
    for (name, type_name) in ANSWER_COLUMNS {
        let expression = expressions.iter().find(|(column, _)| *column == name);
        let expression = expression.map_or("NULL", |(_, expression)| expression);
        text.push_str(&format!(", {expression}::{type_name} AS {name}"));
    }
    text
}

/// Asks for columns of the rows at addresses. `columns` are the names in the answer and the
/// expressions over a row.
fn look_up(
    statement: &mut StatementDraft,
    tables: &TableNames,
    (branch, addresses, columns): (i16, &[&Address], &[(&str, &str)]),
) -> Result<(), PostgresError> {
    if addresses.is_empty() {
        return Ok(());
    }
    let spaces: Vec<i16> = addresses.iter().map(|address| number(address.space)).collect();
    let keys: Vec<Cow<'_, str>> = addresses.iter().map(|address| encode(&address.key)).collect();
    let (spaces, keys) = (statement.bind(spaces)?, statement.bind(keys)?);
    let outer: Vec<(&str, String)> =
        columns.iter().map(|(name, _)| (*name, format!("found.{name}"))).collect();
    let outer: Vec<(&str, &str)> =
        outer.iter().map(|(name, expression)| (*name, expression.as_str())).collect();
    let inner: Vec<String> =
        columns.iter().map(|(name, expression)| format!("{expression} AS {name}")).collect();
    let (select, inner, record) = (selection(branch, &outer), inner.join(", "), &tables.record);
    statement.add_part(
        UNION,
        &format!(
            "{select} FROM unnest({spaces}::smallint[], {keys}::text[]) \
             WITH ORDINALITY AS asked (space, key, place) \
             CROSS JOIN LATERAL (SELECT {inner} FROM {record} AS r \
                 WHERE r.space = asked.space AND r.key = asked.key LIMIT 1) AS found"
        ),
    );
    Ok(())
}

/// Returns the stamp; `None` if the column is not 16 bytes.
fn parse_stamp(row: &PgRow) -> Result<Option<Stamp>, PostgresError> {
    Ok(row.try_get::<&[u8], _>("stamp")?.try_into().ok().map(Stamp))
}

/// Parses the row found at `address`. The inner error is for a shape that was never written.
///
/// # Errors
/// The error of the driver for a column of another type.
pub(super) fn parse_row(
    address: &Address,
    row: &PgRow,
) -> Result<Result<SealedRow, StoreFault>, PostgresError> {
    let Some(stamp) = parse_stamp(row)? else {
        return Ok(Err(StoreFault::Damaged(address.clone())));
    };
    Ok(Ok(SealedRow {
        address: address.clone(),
        stamp,
        due: row.try_get("due")?,
        lane: decode(row.try_get("lane")?),
        owner: decode(row.try_get("owner")?),
        created: row.try_get("created")?,
        modified: row.try_get("modified")?,
        sealed: row.try_get("sealed")?,
    }))
}
