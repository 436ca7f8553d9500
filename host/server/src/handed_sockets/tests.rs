//! The assignment of real sockets to listeners, and malformed variables.

use super::descriptors::Announcement;
use super::*;
use crate::config::UnixSettings;
use bulkhead_access::random;
use std::net::{TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// Returns a socket with the number and the name, as the process takes it over.
fn handed(number: i32, name: &str, socket: impl Into<OwnedFd>) -> HandedDescriptor {
    HandedDescriptor::of(number, name, socket.into()).unwrap()
}

fn tcp() -> (TcpListener, String) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    (socket, address)
}

/// A Unix socket, whose file is removed with this value.
struct UnixFile(PathBuf);

impl UnixFile {
    fn new() -> (Self, UnixListener) {
        let name = random::base62(8).unwrap();
        let path = std::env::temp_dir().join(format!("bh-handed-{name}"));
        let socket = UnixListener::bind(&path).unwrap();
        (Self(path), socket)
    }

    fn settings(&self) -> UnixSettings {
        let (path, user, group) = (self.0.clone(), None, None);
        let (is_trusted_proxy, opens_metrics) = (false, false);
        UnixSettings { path, mode: 0o600, user, group, is_trusted_proxy, opens_metrics }
    }
}

impl Drop for UnixFile {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).unwrap();
    }
}

/// A configuration with the API at `api` and the scheduler at `scheduler`.
fn config(api: &str, scheduler: Option<&str>) -> Config {
    let scheduler = scheduler.map(|address| ListenerConfig::of_scheduler(address).unwrap());
    Config { scheduler, ..Config::at(api, Path::new("/data")) }
}

async fn assign(config: &Config, handed: Vec<HandedDescriptor>) -> Result<[i32; 3], String> {
    let SocketsByListener { api, scheduler } = HandedSockets(handed).assign(config).await?;
    let number = |socket: Option<HandedSocket<TcpListener>>| socket.map_or(0, |it| it.number);
    Ok([number(api.tcp), api.unix.map_or(0, |it| it.number), number(scheduler.tcp)])
}

#[tokio::test]
async fn sockets_are_assigned_by_name_in_any_order() {
    let (file, unix) = UnixFile::new();
    let mut config = config("192.0.2.1:1", Some("192.0.2.1:2"));
    config.listener.unix = Some(file.settings());
    let sockets =
        vec![handed(3, "scheduler", tcp().0), handed(4, "api", unix), handed(5, "api", tcp().0)];
    assert_eq!(assign(&config, sockets).await, Ok([5, 4, 3]));
}

#[tokio::test]
async fn unnamed_sockets_are_assigned_by_address() {
    let ((api, at_api), (scheduler, at_scheduler)) = (tcp(), tcp());
    let (file, unix) = UnixFile::new();
    let mut config = config(&at_api, Some(&at_scheduler));
    config.listener.unix = Some(file.settings());
    let name = "bulkhead.socket";
    let sockets = vec![handed(3, name, unix), handed(4, name, scheduler), handed(5, "", api)];
    assert_eq!(assign(&config, sockets).await, Ok([5, 3, 4]));
    let (socket, address) = tcp();
    let name = address.replace("127.0.0.1", "localhost");
    let sockets = vec![handed(3, "", socket)];
    assert_eq!(assign(&self::config(&name, None), sockets).await, Ok([3, 0, 0]));
}

#[tokio::test]
async fn only_socket_belongs_to_only_listener() {
    let one = || vec![handed(3, "unknown", tcp().0)];
    assert_eq!(assign(&config("127.0.0.1:1", None), one()).await, Ok([3, 0, 0]));
    let two_listeners = config("127.0.0.1:1", Some("127.0.0.1:2"));
    let error = assign(&two_listeners, one()).await.unwrap_err();
    assert!(error.contains("descriptor 3 (127.0.0.1:") && error.contains("=api"), "{error}");
    let in_dev_mode = Config { scheduler_is_optional: true, ..two_listeners };
    assert_eq!(assign(&in_dev_mode, one()).await, Ok([3, 0, 0]));
    let two = vec![handed(3, "", tcp().0), handed(4, "", tcp().0)];
    let error = assign(&config("127.0.0.1:1", None), two).await.unwrap_err();
    assert!(error.contains("fits no listener") && error.contains("address = "), "{error}");
    assert_eq!(assign(&in_dev_mode, Vec::new()).await, Ok([0, 0, 0]));
}

#[tokio::test]
async fn sockets_without_their_listener_are_refused() {
    let api_alone = config("127.0.0.1:1", None);
    let (_file, unix) = UnixFile::new();
    for (socket, parts) in [
        (handed(3, "scheduler", tcp().0), ["descriptor 3 (127.0.0.1:", "listener \"scheduler\""]),
        (handed(4, "api", unix), ["descriptor 4 (/", "listener \"unix\""]),
        (handed(5, "scheduler", UnixFile::new().1), ["descriptor 5", "listener \"scheduler\""]),
    ] {
        let error = assign(&api_alone, vec![socket]).await.unwrap_err();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
    let twice = vec![handed(3, "api", tcp().0), handed(4, "api", tcp().0)];
    let error = assign(&api_alone, twice).await.unwrap_err();
    assert!(error.contains("descriptor 4") && error.contains("descriptor 3"), "{error}");
}

#[test]
fn only_listening_stream_sockets_are_taken() {
    let (listener, address) = tcp();
    let dialled: OwnedFd = TcpStream::connect(address).unwrap().into();
    let datagrams: OwnedFd = UdpSocket::bind("127.0.0.1:0").unwrap().into();
    let file: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
    for (descriptor, reason) in
        [(dialled, "does not listen"), (datagrams, "not a stream"), (file, "cannot be examined")]
    {
        let error = HandedDescriptor::of(7, "api", descriptor).err().unwrap();
        assert!(error.contains("descriptor 7") && error.contains(reason), "{error}");
    }
    drop(listener);
}

/// Returns what the environment announces to the process 7.
fn announced(variables: &[(&str, &str)]) -> Result<Option<Announcement>, String> {
    let find = |wanted: &str| {
        variables.iter().find(|(name, _)| *name == wanted).map(|(_, value)| (*value).into())
    };
    Announcement::read(&find, 7)
}

#[test]
fn sockets_of_another_process_are_left_alone() {
    let all = [("LISTEN_PID", "7"), ("LISTEN_FDS", "2"), ("LISTEN_FDNAMES", "api:scheduler")];
    let names = vec!["api".to_owned(), "scheduler".to_owned()];
    assert_eq!(announced(&all), Ok(Some(Announcement { count: 2, names })));
    assert_eq!(announced(&all[..2]), Ok(Some(Announcement { count: 2, names: Vec::new() })));
    for variables in [&all[1..], &[("LISTEN_PID", "8"), all[1], all[2]], &all[..1], &[]] {
        assert_eq!(announced(variables), Ok(None), "{variables:?}");
    }
}

#[test]
fn malformed_announcements_are_refused_by_variable() {
    for count in ["two", "-1", "2147483647", ""] {
        let error = announced(&[("LISTEN_PID", "7"), ("LISTEN_FDS", count)]).unwrap_err();
        assert!(error.contains("LISTEN_FDS") && error.contains("LISTEN_PID"), "{error}");
    }
    let names = [("LISTEN_PID", "7"), ("LISTEN_FDS", "2"), ("LISTEN_FDNAMES", "api")];
    let error = announced(&names).unwrap_err();
    assert!(error.contains("LISTEN_FDNAMES has 1 names for the 2"), "{error}");
}
