//! Tests of the statements around a transaction, and of the session after a failure. The server
//! keeps a journal of its requests, and obeys words in the statements.

use super::*;
use bulkhead_wire::sync;
use std::sync::Mutex;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, watch};

/// Start of the timeouts after each BEGIN, which the journal leaves out.
const BOUNDS: &str = "SET LOCAL statement_timeout = ";
/// Start of the statements that reset a session, which the journal shortens.
const RESET: &str = "RESET SESSION AUTHORIZATION; ";
/// The message that a statement is complete.
const DONE: &[u8] = b"C\0\0\0\x07DO\0";

/// A server in clear that accepts every login without a password.
#[derive(Default)]
struct Journal {
    asked: Mutex<Vec<String>>,
    sessions: AtomicUsize,
    /// Notified each time a statement hangs.
    hangs: Notify,
    /// Number of statements that will still meet a conflict.
    conflicts: AtomicUsize,
    refuses_reset: AtomicBool,
    /// Ends all sessions.
    ends: watch::Sender<()>,
}

impl Journal {
    async fn start() -> (Arc<Self>, VettedPool) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let journal = Arc::new(Self::default());
        let server = Arc::clone(&journal);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                server.sessions.fetch_add(1, Ordering::Relaxed);
                // The task ends when its client closes the connection, or when `ends` changes.
                tokio::spawn(Arc::clone(&server).serve(stream));
            }
        });
        let sessions = open("localhost", address, "disable").await.unwrap();
        (journal, sessions)
    }

    async fn serve(self: Arc<Self>, stream: TcpStream) -> io::Result<()> {
        let (mut reader, mut writer) = stream.into_split();
        let mut ends = self.ends.subscribe();
        tokio::select! {
            _ = ends.changed() => Ok(()),
            done = self.speak(&mut reader, &mut writer) => done,
        }
    }

    async fn speak(&self, from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf) -> io::Result<()> {
        read_message(from).await?;
        to.write_all(&[b'R', 0, 0, 0, 8, 0, 0, 0, 0]).await?;
        let mut state = b'I';
        loop {
            to.write_all(&[b'Z', 0, 0, 0, 5, state]).await?;
            let kind = from.read_u8().await?;
            let text = read_message(from).await?;
            match kind {
                b'Q' => state = self.run(&text, state, to).await?,
                b'S' => {}
                _ => return Ok(()),
            }
        }
    }

    /// Returns the state after a message: idle, in a transaction, or in a failed transaction.
    async fn run(&self, text: &[u8], state: u8, to: &mut OwnedWriteHalf) -> io::Result<u8> {
        let text = String::from_utf8(text.strip_suffix(b"\0").unwrap().to_vec()).unwrap();
        if text == "SELECT 1" {
            to.write_all(DONE).await?;
            return Ok(state);
        }
        let (begins, resets) = (text.starts_with("BEGIN"), text.contains(RESET));
        let is_alone = text.starts_with("VACUUM") || text.starts_with(RESET);
        let is_idle = state == b'I';
        assert_eq!(begins || is_alone, is_idle, "{text} where the session is idle: {is_idle}");
        assert!(!begins || text.contains(BOUNDS), "{text} has no bounds");
        sync::lock(&self.asked).push(shortened(&text));
        if text.contains("hangs") {
            self.hangs.notify_one();
            std::future::pending::<()>().await;
        }
        if text.contains("last words") {
            to.write_all(&error("FATAL", "57P01")).await?;
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        if text.contains("refused") {
            to.write_all(&error("ERROR", "42501")).await?;
            return Ok(b'E');
        }
        if text.contains("CREATE") && self.takes_a_conflict() {
            to.write_all(&error("ERROR", "40001")).await?;
            return Ok(b'E');
        }
        to.write_all(DONE).await?;
        if resets && self.refuses_reset.load(Ordering::Relaxed) {
            to.write_all(&error("ERROR", "42501")).await?;
        }
        let ends = ["COMMIT", "ROLLBACK; RESET", "VACUUM", RESET].iter();
        let ends = text == "ROLLBACK" || ends.copied().any(|end| text.starts_with(end));
        Ok(if ends { b'I' } else { b'T' })
    }

    fn takes_a_conflict(&self) -> bool {
        let take = |left: usize| left.checked_sub(1);
        self.conflicts.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// Returns the requests since the last call.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *sync::lock(&self.asked))
    }

    fn sessions(&self) -> usize {
        self.sessions.load(Ordering::Relaxed)
    }
}

fn error(severity: &str, code: &str) -> Vec<u8> {
    let body = format!("S{severity}\0V{severity}\0C{code}\0Mno\0\0");
    let mut message = vec![b'E'];
    message.extend_from_slice(&u32::try_from(body.len() + 4).unwrap().to_be_bytes());
    message.extend_from_slice(body.as_bytes());
    message
}

fn shortened(text: &str) -> String {
    let text = match text.split_once(RESET) {
        Some((before, _)) => format!("{before}RESET"),
        None => text.to_owned(),
    };
    let parts = text.split("; ").filter(|part| !part.starts_with("SET LOCAL "));
    parts.collect::<Vec<_>>().join("; ")
}

/// Waits until a used session is idle.
async fn until_idle(sessions: &VettedPool) {
    let super::super::AnySessionPool::Postgres(lender) = &sessions.pool else {
        panic!("the session is not of PostgreSQL")
    };
    while !lender.may_be_broken() {
        tokio::task::yield_now().await;
    }
}

fn statements(texts: &[&str]) -> Vec<SqlStatement> {
    let statement =
        |text: &&str| SqlStatement { text: (*text).to_owned(), secret: false, may_fail: false };
    texts.iter().map(statement).collect()
}

#[tokio::test]
async fn first_statement_includes_begin_unless_failure_is_allowed() {
    let (journal, sessions) = Journal::start().await;
    transact(&sessions, &statements(&["CREATE ROLE a", "GRANT b TO a"])).await.unwrap();
    assert_eq!(journal.asked(), ["BEGIN; CREATE ROLE a", "GRANT b TO a", "COMMIT"]);
    let mut may_fail = statements(&["refused"]);
    may_fail[0].may_fail = true;
    transact(&sessions, &may_fail).await.unwrap();
    let requests = journal.asked();
    assert_eq!((requests.len(), requests[0].as_str()), (4, "BEGIN"), "{requests:?}");
    assert!(
        requests[1].starts_with("SAVEPOINT") && requests[2].starts_with("ROLLBACK TO"),
        "{requests:?}"
    );
    transact(&sessions, &[]).await.unwrap();
    assert_eq!(journal.asked(), ["BEGIN", "COMMIT"]);
}

#[tokio::test]
async fn refused_transaction_is_rolled_back_and_session_reused() {
    let (journal, sessions) = Journal::start().await;
    transact(&sessions, &statements(&["CREATE ROLE a"])).await.unwrap();
    let used = journal.sessions();
    until_idle(&sessions).await;
    let refused = "GRANT refused TO a";
    for (place, texts) in [(0, &[refused][..]), (1, &["CREATE ROLE a", refused])] {
        journal.asked();
        let failure = transact(&sessions, &statements(texts)).await.unwrap_err();
        assert_eq!((failure.code.as_str(), failure.statement), ("statement-failed", Some(place)));
        assert_eq!(journal.asked().last().unwrap(), "ROLLBACK");
        until_idle(&sessions).await;
    }
    transact(&sessions, &statements(&["CREATE ROLE b"])).await.unwrap();
    assert_eq!(journal.asked(), ["BEGIN; CREATE ROLE b", "COMMIT"]);
    assert_eq!(journal.sessions(), used);
}

#[tokio::test]
async fn statement_on_ended_session_runs_once_on_another() {
    let (journal, sessions) = Journal::start().await;
    transact(&sessions, &statements(&["CREATE ROLE a"])).await.unwrap();
    until_idle(&sessions).await;
    journal.asked();
    journal.ends.send_replace(());
    transact(&sessions, &statements(&["CREATE ROLE b"])).await.unwrap();
    assert_eq!(journal.asked(), ["BEGIN", "CREATE ROLE b", "COMMIT"]);
}

#[tokio::test]
async fn statement_ending_its_session_is_retried_once() {
    let (journal, sessions) = Journal::start().await;
    let (one, other) = (statements(&["CREATE ROLE a"]), statements(&["CREATE ROLE b"]));
    let (one, other) = tokio::join!(transact(&sessions, &one), transact(&sessions, &other));
    assert!(one.is_ok() && other.is_ok());
    until_idle(&sessions).await;
    journal.asked();
    let failure = transact(&sessions, &statements(&["last words"])).await.unwrap_err();
    assert_eq!((failure.code.as_str(), failure.statement), ("unreachable", Some(0)));
    assert_eq!(journal.asked(), ["BEGIN; last words", "BEGIN", "last words"]);
}

#[tokio::test]
async fn session_of_cut_call_returns_to_no_pool() {
    let (journal, sessions) = Journal::start().await;
    for texts in [&["hangs"][..], &["CREATE ROLE a", "hangs"]] {
        let statements = statements(texts);
        tokio::select! {
            done = transact(&sessions, &statements) => panic!("the transaction ended: {done:?}"),
            () = journal.hangs.notified() => {}
        }
    }
    journal.asked();
    let before = journal.sessions();
    // A reused session would be inside a transaction, and the second BEGIN would fail.
    transact(&sessions, &statements(&["CREATE ROLE b"])).await.unwrap();
    assert_eq!(journal.asked(), ["BEGIN; CREATE ROLE b", "COMMIT"]);
    assert_eq!(journal.sessions(), before + 1);
}

#[tokio::test]
async fn changed_session_is_reset_with_transaction_end() {
    let (journal, sessions) = Journal::start().await;
    transact(&sessions, &statements(&["CREATE ROLE a"])).await.unwrap();
    let used = journal.sessions();
    for (texts, end) in [
        (&["SET ROLE app", "CREATE ROLE a"][..], "COMMIT; RESET"),
        (&["CREATE ROLE a", "SELECT set_config('role', 'app', false)"], "COMMIT; RESET"),
        (&["SET ROLE app", "refused"], "ROLLBACK; RESET"),
        (&["SET ROLE refused"], "ROLLBACK; RESET"),
        // Statements that leave the session unchanged need no reset.
        (&["CREATE ROLE a", "GRANT b TO a"], "COMMIT"),
        (&["GRANT refused TO a"], "ROLLBACK"),
    ] {
        until_idle(&sessions).await;
        journal.asked();
        let fails = texts.last().unwrap().contains("refused");
        assert_eq!(transact(&sessions, &statements(texts)).await.is_err(), fails);
        assert_eq!(journal.asked().last().unwrap(), end, "{texts:?}");
    }
    assert_eq!(journal.sessions(), used, "each went back to its pool");
}

#[tokio::test]
async fn session_without_reset_closes_and_keeps_result() {
    let (journal, sessions) = Journal::start().await;
    transact(&sessions, &statements(&["CREATE ROLE a"])).await.unwrap();
    journal.refuses_reset.store(true, Ordering::Relaxed);
    for texts in [&["SET ROLE app"][..], &["SET ROLE app", "refused"]] {
        until_idle(&sessions).await;
        let before = journal.sessions();
        let done = transact(&sessions, &statements(texts)).await;
        assert_eq!(done.is_ok(), texts.len() == 1, "{done:?}");
        transact(&sessions, &statements(&["CREATE ROLE a"])).await.unwrap();
        assert_eq!(journal.sessions(), before + 1);
    }
}

#[tokio::test]
async fn session_is_reset_after_statement_outside_transaction() {
    let (journal, sessions) = Journal::start().await;
    let vacuum = &statements(&["VACUUM t"])[0];
    lend(&sessions).await.execute(vacuum).await.unwrap();
    assert_eq!(journal.asked(), ["VACUUM t", "RESET"]);
    until_idle(&sessions).await;
    transact(&sessions, &statements(&["CREATE ROLE a"])).await.unwrap();
    until_idle(&sessions).await;
    let used = journal.sessions();
    journal.refuses_reset.store(true, Ordering::Relaxed);
    lend(&sessions).await.execute(vacuum).await.unwrap();
    journal.asked();
    transact(&sessions, &statements(&["CREATE ROLE b"])).await.unwrap();
    assert_eq!(journal.sessions(), used + 1);
}

#[tokio::test]
async fn work_on_closed_pool_finishes_on_lent_session() {
    let (journal, sessions) = Journal::start().await;
    journal.conflicts.store(2, Ordering::Relaxed);
    let lent = lend(&sessions).await;
    let before = journal.sessions();
    let closing = sessions.close();
    tokio::pin!(closing);
    tokio::select! {
        biased;
        () = &mut closing => panic!("the pool closed while a session was lent"),
        () = std::future::ready(()) => {}
    }
    assert!(sessions.lend().await.unwrap().is_none(), "nothing new begins there");
    lent.transact(&statements(&["CREATE ROLE a"])).await.unwrap();
    let attempt = ["BEGIN; CREATE ROLE a", "ROLLBACK"];
    let expected = [&attempt[..], &attempt, &["BEGIN; CREATE ROLE a", "COMMIT"]].concat();
    assert_eq!(journal.asked(), expected);
    assert_eq!(journal.sessions(), before, "all attempts had the session of the first");
    closing.await;
}
