//! Group commit: while a group of units is being flushed, the next group collects, and then commits
//! in a single transaction.
//!
//! There is no timer. A single client gets a flush for each write and waits for nothing else; many
//! clients share a flush, because a flush costs the same for 1 record and for 100.
//!
//! This file prevents the failure of a unit from failing other units. If a group is rolled back by
//! an error, each unit is retried once, alone. No unit is reported as stored without proof.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;

use crate::identity;
use crate::open_data::OpenData;
use crate::plan::{self, CommitPlan};
use crate::work::{CommitOutcome, CommitRequest};
use bulkhead_place::retry_pause::pause_before;
use bulkhead_place::write_failure::{TransactionOutcome, WriteFailure};
use bulkhead_record::fault::StoreFault;
use bulkhead_record::record::Address;

/// Maximum units and bytes of a group. A larger group only delays the first unit.
const MOST_UNITS: usize = 128;
const MOST_BYTES: usize = 1 << 20;
/// Maximum attempts of a group that other processes interfere with, before each unit is committed
/// alone.
const MOST_ATTEMPTS: u32 = 4;
/// Time after the begin of a group in which a transaction that other processes interfere with is
/// repeated. A conflict is answered later: the callers of the units wait for one another.
const REPEAT_TIME: Duration = Duration::from_millis(800);
/// Maximum number of rows that a group checks and writes.
const MOST_ROWS: usize = 4_096;

/// A single task that commits the units of work of all requests and lives as long as the store.
pub(crate) struct Committer {
    queue: UnboundedSender<PendingCommit>,
}

/// A unit to be committed, and the channel for its outcome. The unit keeps the data open.
struct PendingCommit {
    data: Arc<OpenData>,
    work: CommitRequest,
    answer: oneshot::Sender<CommitOutcome>,
}

impl Committer {
    /// Starts the task in the caller's runtime.
    pub(crate) fn start() -> Committer {
        let (queue, waiting) = mpsc::unbounded_channel();
        tokio::spawn(CommitQueue { waiting, first: None }.serve());
        Committer { queue }
    }

    /// Submits the unit and waits for its outcome. The queue needs no bound: a request being served
    /// has at most a single unit in the queue.
    ///
    /// # Errors
    /// [`StoreFault::Unavailable`] if the unit is not known to be stored. With any other fault,
    /// nothing of the unit was written.
    pub(crate) async fn commit(&self, data: Arc<OpenData>, work: CommitRequest) -> CommitOutcome {
        let (answer, outcome) = oneshot::channel();
        if self.queue.send(PendingCommit { data, work, answer }).is_err() {
            return Err(StoreFault::Unavailable(
                "the store no longer commits; restart the server".into(),
            ));
        }
        outcome.await.unwrap_or_else(|_| {
            Err(StoreFault::Unavailable(
                "the commit was stopped half-way; the outcome is not known".into(),
            ))
        })
    }
}

/// The units that wait to be committed.
struct CommitQueue {
    waiting: UnboundedReceiver<PendingCommit>,
    /// The unit that did not fit into the previous group.
    first: Option<PendingCommit>,
}

impl CommitQueue {
    async fn serve(mut self) {
        while let Some(group) = self.next_group().await {
            let is_shared = group.works.len() > 1;
            group.commit().await;
            if is_shared {
                self.await_arrivals().await;
            }
        }
    }

    /// Waits while other tasks submit more units. Clients that were answered together come back
    /// together, so without this wait the first client would get the next flush alone. The loop
    /// never sleeps, and a single client never waits.
    async fn await_arrivals(&self) {
        let mut waiting = self.waiting.len();
        loop {
            tokio::task::yield_now().await;
            let by_now = self.waiting.len();
            if by_now == waiting || by_now >= MOST_UNITS {
                return;
            }
            waiting = by_now;
        }
    }

    /// Returns the next group as soon as there is a unit: the unit and all waiting units that fit.
    /// A unit larger than the limits of a group forms a separate group.
    async fn next_group(&mut self) -> Option<CommitGroup> {
        let first = match self.first.take() {
            Some(first) => first,
            None => self.waiting.recv().await?,
        };
        let (mut bytes, mut rows) = (first.work.bytes(), first.work.rows());
        let mut group = CommitGroup::of(first);
        while group.works.len() < MOST_UNITS
            && let Ok(waiting) = self.waiting.try_recv()
        {
            bytes += waiting.work.bytes();
            rows += waiting.work.rows();
            if bytes > MOST_BYTES || rows > MOST_ROWS {
                self.first = Some(waiting);
                break;
            }
            group.add(waiting);
        }
        Some(group)
    }
}

/// Units committed in a single transaction.
struct CommitGroup {
    data: Arc<OpenData>,
    works: Vec<CommitRequest>,
    answers: Vec<oneshot::Sender<CommitOutcome>>,
}

impl CommitGroup {
    fn of(first: PendingCommit) -> CommitGroup {
        CommitGroup { data: first.data, works: vec![first.work], answers: vec![first.answer] }
    }

    fn add(&mut self, waiting: PendingCommit) {
        self.works.push(waiting.work);
        self.answers.push(waiting.answer);
    }

    /// Commits the group and answers the requests. Before the answer, the rest of the store learns
    /// of the commit: outdated cached records are replaced or evicted, and the worker for due
    /// records is woken. A request that no longer waits for the answer changes nothing.
    async fn commit(self) {
        let OpenData { cache, folders, watched, .. } = &*self.data;
        let written = || self.works.iter().flat_map(CommitRequest::addresses);
        cache.begin_writing(written());
        folders.begin_writing(written());
        let outcomes = self.outcomes().await;
        let stored = || {
            let ended = self.works.iter().zip(&outcomes);
            ended.filter(|(_, outcome)| outcome.is_ok()).map(|(work, _)| work)
        };
        cache.end_writing(stored(), self.data.changes.last_begun());
        folders.end_writing(written());
        watched.ring(written());
        if let Some(due) = stored().filter_map(CommitRequest::earliest_due).min() {
            self.data.alarm.ring(due);
        }
        self.data.activity.commits.add(stored().count() as u64);
        let waits = |work: &CommitRequest, outcome: &CommitOutcome| {
            self.data.changes.is_shared() && outcome.is_ok() && work.needs_other_nodes()
        };
        let mut waiting = Vec::new();
        for ((work, answer), outcome) in self.works.iter().zip(self.answers).zip(outcomes) {
            match waits(work, &outcome) {
                true => waiting.push((answer, outcome)),
                // If the request has gone away, the unit is stored all the same.
                false => drop(answer.send(outcome)),
            }
        }
        if !waiting.is_empty() {
            // A client may see the change on another node before this answer, and must then see the
            // change on this node, too.
            let changed: Vec<Address> = written().cloned().collect();
            self.data.followed.note_changes(&changed);
            let commit = self.data.database.own_commits();
            tokio::spawn(answer_once_in_force(self.data, commit, waiting));
        }
    }

    /// Returns the outcome of each unit, in order.
    async fn outcomes(&self) -> Vec<CommitOutcome> {
        let is_alone = self.works.len() == 1;
        let end = Instant::now() + REPEAT_TIME;
        match attempt_repeatedly(&self.data, &self.works, end).await {
            Ok(outcomes) => outcomes,
            Err(WriteFailure::Full(full)) if is_alone => vec![Err(full)],
            Err(WriteFailure::Interfered) if is_alone => vec![Err(StoreFault::Conflict)],
            Err(WriteFailure::Full(_) | WriteFailure::Undone(_) | WriteFailure::Interfered) => {
                self.commit_one_by_one(end).await
            }
            Err(
                broken @ (WriteFailure::Stopped(_)
                | WriteFailure::Refused(_)
                | WriteFailure::Unknown(_)),
            ) => vec![Err(broken.into()); self.works.len()],
        }
    }

    /// Commits each unit alone. From `end` on, a unit has one attempt.
    async fn commit_one_by_one(&self, end: Instant) -> Vec<CommitOutcome> {
        let mut outcomes = Vec::with_capacity(self.works.len());
        let folders = &self.data.folders;
        for work in self.works.chunks(1) {
            folders.begin_writing(work.iter().flat_map(CommitRequest::addresses));
            match attempt_repeatedly(&self.data, work, end).await {
                Ok(outcome) => outcomes.extend(outcome),
                Err(WriteFailure::Refused(fault)) => {
                    // Each attempt may wait for a connection, and no unit would fare better.
                    outcomes.resize(self.works.len(), Err(fault));
                }
                Err(broken) => outcomes.push(Err(broken.into())),
            }
            // The next unit may have relied on a folder in which this unit wrote.
            folders.end_writing(work.iter().flat_map(CommitRequest::addresses));
            if outcomes.len() == self.works.len() {
                break;
            }
        }
        outcomes
    }
}

/// Answers requests whose changes other nodes must not miss. The next group does not wait.
async fn answer_once_in_force(
    data: Arc<OpenData>,
    commit: i64,
    waiting: Vec<(oneshot::Sender<CommitOutcome>, CommitOutcome)>,
) {
    data.await_others(commit).await;
    for (answer, outcome) in waiting {
        drop(answer.send(outcome));
    }
}

/// Attempts the commit anew until `end`, with a new plan, while other processes interfere. Pauses
/// between the attempts, so that two nodes do not repeat at the same moment. If the commit met a
/// record of a term that this process has not read, reads the keyring once.
async fn attempt_repeatedly(
    data: &OpenData,
    works: &[CommitRequest],
    end: Instant,
) -> Result<Vec<CommitOutcome>, WriteFailure> {
    let mut terms = KnownTerms::AsReadSoFar;
    for attempts in 1..MOST_ATTEMPTS {
        match attempt(data, works, &mut terms).await {
            Err(WriteFailure::Interfered) if Instant::now() < end => pause_before(attempts).await,
            outcome => return outcome,
        }
    }
    attempt(data, works, &mut terms).await
}

/// The terms of the keyring by which a commit opens records.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KnownTerms {
    /// Another node may have added terms meanwhile.
    AsReadSoFar,
    /// A record of another term is damaged.
    All,
}

/// Waits for the decision of a commit in doubt, if there is one.
async fn end_doubt(data: &OpenData) -> Result<(), WriteFailure> {
    if data.cache.is_in_doubt() {
        data.database.await_decisions().await?;
        data.folders.forget();
        data.cache.end_doubt();
    }
    Ok(())
}

/// Commits `works` in a single transaction, except units whose reads no longer hold.
///
/// If the answer of the database is lost, the stored stamps are checked before anything else is
/// written. If the check fails, too, the commit is in doubt, and the next attempt first waits for
/// its decision.
async fn attempt(
    data: &OpenData,
    works: &[CommitRequest],
    terms: &mut KnownTerms,
) -> Result<Vec<CommitOutcome>, WriteFailure> {
    let database = &data.database;
    end_doubt(data).await?;
    let mut plan = CommitPlan::default();
    let time = data.time.due();
    let mut lacks_term = false;
    let (planned, lacks) = (&mut plan, &mut lacks_term);
    let terms_before = *terms;
    let questions = plan::questions_about(works, (&data.stored, &data.changes));
    let committing = database.commit_group(questions, move |committed| {
        let mut rows = committed.rows.values().flatten();
        if terms_before == KnownTerms::AsReadSoFar && rows.any(|row| data.lacks_term_of(row)) {
            *lacks = true;
            return None;
        }
        *planned = CommitPlan::make(data, works, committed);
        let planned: &CommitPlan<'_> = planned;
        let mut writes = planned.any_commits().then(|| planned.writes())?;
        let committed = works.iter().zip(&planned.outcomes).filter(|(_, outcome)| outcome.is_ok());
        writes.is_awaited = data.changes.is_shared()
            && committed.map(|(work, _)| work).any(CommitRequest::needs_other_nodes);
        writes.identity.extend(time.map(identity::time_row));
        Some(writes)
    });
    let committed = committing.await;
    if lacks_term {
        *terms = KnownTerms::All;
        data.read_keyring().await.map_err(WriteFailure::Refused)?;
        return Err(WriteFailure::Interfered);
    }
    match committed {
        Ok(TransactionOutcome::Committed) => time.into_iter().for_each(|time| data.time.note(time)),
        Ok(TransactionOutcome::Conflict) => {}
        Err(WriteFailure::Unknown(said)) => match plan.is_stored(database).await {
            Ok(true) => database.count_found_commit(),
            Ok(false) => {
                let text = format!(
                    "the database failed while committing ({said}); \
                         nothing was stored, try again"
                );
                return Err(WriteFailure::Undone(StoreFault::Unavailable(text)));
            }
            Err(_) => {
                data.cache.begin_doubt();
                data.stored.forget();
                return Err(WriteFailure::Unknown(said));
            }
        },
        Err(broken) => return Err(broken),
    }
    let ended = works.iter().zip(&plan.outcomes);
    let committed = ended.filter(|(_, outcome)| outcome.is_ok()).map(|(work, _)| work);
    data.stored.note(&plan.stored, committed);
    data.activity.rows_written.add(plan.rows_written());
    Ok(plan.outcomes)
}
