//! Notifications that arrive at real sockets, and malformed variables.

use super::*;
use crate::log::testing::RecordingLog;
use bulkhead_access::random;
use std::os::unix::net::UnixDatagram as BlockingDatagram;

/// A service manager's socket, and the value of `NOTIFY_SOCKET` for it.
struct ManagerSocket {
    socket: BlockingDatagram,
    variable: String,
}

impl ManagerSocket {
    fn at_path() -> Self {
        let name = random::base62(8).unwrap();
        let path = std::env::temp_dir().join(format!("bh-notify-{name}"));
        let socket = BlockingDatagram::bind(&path).unwrap();
        Self::with(socket, path.display().to_string())
    }

    fn abstract_one() -> Self {
        let name = format!("bh-notify-{}", random::base62(8).unwrap());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        Self::with(BlockingDatagram::bind_addr(&address).unwrap(), format!("@{name}"))
    }

    fn with(socket: BlockingDatagram, variable: String) -> Self {
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Self { socket, variable }
    }

    fn next(&self) -> String {
        let mut buffer = [0; 512];
        let length = self.socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }
}

impl Drop for ManagerSocket {
    fn drop(&mut self) {
        // An abstract address has no file.
        std::fs::remove_file(&self.variable).unwrap_or_default();
    }
}

/// Returns a manager with these variables, and the log of its failures.
fn manager(variables: &[(&str, &str)]) -> (ServiceManager, Arc<RecordingLog>) {
    let lines = Arc::new(RecordingLog::default());
    let log: Arc<dyn Log> = Arc::clone(&lines) as Arc<dyn Log>;
    (ServiceManager::of_environment(&environment(variables), &log), lines)
}

fn environment(variables: &[(&str, &str)]) -> impl Fn(&str) -> Option<OsString> {
    let variables: Vec<(String, OsString)> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    move |wanted| variables.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone())
}

#[tokio::test]
async fn each_notification_arrives_as_one_datagram() {
    for socket in [ManagerSocket::at_path(), ManagerSocket::abstract_one()] {
        let (manager, log) = manager(&[("NOTIFY_SOCKET", &socket.variable)]);
        manager.ready().await;
        assert_eq!(socket.next(), "READY=1");
        manager.reloading().await;
        let reload = socket.next();
        let time = reload.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
        assert!(time.parse::<u64>().unwrap() > 0, "{reload}");
        manager.stopping().await;
        assert_eq!(socket.next(), "STOPPING=1");
        assert_eq!(log.events(), [""; 0]);
    }
}

#[tokio::test]
async fn signs_of_life_come_without_end() {
    let socket = ManagerSocket::at_path();
    let variables = [("NOTIFY_SOCKET", socket.variable.as_str()), ("WATCHDOG_USEC", "2000")];
    let (manager, _) = manager(&variables);
    let limit = manager.watchdog.unwrap();
    assert_eq!(limit, Duration::from_millis(2));
    let task = tokio::spawn(manager.send_signs_of_life(limit));
    let received = tokio::task::spawn_blocking(move || [(); 3].map(|()| socket.next()));
    assert_eq!(received.await.unwrap(), ["WATCHDOG=1"; 3]);
    task.abort();
}

#[tokio::test]
async fn missing_socket_is_logged_once() {
    let (manager, log) = manager(&[("NOTIFY_SOCKET", "/nonexistent/notify")]);
    manager.ready().await;
    manager.stopping().await;
    assert_eq!(log.events(), ["service-manager-not-notified"]);
}

#[tokio::test]
async fn server_without_service_manager_notifies_nobody() {
    for variables in [&[][..], &[("NOTIFY_SOCKET", "")]] {
        let (manager, log) = manager(variables);
        assert!(manager.address.is_none(), "{variables:?}");
        manager.ready().await;
        assert_eq!(log.events(), [""; 0], "{variables:?}");
    }
    let (manager, log) = manager(&[("NOTIFY_SOCKET", "vsock:2:1234"), ("WATCHDOG_USEC", "1000")]);
    assert!(manager.address.is_none());
    manager.ready().await;
    assert_eq!(log.events(), ["service-manager-not-notified"]);
    assert_eq!(manager.watchdog, None);
}

#[test]
fn watchdog_of_another_process_is_ignored() {
    let limit = |variables: &[(&str, &str)]| watchdog(&environment(variables), 7);
    assert_eq!(limit(&[("WATCHDOG_USEC", "30000000")]), Some(Duration::from_secs(30)));
    let of = |pid| limit(&[("WATCHDOG_USEC", "30000000"), ("WATCHDOG_PID", pid)]);
    assert_eq!(of("7"), Some(Duration::from_secs(30)));
    for other in ["8", "", "seven"] {
        assert_eq!(of(other), None, "{other:?}");
    }
    for useless in ["0", "1", "-1", "soon", ""] {
        assert_eq!(limit(&[("WATCHDOG_USEC", useless)]), None, "{useless:?}");
    }
}
