//! Group commit: while one group of units is being flushed the next one collects, and is committed
//! as one.
//!
//! There is no timer. A client alone gets one flush for each of its writes and waits for nothing
//! else; many clients share a flush, because a flush costs the same for one record and for a
//! hundred.
//!
//! The fault this file stops: one unit's failure that becomes another's. A group that meets an
//! error is given up whole and each of its units is tried once more, alone; nothing is reported as
//! stored unless that was proven.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;

use crate::fault::StoreFault;
use crate::identity;
use crate::open_data::OpenData;
use crate::plan::{AskedWork, CommitPlan};
use crate::script::{Answers, Script};
use crate::sqlite::{Attempt, Broken, Ending};
use crate::work::{Outcome, Work};

/// The sizes of a group, beyond which more only costs its first unit time.
const MOST_UNITS: usize = 128;
const MOST_BYTES: usize = 1 << 20;
/// Rows checked and written.
const MOST_ROWS: usize = 4_096;

/// Commits the units of work of all requests, in one task that lives as long as the store.
pub(crate) struct Committer {
    queue: UnboundedSender<Waiting>,
    commits: Arc<AtomicU64>,
}

/// A unit to be committed, and where its outcome is waited for. It keeps the data open.
struct Waiting {
    data: Arc<OpenData>,
    work: Work,
    answer: oneshot::Sender<Outcome>,
}

impl Committer {
    /// Starts the task, in the runtime that runs the caller.
    pub(crate) fn start() -> Committer {
        let (queue, waiting) = mpsc::unbounded_channel();
        let commits = Arc::new(AtomicU64::new(0));
        tokio::spawn(Queue { waiting, first: None, commits: Arc::clone(&commits) }.serve());
        Committer { queue, commits }
    }

    /// Hands the unit over and waits until its fate is known. The queue has no bound of its own: it
    /// holds at most one unit of each request that is being served.
    ///
    /// # Errors
    /// [`StoreFault::Conflict`] and nothing written; [`StoreFault::Unavailable`] and nothing
    /// acknowledged.
    pub(crate) async fn commit(&self, data: Arc<OpenData>, work: Work) -> Outcome {
        let (answer, outcome) = oneshot::channel();
        if self.queue.send(Waiting { data, work, answer }).is_err() {
            return Err(StoreFault::Unavailable(
                "the store no longer commits; restart the server".into(),
            ));
        }
        outcome.await.unwrap_or_else(|_| {
            Err(StoreFault::Unavailable(
                "the commit was stopped half-way; whether it was stored is not known".into(),
            ))
        })
    }

    /// Units committed so far.
    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }
}

/// What waits to be committed.
struct Queue {
    waiting: UnboundedReceiver<Waiting>,
    /// What did not fit into the group before.
    first: Option<Waiting>,
    /// Units committed so far.
    commits: Arc<AtomicU64>,
}

impl Queue {
    async fn serve(mut self) {
        while let Some(group) = self.next().await {
            let is_shared = group.works.len() > 1;
            group.commit(&self.commits).await;
            if is_shared {
                self.await_arrivals().await;
            }
        }
    }

    /// Clients that were answered together come back together: as long as each turn of the other
    /// tasks brings more of them, the next flush is not spent on the first. Nothing sleeps here,
    /// and a client alone is never waited for.
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

    /// The next group, as soon as there is a unit: with all that wait already, as far as they fit.
    /// A unit that is larger than a group may be is a group by itself.
    async fn next(&mut self) -> Option<Group> {
        let first = match self.first.take() {
            Some(first) => first,
            None => self.waiting.recv().await?,
        };
        let (mut bytes, mut rows) = (first.work.bytes(), first.work.rows());
        let mut group = Group::of(first);
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

/// Units that are committed as one.
struct Group {
    data: Arc<OpenData>,
    works: Vec<Work>,
    answers: Vec<oneshot::Sender<Outcome>>,
}

impl Group {
    fn of(first: Waiting) -> Group {
        Group { data: first.data, works: vec![first.work], answers: vec![first.answer] }
    }

    fn add(&mut self, waiting: Waiting) {
        self.works.push(waiting.work);
        self.answers.push(waiting.answer);
    }

    /// Commits the group, and answers when the rest of the store knows of it: what was kept of it
    /// before is replaced or forgotten, and the worker for due records is told. Whether a request
    /// still waits for the answer changes nothing.
    async fn commit(self, commits: &AtomicU64) {
        let OpenData { cache, folders, watched, .. } = &*self.data;
        let written = || self.works.iter().flat_map(Work::addresses);
        cache.begin_writing(written());
        folders.begin_writing(written());
        let outcomes = self.outcomes().await;
        let stored = || {
            let ended = self.works.iter().zip(&outcomes);
            ended.filter(|(_, outcome)| outcome.is_ok()).map(|(work, _)| work)
        };
        cache.end_writing(stored());
        folders.end_writing(written());
        watched.ring(written());
        if let Some(due) = stored().filter_map(Work::earliest_due).min() {
            self.data.alarm.ring(due);
        }
        commits.fetch_add(stored().count() as u64, Ordering::Relaxed);
        for (answer, outcome) in self.answers.into_iter().zip(outcomes) {
            // Where the request has gone away, the unit is stored all the same.
            let _ = answer.send(outcome);
        }
    }

    /// How each unit ended, in order.
    async fn outcomes(&self) -> Vec<Outcome> {
        let is_alone = self.works.len() == 1;
        match attempt(&self.data, &self.works).await {
            Ok(outcomes) => outcomes,
            Err(Broken::Full(full)) if is_alone => vec![Err(full)],
            Err(Broken::Full(_) | Broken::Undone(_)) => self.commit_one_by_one().await,
            Err(broken @ (Broken::Stopped(_) | Broken::Unknown(_))) => {
                vec![Err(broken.into()); self.works.len()]
            }
        }
    }

    async fn commit_one_by_one(&self) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(self.works.len());
        let folders = &self.data.folders;
        for work in self.works.chunks(1) {
            folders.begin_writing(work.iter().flat_map(Work::addresses));
            match attempt(&self.data, work).await {
                Ok(outcome) => outcomes.extend(outcome),
                Err(broken) => outcomes.push(Err(broken.into())),
            }
            // The next one may have relied on a folder in which this one wrote.
            folders.end_writing(work.iter().flat_map(Work::addresses));
        }
        outcomes
    }
}

/// Commits `works` in one transaction, without those whose reads no longer hold.
///
/// When the answer of the database is lost, the stamps tell: they are looked up before anything
/// else is written.
async fn attempt(data: &OpenData, works: &[Work]) -> Result<Vec<Outcome>, Broken> {
    let database = &data.database;
    let mut plan = CommitPlan::default();
    let mut questions = Script::default();
    let asked = AskedWork::of(&mut questions, works, &data.stored)
        .map_err(|error| Broken::Undone(StoreFault::from(error)))?;
    let time = data.time.due();
    let work = |answers: Answers| {
        plan = CommitPlan::make(data, works, asked, &answers)?;
        if !plan.any_commits() {
            return Ok(Ending::GiveUp);
        }
        let mut writes = plan.writes()?;
        time.map_or(Ok(()), |time| identity::put_time(&mut writes, time))?;
        Ok(Ending::Commit(writes))
    };
    match database.transact(questions, work).await {
        Ok(Attempt::Committed) => time.into_iter().for_each(|time| data.time.note(time)),
        Ok(Attempt::Conflict) => {}
        Err(Broken::Unknown(said)) => {
            match database.inspect(async |connection| plan.is_stored(connection).await).await {
                Ok(true) => database.count_commit(Attempt::Committed),
                Ok(false) => {
                    let text = format!(
                        "the database failed while committing ({said}); \
                         nothing was stored, try again"
                    );
                    return Err(Broken::Undone(StoreFault::Unavailable(text)));
                }
                Err(_) => {
                    data.stored.forget();
                    return Err(Broken::Unknown(said));
                }
            }
        }
        Err(broken) => return Err(broken),
    }
    let ended = works.iter().zip(&plan.outcomes);
    let committed = ended.filter(|(_, outcome)| outcome.is_ok()).map(|(work, _)| work);
    data.stored.note(&plan.stored, committed);
    Ok(plan.outcomes)
}
