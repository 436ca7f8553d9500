//! A relay before the server of this program: a test lets a commit end with an unknown outcome.
//!
//! The relay knows the messages of the store by their words. The connections must be in clear text.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Words of the message that commits a unit of work. A renewal of a claim has other words.
const COMMIT: &[u8] = b"; COMMIT";
/// Words with which the store begins to ask for the outcome of a commit, and words of the same
/// length that the server refuses at once, and not as during an outage.
const INSPECTION: (&[u8], &[u8]) = (
    b"READ COMMITTED; SET LOCAL statement_timeout = '30s'",
    b"READ COMMITTED; SET LOCAL statement_timeout = '30x'",
);

/// The end of a connection with a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitCut {
    /// The message is lost, and the server rolls the transaction back.
    BeforeServer,
    /// The server gets the message, and its answer is lost.
    AfterServer,
}

/// A running relay. Dropping the value ends the relay; connections end with their peers.
pub struct CommitRelay {
    port: u16,
    state: Arc<Mutex<RelayState>>,
}

#[derive(Default)]
struct RelayState {
    cut: Option<CommitCut>,
    is_undecided: bool,
    is_over: bool,
}

impl CommitRelay {
    /// Starts a relay to the server of this program.
    pub fn start() -> CommitRelay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state: Arc<Mutex<RelayState>> = Arc::default();
        let accepting = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if lock(&accepting).is_over {
                    return;
                }
                pass(&accepting, client);
            }
        });
        CommitRelay { port, state }
    }

    /// Returns the connection URL of a new schema, through this relay.
    pub fn new_schema(&self) -> String {
        let server = format!(":{}/", crate::port());
        crate::new_schema("").replace(&server, &format!(":{}/", self.port))
    }

    /// Cuts the connection of the next commit. From then on the outcome stays unknown, and later
    /// commits fail, because the server refuses to be asked.
    pub fn cut_next(&self, cut: CommitCut) {
        lock(&self.state).cut = Some(cut);
    }

    /// Lets the server decide over earlier commits.
    pub fn decide(&self) {
        lock(&self.state).is_undecided = false;
    }
}

impl Drop for CommitRelay {
    fn drop(&mut self) {
        lock(&self.state).is_over = true;
        // Wakes the accepting thread.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

fn lock(state: &Mutex<RelayState>) -> MutexGuard<'_, RelayState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes the messages of one connection on, in both directions.
fn pass(state: &Arc<Mutex<RelayState>>, client: TcpStream) {
    let server = TcpStream::connect(format!("127.0.0.1:{}", crate::port())).unwrap();
    let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let changing = Arc::clone(state);
    // The server may answer before the connection ends.
    let is_cut = Arc::new(AtomicBool::new(false));
    let cutting = Arc::clone(&is_cut);
    let change_or_cut = move |message: &mut [u8]| {
        let passage = change(&changing, message);
        cutting.fetch_or(passage != Passage::On, Ordering::SeqCst);
        passage
    };
    thread::spawn(move || pump(from, to, change_or_cut));
    let answer = move |_: &mut [u8]| match is_cut.load(Ordering::SeqCst) {
        true => Passage::Lost,
        false => Passage::On,
    };
    thread::spawn(move || pump(server, client, answer));
}

/// The way of a message.
#[derive(PartialEq, Eq)]
enum Passage {
    On,
    /// The connection ends after the message.
    Last,
    /// The connection ends instead of the message.
    Lost,
}

/// Passes messages on until a side ends.
fn pump(mut from: TcpStream, mut to: TcpStream, change: impl Fn(&mut [u8]) -> Passage) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let Some(message) = buffer.get_mut(..length) else { break };
        let passage = change(message);
        if passage == Passage::Lost || to.write_all(message).is_err() || passage == Passage::Last {
            break;
        }
    }
    // The other direction ends with this one. Fails if a peer has ended the connection already.
    drop((from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both)));
}

/// Returns the way of a message to the server, and makes an inspection fail.
fn change(state: &Mutex<RelayState>, message: &mut [u8]) -> Passage {
    let mut state = lock(state);
    if find(message, COMMIT).is_some()
        && let Some(cut) = state.cut.take()
    {
        state.is_undecided = true;
        return match cut {
            CommitCut::BeforeServer => Passage::Lost,
            CommitCut::AfterServer => Passage::Last,
        };
    }
    let (words, refused) = INSPECTION;
    if state.is_undecided
        && let Some(at) = find(message, words)
        && let Some(inspection) = message.get_mut(at..at + words.len())
    {
        inspection.copy_from_slice(refused);
    }
    Passage::On
}

fn find(message: &[u8], words: &[u8]) -> Option<usize> {
    message.windows(words.len()).position(|part| part == words)
}
