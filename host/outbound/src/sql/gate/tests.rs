//! Tests of the messages and sizes that a gate allows a server.

use super::*;
use tokio::net::TcpListener;

const TEST_TIMEOUT: Duration = Duration::from_secs(15);

/// The two ends of a gate and the task of the gate.
struct Session {
    library: UnixStream,
    server: TcpStream,
    carried: tokio::task::JoinHandle<Result<(), SqlFault>>,
}

impl Session {
    async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let (library, mut near) = UnixStream::pair().unwrap();
        let gate = ProtocolFilter {
            speech: SqlProtocol::Postgres,
            security: TlsRequirement::Clear,
            password: Zeroizing::default(),
            connect_timeout: TEST_TIMEOUT,
        };
        let carried = tokio::spawn(async move { gate.carry(&mut near, far).await });
        Self { library, server, carried }
    }

    /// Sends the bytes `said` as the server. Returns the bytes that the library receives and the
    /// gate's result.
    async fn hear(mut self, said: &[u8]) -> (Vec<u8>, Result<(), SqlFault>) {
        let mut heard = Vec::new();
        let saying = async {
            // A closed gate refuses the bytes.
            let _ = self.server.write_all(said).await;
            let _ = self.server.shutdown().await;
        };
        let both = async { tokio::join!(saying, self.library.read_to_end(&mut heard)) };
        timeout(TEST_TIMEOUT, both).await.unwrap().1.unwrap();
        (heard, self.carried.await.unwrap())
    }
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    [&[kind], length.as_slice(), body].concat()
}

#[tokio::test]
async fn messages_kept_by_library_forever_are_filtered_out() {
    let version = message(b'S', b"server_version\x0016.1\0");
    let ready = message(b'Z', b"I");
    let parameter = message(b'S', b"another\0parameter\0");
    let notice = message(b'N', b"SNOTICE\0\0");
    let said =
        [parameter.as_slice(), &version, &notice, &message(b'A', b""), &ready, &parameter].concat();
    let (heard, carried) = Session::open().await.hear(&said).await;
    assert_eq!((heard, carried), ([version, ready].concat(), Ok(())));
}

#[tokio::test]
async fn announced_message_without_body_takes_no_memory() {
    let mut said = message(b'Z', b"I");
    said.extend_from_slice(&[b'D', 0x7f, 0xff, 0xff, 0xff, 0, 0]);
    let (_, carried) = Session::open().await.hear(&said).await;
    assert_eq!(carried, Err(SqlFault::TooLarge));
    let (_, carried) = Session::open().await.hear(&[b'D', 0, 0, 0, 3]).await;
    assert_eq!(carried, Err(SqlFault::Protocol), "a length counts itself");
}

#[tokio::test]
async fn endless_answer_is_cut_and_next_counts_anew() {
    let row = message(b'D', &vec![0; limits::SQL_MESSAGE_BYTES - 16]);
    let most = limits::SQL_ANSWER_BYTES / row.len();
    let (_, carried) = Session::open().await.hear(&row.repeat(most)).await;
    assert_eq!(carried, Ok(()));
    let (_, carried) = Session::open().await.hear(&row.repeat(most + 1)).await;
    assert_eq!(carried, Err(SqlFault::TooLarge));
    let mut session = Session::open().await;
    for _ in 0..3 {
        session.library.write_all(b"asked").await.unwrap();
        session.server.read_exact(&mut [0; 5]).await.unwrap();
        let (said, mut heard) = (row.repeat(most / 2), vec![0; row.len() * (most / 2)]);
        let (sent, listened) =
            tokio::join!(session.server.write_all(&said), session.library.read_exact(&mut heard));
        assert!(sent.is_ok() && listened.is_ok());
    }
}

#[test]
fn announced_columns_over_table_maximum_are_refused() {
    let packet = |body: &[u8]| [[0; mysql::HEAD].as_slice(), body].concat();
    for announced in [
        vec![0xfc, 0x01, 0x10],
        vec![0xfd, 0xff, 0xff, 0xff],
        vec![0xfe, 0, 0, 0, 0, 0, 0, 0, 0x10],
        [[0xfe].as_slice(), &[0xff; 8], &[0; 512]].concat(),
    ] {
        assert_eq!(mysql::check(&packet(&announced)), Err(SqlFault::TooLarge), "{announced:?}");
    }
    let row = [[0xfd, 0x00, 0x80, 0x00].as_slice(), &[b'x'; 0x8000]].concat();
    for said in [
        vec![250],
        vec![0xfc, 0x00, 0x10],
        // The end of a result in both forms, and a long text.
        vec![0xfe, 0, 0, 2, 0],
        vec![0xfe, 0, 0, 2, 0, 0, 0],
        row,
        vec![],
    ] {
        assert_eq!(mysql::check(&packet(&said)), Ok(()), "{:?}", said.first());
    }
}
