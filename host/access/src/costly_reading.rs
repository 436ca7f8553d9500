//! A reading of the store that monitoring repeats, such as a count of many rows.
//!
//! This file prevents monitoring from keeping a reader of the database busy: one reading runs at a
//! time, and a costly reading is used again for twenty times as long as the reading took.

use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Life of a costly reading, as a multiple of the reading's duration.
const LIFE_FACTOR: u32 = 20;

/// The last reading of one kind.
#[derive(Default)]
pub(crate) struct CostlyReading<T> {
    /// The reading, and the time until which the reading is used. The lock makes other callers wait
    /// for a reading instead of reading.
    last: Mutex<Option<(T, Instant)>>,
}

impl<T: Clone> CostlyReading<T> {
    /// Returns the last reading, or reads anew. A reading that is not costly is not used again.
    ///
    /// # Errors
    /// The error of `reading`, which is not used again.
    pub(crate) async fn read<E>(
        &self,
        reading: impl Future<Output = Result<T, E>>,
        is_costly: impl FnOnce(&T) -> bool,
    ) -> Result<T, E> {
        let mut last = self.last.lock().await;
        let began = Instant::now();
        if let Some((found, until)) = &*last
            && began < *until
        {
            return Ok(found.clone());
        }
        let found = reading.await?;
        let life: Duration = began.elapsed().saturating_mul(LIFE_FACTOR);
        *last = is_costly(&found).then(|| (found.clone(), Instant::now() + life));
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    async fn read(reading: &CostlyReading<u32>, found: u32, is_costly: bool) -> u32 {
        let found = reading.read(async { Ok::<_, Infallible>(found) }, |_| is_costly).await;
        found.unwrap_or_else(|never| match never {})
    }

    #[tokio::test]
    async fn costly_reading_is_used_again_for_a_while() {
        let reading = CostlyReading::default();
        assert_eq!(read(&reading, 1, false).await, 1);
        assert_eq!(*reading.last.lock().await, None, "a cheap reading is not used again");
        assert_eq!(read(&reading, 2, true).await, 2);
        let until = reading.last.lock().await.map(|(_, until)| until);
        assert!(until.is_some());
        let later = Instant::now() + Duration::from_secs(600);
        *reading.last.lock().await = Some((3, later));
        assert_eq!(read(&reading, 4, true).await, 3);
        *reading.last.lock().await = Some((3, Instant::now()));
        assert_eq!(read(&reading, 5, true).await, 5);
    }

    #[tokio::test]
    async fn failed_reading_is_repeated() {
        let reading = CostlyReading::<u32>::default();
        let failed = reading.read(async { Err("the store is closed") }, |_| true).await;
        assert_eq!(failed, Err("the store is closed"));
        assert_eq!(read(&reading, 1, false).await, 1);
    }
}
