//! Schedules: cron expressions, and their next due time in store time.

pub use bulkhead_schedule::Schedule;
