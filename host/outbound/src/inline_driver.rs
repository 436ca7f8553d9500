//! A connection that is driven by the task that sends requests over it.
//!
//! The libraries for HTTP and LDAP have two halves: the handle sends requests, and the driver
//! carries requests to the socket and answers back. With the driver in a separate task, each
//! request and each answer wakes another task, which costs more than the transport. Here, both
//! halves are polled in a single task, and a half that the other half wakes is polled at once.
//!
//! This file prevents a panic of the driver from ending the process or a pool of connections: only
//! the call that sent the request fails.

use bulkhead_wire::sync;
use futures_util::FutureExt as _;
use std::future::{Future, pending, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

/// Maximum number of polls of both halves before other tasks have their turn.
const MAX_POLL_ROUNDS: usize = 16;

/// The driver of one connection. Dropping it closes the connection.
pub(crate) struct InlineDriver {
    /// `None` once the driver has ended. Requests without an answer end with it; otherwise they
    /// would wait forever.
    driver: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    woken: Arc<WakeFlag>,
    waker: Waker,
}

/// Says if a half has to be polled, and holds the waker of the polling task.
#[derive(Default)]
struct WakeFlag(Mutex<WakeState>);

#[derive(Default)]
struct WakeState {
    is_woken: bool,
    /// The task to wake; `None` while the task polls.
    task: Option<Waker>,
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = sync::lock(&self.0);
        state.is_woken = true;
        let task = state.task.take();
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
    }
}

impl WakeFlag {
    /// Begins to poll: no wake-up of the task is needed until the end.
    fn begin(&self) {
        *sync::lock(&self.0) = WakeState::default();
    }

    /// Ends polling and returns true, unless a half was woken meanwhile.
    fn end(&self, task: &Waker) -> bool {
        let mut state = sync::lock(&self.0);
        if !state.is_woken {
            state.task = Some(task.clone());
        }
        !state.is_woken
    }
}

impl InlineDriver {
    pub(crate) fn new(driver: impl Future<Output = ()> + Send + 'static) -> Self {
        let woken = Arc::new(WakeFlag::default());
        let waker = Waker::from(Arc::clone(&woken));
        // A panic counts as an end of the driver: pending requests learn that the driver is gone.
        let driver = AssertUnwindSafe(driver).catch_unwind().map(drop);
        Self { driver: Some(Box::pin(driver)), woken, waker }
    }

    /// Drives the connection until `request` is ready. If the driver ends earlier, `request` fails
    /// by itself.
    pub(crate) async fn drive_until<T>(&mut self, request: impl Future<Output = T>) -> T {
        let mut request = pin!(request);
        poll_fn(|context| self.poll(context, request.as_mut())).await
    }

    /// Drives the connection as far as possible without waiting. Returns true if the connection is
    /// still open.
    pub(crate) async fn is_open(&mut self) -> bool {
        let mut never = pin!(pending::<()>());
        poll_fn(|context| {
            let _ = self.poll(context, never.as_mut());
            Poll::Ready(())
        })
        .await;
        self.driver.is_some()
    }

    /// Returns true if the driver had not ended at the last poll.
    pub(crate) fn was_open(&self) -> bool {
        self.driver.is_some()
    }

    fn poll<T>(
        &mut self,
        context: &Context<'_>,
        mut request: Pin<&mut impl Future<Output = T>>,
    ) -> Poll<T> {
        for _ in 0..MAX_POLL_ROUNDS {
            self.woken.begin();
            let mut inner = Context::from_waker(&self.waker);
            if let Poll::Ready(answer) = request.as_mut().poll(&mut inner) {
                return Poll::Ready(answer);
            }
            let driven = self.driver.as_mut().map(|driver| driver.as_mut().poll(&mut inner));
            if driven.is_some_and(|polled| polled.is_ready()) {
                // Dropping the driver wakes the requests without an answer.
                self.driver = None;
            }
            if self.woken.end(context.waker()) {
                return Poll::Pending;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::{mpsc, oneshot};

    /// A driver that answers each number with its double, and ends at 0 and with a panic at 13.
    fn doubling() -> (mpsc::UnboundedSender<(u32, oneshot::Sender<u32>)>, InlineDriver) {
        let (sender, mut requests) = mpsc::unbounded_channel::<(u32, oneshot::Sender<u32>)>();
        let driver = async move {
            while let Some((number, answer)) = requests.recv().await {
                assert!(number != 13, "an unlucky number");
                if number == 0 {
                    return;
                }
                let _ = answer.send(number * 2);
            }
        };
        (sender, InlineDriver::new(driver))
    }

    async fn ask(
        sender: &mpsc::UnboundedSender<(u32, oneshot::Sender<u32>)>,
        driven: &mut InlineDriver,
        number: u32,
    ) -> Option<u32> {
        let request = async {
            let (answer, answered) = oneshot::channel();
            sender.send((number, answer)).ok()?;
            answered.await.ok()
        };
        driven.drive_until(request).await
    }

    #[tokio::test]
    async fn request_is_driven_by_sending_task() {
        let (sender, mut driven) = doubling();
        for number in 1..100 {
            assert_eq!(ask(&sender, &mut driven, number + 100).await, Some(2 * number + 200));
        }
        assert!(driven.is_open().await && driven.was_open());
        // More rounds than a single turn polls.
        let many = async {
            let mut sum = 0;
            for number in 1..=100 {
                let (answer, answered) = oneshot::channel();
                sender.send((2 * number + 100, answer)).unwrap();
                sum += answered.await.unwrap();
            }
            sum
        };
        assert_eq!(driven.drive_until(many).await, 2 * (10_100 + 10_000));
    }

    #[tokio::test]
    async fn ended_or_panicked_driver_ends_pending_requests() {
        for last in [0, 13] {
            let (sender, mut driven) = doubling();
            assert_eq!(ask(&sender, &mut driven, 1).await, Some(2));
            assert_eq!(ask(&sender, &mut driven, last).await, None);
            assert!(!driven.is_open().await && !driven.was_open());
            assert_eq!(ask(&sender, &mut driven, 1).await, None);
        }
    }

    #[tokio::test]
    async fn idle_connection_end_is_seen_before_next_request() {
        let (sender, mut driven) = doubling();
        assert!(driven.is_open().await);
        drop(sender);
        assert!(driven.was_open());
        assert!(!driven.is_open().await);
    }

    #[tokio::test]
    async fn a_wake_from_another_thread_wakes_the_task() {
        let (sender, mut driven) = doubling();
        let (answer, answered) = oneshot::channel();
        let asking = tokio::spawn(async move { driven.drive_until(answered).await.ok() });
        tokio::task::yield_now().await;
        sender.send((21, answer)).unwrap();
        assert_eq!(asking.await.unwrap(), Some(42));
    }
}
