//! The pause between two attempts of a transaction with which other processes interfere.
//!
//! This file prevents processes that interfere with each other again and again because they repeat
//! at the same moment: each waits for a random time, whose maximum grows with the attempts.

use std::time::Duration;

use bulkhead_record::cipher;

/// Maximum pause before the second attempt, in milliseconds; the maximum doubles each time.
const FIRST_PAUSE: u64 = 8;
/// Number of attempts after which the maximum no longer grows: about a second.
const DOUBLINGS: u32 = 7;

/// Waits for a random time after this many attempts.
pub async fn pause_before(attempts: u32) {
    let random = cipher::random().map_or(0, u64::from_be_bytes);
    tokio::time::sleep(pause_after(attempts, random)).await;
}

/// Returns the pause after this many attempts, from a random number.
fn pause_after(attempts: u32, random: u64) -> Duration {
    let doublings = attempts.saturating_sub(1).min(DOUBLINGS);
    Duration::from_millis(random % (FIRST_PAUSE << doublings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_random_and_bounded() {
        let longest = |attempts| pause_after(attempts, (1 << 32) - 1).as_millis();
        assert_eq!([1, 2, 3].map(longest), [7, 15, 31]);
        assert_eq!([8, 9, u32::MAX].map(longest), [1_023; 3]);
        assert_eq!(pause_after(3, 5), Duration::from_millis(5));
    }
}
