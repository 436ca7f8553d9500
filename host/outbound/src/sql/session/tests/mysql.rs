//! Tests against servers with as much of MySQL as a login needs, and hostile answers afterwards.

use super::*;

/// The answer to each request without a hostile answer.
const OK: &[u8] = &[0, 0, 0, 2, 0, 0, 0];
const PASSWORD: &[u8] = b"no-word-in-it\0";

/// The behaviour of a server at a login, and the answer to `SELECT 1`.
#[derive(Clone, Copy)]
struct Manners {
    asks_for_the_password: bool,
    says: &'static [u8],
}

async fn server(certificate: &'static str, manners: Manners) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let acceptor = acceptor(certificate);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // The task ends when its client closes the connection.
            tokio::spawn(serve(stream, acceptor.clone(), manners));
        }
    });
    address
}

async fn serve(mut stream: TcpStream, acceptor: TlsAcceptor, manners: Manners) -> io::Result<()> {
    write(&mut stream, 0, &greeting()).await?;
    let (number, request) = read(&mut stream).await?;
    assert_eq!((number, request.len()), (1, 32), "TLS comes before anything of the user");
    let mut stream = acceptor.accept(stream).await?;
    let (number, answer) = read(&mut stream).await?;
    assert_eq!((number, &answer[..32]), (2, request.as_slice()));
    let mut number = 3;
    if manners.asks_for_the_password {
        write(&mut stream, 3, &[1, 4]).await?;
        let (answered, password) = read(&mut stream).await?;
        assert_eq!((answered, password.as_slice()), (4, PASSWORD));
        number = 5;
    }
    write(&mut stream, number, OK).await?;
    loop {
        let (_, command) = read(&mut stream).await?;
        match command.split_first() {
            Some((3, b"SELECT 1")) => write(&mut stream, 1, manners.says).await?,
            Some((1, _)) | None => return Ok(()),
            Some(_) => write(&mut stream, 1, OK).await?,
        }
    }
}

fn greeting() -> Vec<u8> {
    // Capabilities: protocol 4.1, secure login, TLS; authentication plugins, and no end-of-file
    // packet after the columns.
    let (low, high): (u16, u16) = (0x8200 | 0x0800, 0x0108);
    let mut greeting = b"\x0a9.1.0\0\x01\0\0\0saltsalt\0".to_vec();
    greeting.extend_from_slice(&low.to_le_bytes());
    greeting.extend_from_slice(&[45, 2, 0]);
    greeting.extend_from_slice(&high.to_le_bytes());
    greeting.extend_from_slice(&[21, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    greeting.extend_from_slice(b"saltsaltsalt\0caching_sha2_password\0");
    greeting
}

async fn write(stream: &mut (impl AsyncWrite + Unpin), number: u8, body: &[u8]) -> io::Result<()> {
    let [low, middle, high, _] = u32::try_from(body.len()).unwrap().to_le_bytes();
    stream.write_all(&[low, middle, high, number]).await?;
    stream.write_all(body).await?;
    stream.flush().await
}

async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<(u8, Vec<u8>)> {
    let [low, middle, high, number] = stream.read_u32().await?.to_be_bytes();
    let mut body = vec![0; usize::try_from(u32::from_le_bytes([low, middle, high, 0])).unwrap()];
    stream.read_exact(&mut body).await?;
    Ok((number, body))
}

async fn open_mysql(address: SocketAddr, mode: &str) -> Result<VettedPool, SqlFailure> {
    let target = DatabaseTarget {
        driver: "mysql".to_owned(),
        ..target(&address.ip().to_string(), address.port(), mode)
    };
    open_vetted(&target, address).await
}

#[tokio::test]
async fn mysql_password_request_within_tls_is_answered() {
    for asks_for_the_password in [false, true] {
        let address = server(SERVER, Manners { asks_for_the_password, says: OK }).await;
        ping(&open_mysql(address, "verify-full").await.unwrap()).await.unwrap();
    }
    let manners = Manners { asks_for_the_password: true, says: OK };
    let elsewhere = server(ELSEWHERE, manners).await;
    for (mode, lets_in) in [("verify-full", false), ("verify-ca", true), ("prefer", true)] {
        assert_eq!(open_mysql(elsewhere, mode).await.is_ok(), lets_in, "{mode}");
    }
}

#[tokio::test]
async fn server_announcing_excessive_columns_is_left() {
    for says in [
        b"\xfe\xff\xff\xff\xff\xff\xff\xff\x0f".as_slice(),
        b"\xfd\xff\xff\xff",
        b"\xfc\xff\xff",
        // The flag for more results, after a first result.
        &[0, 0, 0, 10, 0, 0, 0],
    ] {
        let manners = Manners { asks_for_the_password: false, says };
        // Opening the sessions runs `SELECT 1`, and so receives the hostile answer.
        let opened = open_mysql(server(SERVER, manners).await, "require");
        let opened = tokio::time::timeout(Duration::from_millis(500), opened).await;
        let is_left =
            opened.map_or(true, |result| result.is_err_and(|why| why.code == "unreachable"));
        assert!(is_left, "{says:?}");
    }
}
