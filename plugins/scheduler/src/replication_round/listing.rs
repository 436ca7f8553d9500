//! The list of a table in the authoritative region, read in pages.
//!
//! This file prevents a deletion on the word of a list that changed between its pages: such a list
//! is marked, and each record that it lacks is then asked for singly.

use super::{ANSWER_TIMEOUT_MS, ReplicationRound};
use crate::authority::unfit;
use crate::index::RecordTable;
use bulkhead_sdk::http::Response;
use bulkhead_sdk::{Failure, FailureKind};
use std::collections::BTreeMap;

/// Number of records of a page.
const PAGE_RECORDS: u32 = 2_000;
/// Number of records of the smallest page: at this size, an answer that is too large is a failure.
const SMALLEST_PAGE: u32 = 2;
/// Divisor of the page size after a page that was too large.
const PAGE_DIVISOR: u32 = 10;
/// Maximum wait of a listing in the authoritative region, in milliseconds.
const LISTING_WAIT_MS: u32 = 10_000;
/// Maximum length of the name of a next page, in bytes.
const LONGEST_NEXT: usize = 512;

/// The table's index in a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListingIndex {
    /// Index of the first page.
    pub(crate) index: u64,
    /// All pages have the same index, so that the list is the table at one moment.
    pub(crate) is_steady: bool,
}

/// A complete list of the authoritative region, by identifier.
pub(crate) struct RegionListing<R> {
    pub(crate) records: BTreeMap<String, R>,
    pub(crate) index: ListingIndex,
}

/// The place of a page in a list.
struct ListingPage {
    /// Name of the page, given by the page before; empty for the first page.
    begin: String,
    size: u32,
    /// Index and wait, for the first request alone.
    wait: String,
}

impl ListingPage {
    /// Makes the page smaller; `false` if the page is the smallest.
    fn shrink(&mut self) -> bool {
        let is_larger = self.size > SMALLEST_PAGE;
        self.size = (self.size / PAGE_DIVISOR).max(SMALLEST_PAGE);
        self.wait.clear();
        is_larger
    }
}

impl ReplicationRound<'_> {
    /// Fetches the table's list, after proving that the token may see every record. `read` parses
    /// the records of a page, with their identifiers.
    ///
    /// # Errors
    /// Unreachable, because a listing writes nothing and can be retried.
    pub(crate) fn list<R>(
        &self,
        read: impl Fn(&[u8]) -> Result<Vec<(String, R)>, Failure>,
    ) -> Result<RegionListing<R>, Failure> {
        self.prove()?;
        let mut page =
            ListingPage { begin: String::new(), size: PAGE_RECORDS, wait: self.wait_for_change() };
        let mut listing: Option<RegionListing<R>> = None;
        loop {
            let answer = self.page(&mut page)?;
            page.wait.clear();
            let index = self.index_of(&answer)?;
            let listing = listing.get_or_insert_with(|| RegionListing {
                records: BTreeMap::new(),
                index: ListingIndex { index, is_steady: true },
            });
            listing.index.is_steady &= listing.index.index == index;
            listing.add(read(&answer.body)?)?;
            match next_page(&answer, &page.begin)? {
                Some(begin) => page.begin = begin,
                None => break,
            }
        }
        listing.ok_or_else(|| unfit("the authoritative region sent no page".to_owned()))
    }

    /// Returns the parameters of the first request, which waits for a change of the table.
    fn wait_for_change(&self) -> String {
        let is_within_pass = self.state.as_ref().is_some_and(|state| state.pass.is_some());
        let index = self.state.as_ref().map_or(0, |state| state.index);
        match index {
            0 => String::new(),
            _ if is_within_pass => String::new(),
            index => format!("&index={index}&wait={LISTING_WAIT_MS}ms"),
        }
    }

    /// Fetches a page, and a smaller page if the answer is too large. A server that fails while it
    /// builds a large answer looks the same.
    fn page(&self, page: &mut ListingPage) -> Result<Response, Failure> {
        loop {
            // The region extends the wait by up to a sixteenth.
            let wait = if page.wait.is_empty() { 0 } else { LISTING_WAIT_MS / 16 * 17 };
            let answer = self.ask(&self.path_of(page), wait.saturating_add(ANSWER_TIMEOUT_MS));
            let is_too_large = match &answer {
                Ok(answer) => answer.status >= 500,
                Err(why) => why.kind == FailureKind::TooLarge,
            };
            if is_too_large && page.shrink() {
                continue;
            }
            let answer = answer.map_err(|why| unfit(why.message))?;
            return self.region.accept(answer);
        }
    }

    fn path_of(&self, page: &ListingPage) -> String {
        let (name, region) = (self.table.name(), &self.config.authoritative_region);
        let ListingPage { begin, size, wait } = page;
        let kind = if self.table == RecordTable::Tokens { "global=true" } else { "paged=true" };
        let next = if begin.is_empty() { String::new() } else { format!("&next_token={begin}") };
        format!("/v1/acl/{name}?region={region}{wait}&{kind}&per_page={size}{next}")
    }

    fn index_of(&self, answer: &Response) -> Result<u64, Failure> {
        let (name, region) = (self.table.name(), &self.config.authoritative_region);
        if answer.status != 200 {
            return Err(unfit(format!("region {region} has no list of {name}")));
        }
        let index = answer.header("x-nomad-index").and_then(|text| text.parse().ok());
        index.ok_or_else(|| unfit(format!("region {region} lists {name} without an index")))
    }
}

impl<R> RegionListing<R> {
    /// Adds the records of a page.
    ///
    /// # Errors
    /// Unreachable if an identifier occurs twice, because no region has such a list. A list that
    /// changes between two pages may repeat a record.
    fn add(&mut self, records: Vec<(String, R)>) -> Result<(), Failure> {
        for (id, record) in records {
            let Some(_) = self.records.insert(id.clone(), record) else { continue };
            if self.index.is_steady {
                return Err(unfit(format!("the authoritative region lists {id} twice")));
            }
        }
        Ok(())
    }
}

/// Returns the name of the next page, as a region of any make writes the name.
///
/// # Errors
/// Unreachable for a name that does not fit into a query, and for the name of the present page.
fn next_page(answer: &Response, present: &str) -> Result<Option<String>, Failure> {
    let Some(next) = answer.header("x-nomad-nexttoken").filter(|next| !next.is_empty()) else {
        return Ok(None);
    };
    let is_plain = next.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    if !is_plain || next.len() > LONGEST_NEXT || next == present {
        return Err(unfit("the authoritative region names a bad next page".to_owned()));
    }
    Ok(Some(next.to_owned()))
}
