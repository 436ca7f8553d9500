//! A simulated directory server that answers as a test wants and records every received byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// LDAP operations by message tag.
pub const BIND: u8 = 0x60;
pub const SEARCH: u8 = 0x63;
pub const MODIFY: u8 = 0x66;
pub const EXTENDED: u8 = 0x77;

pub struct ReceivedRequest<'a> {
    pub id: u8,
    pub operation: u8,
    pub content: &'a [u8],
}

/// The answer to a request as bytes; without bytes, the client waits.
type Answer = dyn Fn(&ReceivedRequest<'_>) -> Vec<u8> + Send + Sync;

pub struct LyingDirectory {
    pub address: SocketAddr,
    heard: Arc<Mutex<Vec<u8>>>,
}

impl LyingDirectory {
    pub fn start(answer: impl Fn(&ReceivedRequest<'_>) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let answer: Arc<Answer> = Arc::new(answer);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let heard = Arc::<Mutex<Vec<u8>>>::default();
        let noted = Arc::clone(&heard);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (noted, answer) = (Arc::clone(&noted), Arc::clone(&answer));
                std::thread::spawn(move || serve(stream, &*answer, &noted));
            }
        });
        Self { address, heard }
    }

    pub fn url(&self) -> String {
        format!("ldap://{}", self.address)
    }

    /// All received bytes.
    pub fn heard(&self) -> Vec<u8> {
        self.heard.lock().expect("no test panics with it").clone()
    }
}

fn serve(mut stream: TcpStream, answer: &Answer, heard: &Mutex<Vec<u8>>) {
    while let Some(message) = read(&mut stream) {
        heard.lock().expect("no test panics with it").extend(&message);
        let Some(request) = parse(&message) else { return };
        if stream.write_all(&answer(&request)).is_err() {
            return;
        }
    }
}

/// Reads a message. The engine's messages are shorter than 64 KiB.
fn read(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let patience = Some(Duration::from_secs(60));
    stream.set_read_timeout(patience).expect("a time that is none");
    let mut message = vec![0; 2];
    stream.read_exact(&mut message).ok()?;
    if message[0] != 0x30 {
        // TLS or garbage: recorded and not answered.
        return Some(message);
    }
    let more = usize::from(message[1].saturating_sub(0x80));
    let mut length = vec![0; more];
    stream.read_exact(&mut length).ok()?;
    message.extend(&length);
    let long = length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    let rest = if more == 0 { usize::from(message[1]) } else { long };
    let mut content = vec![0; rest];
    stream.read_exact(&mut content).ok()?;
    message.extend(content);
    Some(message)
}

fn parse(message: &[u8]) -> Option<ReceivedRequest<'_>> {
    let (_, content) = split(message)?;
    let (2, rest) = (*content.first()?, content.get(3..)?) else { return None };
    let (operation, content) = split(rest)?;
    Some(ReceivedRequest {
        id: *message[message.len() - rest.len() - 1..].first()?,
        operation,
        content,
    })
}

/// Tag and content of the first BER element.
fn split(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let (tag, first) = (*bytes.first()?, *bytes.get(1)?);
    let more = usize::from(first.saturating_sub(0x80));
    let length = bytes.get(2..2 + more)?.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    let length = if more == 0 { usize::from(first) } else { length };
    Some((tag, bytes.get(2 + more..2 + more + length)?))
}

/// A BER element.
pub fn part(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).expect("short");
    [&[tag, 0x84][..], &length.to_be_bytes(), content].concat()
}

impl ReceivedRequest<'_> {
    /// A message that answers this request.
    pub fn message(&self, operation: &[u8]) -> Vec<u8> {
        part(0x30, &[&[2, 1, self.id][..], operation].concat())
    }

    /// The result of the operation; 0 is success.
    pub fn result(&self, code: u8) -> Vec<u8> {
        let operation = match self.operation {
            SEARCH => 0x65,
            other => other + 1,
        };
        self.message(&part(operation, &[0x0a, 1, code, 4, 0, 4, 0]))
    }

    /// A search result entry with attributes.
    pub fn entry(&self, dn: &str, attributes: &[(&str, &[&[u8]])]) -> Vec<u8> {
        let attribute = |(name, values): &(&str, &[&[u8]])| {
            let values: Vec<u8> = values.iter().flat_map(|value| part(4, value)).collect();
            part(0x30, &[part(4, name.as_bytes()), part(0x31, &values)].concat())
        };
        let attributes: Vec<u8> = attributes.iter().flat_map(attribute).collect();
        self.message(&part(0x64, &[part(4, dn.as_bytes()), part(0x30, &attributes)].concat()))
    }

    /// Returns true if the request contains the text.
    pub fn holds(&self, text: &str) -> bool {
        self.content.windows(text.len()).any(|bytes| bytes == text.as_bytes())
    }
}
