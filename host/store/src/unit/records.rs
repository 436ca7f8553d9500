//! Pages of records with content, read at once and remembered as a range and record by record, and
//! records that a caller can do without.

use super::Unit;

use bulkhead_record::fault::StoreFault;
use bulkhead_record::range::KeyRange;
use bulkhead_record::record::{Address, Record, Space, Stamp};
use bulkhead_record::rows::SealedRow;
use std::collections::BTreeMap;

/// Committed rows at the beginning of a range.
struct RowPage {
    /// Key, stamp, and the row unless the unit has overwritten the record.
    rows: Vec<(String, Stamp, Option<SealedRow>)>,
    /// `true` if more rows may follow the last row.
    is_cut: bool,
}

impl Unit {
    /// Returns the record as [`Unit::get`]; `None` for a damaged record as well, because the caller
    /// can do without the record.
    ///
    /// # Errors
    /// As [`Unit::get`], except for a damaged record.
    pub async fn get_undamaged(&mut self, address: &Address) -> Result<Option<Record>, StoreFault> {
        match self.get(address).await {
            Err(StoreFault::Damaged(_)) => Ok(None),
            found => found,
        }
    }

    /// Returns the records of `space` whose keys begin with `prefix` and are greater than `after`
    /// (a full key; empty: from the first), in the order of their keys: at most `limit` records,
    /// and after the first only as many as fit `most_bytes` together. Only an empty page is the
    /// last. The result includes this unit's own writes; the committed records are remembered, as a
    /// range and record by record.
    ///
    /// # Errors
    /// As [`Unit::keys`], and [`StoreFault::Damaged`] for a record that does not open.
    pub async fn records(
        &mut self,
        space: Space,
        (prefix, after): (&str, &str),
        limit: u32,
        most_bytes: usize,
    ) -> Result<Vec<(String, Record)>, StoreFault> {
        self.check_usable()?;
        if limit == 0 {
            return Ok(Vec::new());
        }
        let range = KeyRange::new(space, prefix, after);
        let deleted = self.own_writes_in(&range).filter(|(_, record)| record.is_none()).count();
        let fetch = limit.saturating_add(u32::try_from(deleted).unwrap_or(u32::MAX));
        let page = self.read_page(&range, fetch, most_bytes).await?;
        self.remember_page(range.clone(), fetch, &page)?;
        let committed = page.rows.iter().filter_map(|(_, _, row)| row.as_ref());
        self.store.data().know_terms_of(committed).await?;
        let merged = self.merge_page(&range, page)?;
        let mut bytes = 0;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let fits = |(_, record): &(String, Record)| {
            let is_first = bytes == 0;
            bytes += record.body.len().max(1);
            is_first || bytes <= most_bytes
        };
        Ok(merged.into_iter().take(limit).take_while(fits).collect())
    }

    /// Reads the committed rows at the beginning of the range. Rows that this unit overwrote count
    /// no bytes, so that a page holds a committed record unless there is none.
    async fn read_page(
        &self,
        range: &KeyRange,
        limit: u32,
        most_bytes: usize,
    ) -> Result<RowPage, StoreFault> {
        let (mut page, mut bytes) = (RowPage { rows: Vec::new(), is_cut: false }, 0);
        let take = |row: SealedRow| {
            let is_own = self.own_write(&row.address).is_some();
            let more = if is_own { 0 } else { row.sealed.len() };
            if bytes > 0 && bytes + more > most_bytes {
                page.is_cut = true;
                return false;
            }
            bytes += more;
            page.rows.push((row.address.key.clone(), row.stamp, (!is_own).then_some(row)));
            true
        };
        Box::pin(self.store.database().visit_rows(range, limit, take)).await?;
        Ok(page)
    }

    fn remember_page(
        &mut self,
        range: KeyRange,
        fetched: u32,
        page: &RowPage,
    ) -> Result<(), StoreFault> {
        let keys: Vec<String> = page.rows.iter().map(|(key, ..)| key.clone()).collect();
        let found = u32::try_from(keys.len()).unwrap_or(u32::MAX);
        let (limit, space) = (if page.is_cut { found } else { fetched }, range.space);
        let reads = &mut self.current_part().reads;
        let mut remembered = reads.remember_range(range, limit, keys);
        for (key, stamp, _) in &page.rows {
            let record = reads.remember(&Address::new(space, key.as_str()), Some(*stamp));
            remembered = remembered.and(record);
        }
        self.spoil_on_change(remembered)
    }

    /// Merges the unit's own writes into the page, as far as the page reaches.
    fn merge_page(
        &self,
        range: &KeyRange,
        page: RowPage,
    ) -> Result<BTreeMap<String, Record>, StoreFault> {
        let last = page.rows.last().filter(|_| page.is_cut).map(|(key, ..)| key.clone());
        let mut merged = BTreeMap::new();
        for (key, _, row) in page.rows {
            if let Some(row) = row {
                merged.insert(key, row.open(self.store.seal())?);
            }
        }
        for (address, record) in self.own_writes_in(range) {
            let is_beyond = last.as_ref().is_some_and(|last| address.key > *last);
            match record {
                Some(record) if !is_beyond => {
                    merged.insert(address.key.clone(), record.clone());
                }
                _ => {
                    merged.remove(&address.key);
                }
            }
        }
        Ok(merged)
    }
}
