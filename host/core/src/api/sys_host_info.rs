//! `sys/host-info`: processors, memory and load of the machine, from `/proc`.
//!
//! The answer tells much about the machine, so the endpoint needs `sudo`.

use super::call::PermittedCall;
use super::reply::{Reply, ReplyBody};
use super::row::{Endpoint, read};
use bulkhead_access::timestamp::timestamp;
use bulkhead_wire::failure::Failure;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Clock ticks in a second in the files of `/proc`, on every machine that the server runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// The name of a member, the file of the kernel, and the function that reads the file.
type HostInfoSource = (&'static str, &'static str, fn(&str) -> Value);

/// Returns the rows of this file.
pub(super) fn rows() -> Vec<Endpoint> {
    let about = "processors, memory and load of the machine";
    vec![read("sys/host-info", about).needs_sudo().handled_by(show)]
}

/// `GET sys/host-info`. A part that the machine does not show is left out, with a warning.
async fn show(call: PermittedCall<'_>) -> Result<Reply, Failure> {
    let mut data = Map::new();
    let mut warnings = Vec::new();
    let parts: [HostInfoSource; 4] = [
        ("cpu", "/proc/cpuinfo", processors),
        ("cpu_times", "/proc/stat", processor_times),
        ("memory", "/proc/meminfo", memory),
        ("host", "/proc/uptime", host),
    ];
    for (name, path, parse) in parts {
        match tokio::fs::read_to_string(path).await {
            Ok(text) => drop(data.insert(name.to_owned(), parse(&text))),
            Err(error) => warnings.push(format!("{name} is left out: {path}: {}", error.kind())),
        }
    }
    if let Some(Value::Object(host)) = data.get_mut("host") {
        host.insert("hostname".to_owned(), json!(hostname().await));
    }
    data.insert("timestamp".to_owned(), timestamp(call.core.store.now() / 1_000));
    Ok(Reply::from(ReplyBody::Data(data)).with_warnings(warnings))
}

/// Returns the name of the machine; empty if the kernel does not show the name.
pub(super) async fn hostname() -> String {
    let name = tokio::fs::read_to_string("/proc/sys/kernel/hostname").await;
    name.map(|name| name.trim().to_owned()).unwrap_or_default()
}

/// Parses `/proc/cpuinfo`: a paragraph for each processor.
fn processors(text: &str) -> Value {
    let paragraphs = text.trim().split("\n\n").map(|paragraph| {
        let known = named_lines(paragraph);
        let word = |name: &str| known.get(name).copied().unwrap_or_default();
        json!({
            "cpu": word("processor").parse::<u64>().unwrap_or_default(),
            "vendorId": word("vendor_id"),
            "family": word("cpu family"),
            "model": word("model"),
            "modelName": word("model name"),
            "mhz": word("cpu MHz").parse::<f64>().unwrap_or_default(),
            "physicalId": word("physical id"),
            "coreId": word("core id"),
            "cores": word("cpu cores").parse::<u64>().unwrap_or_default(),
            "flags": word("flags").split_whitespace().collect::<Vec<_>>(),
            "microcode": word("microcode"),
        })
    });
    paragraphs.collect()
}

/// Parses `/proc/stat`: seconds of each processor by their use.
fn processor_times(text: &str) -> Value {
    let names = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest"];
    let lines = text.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "));
    let shown = lines.map(|line| {
        let mut words = line.split_whitespace();
        let mut times = Map::new();
        times.insert("cpu".to_owned(), json!(words.next()));
        for (name, ticks) in names.iter().zip(words) {
            let seconds = ticks.parse::<f64>().unwrap_or_default() / TICKS_PER_SECOND;
            times.insert((*name).to_owned(), json!(seconds));
        }
        Value::Object(times)
    });
    shown.collect()
}

/// Parses `/proc/meminfo`: bytes.
fn memory(text: &str) -> Value {
    let known = named_lines(text);
    let bytes = |name: &str| {
        let kilobytes = known.get(name).and_then(|value| value.split_whitespace().next());
        kilobytes.and_then(|digits| digits.parse::<u64>().ok()).unwrap_or_default() * 1_024
    };
    let (total, available) = (bytes("MemTotal"), bytes("MemAvailable"));
    json!({
        "total": total,
        "available": available,
        "used": total.saturating_sub(available),
        "free": bytes("MemFree"),
        "buffers": bytes("Buffers"),
        "cached": bytes("Cached"),
        "swapTotal": bytes("SwapTotal"),
        "swapFree": bytes("SwapFree"),
    })
}

/// Describes the operating system; `text` is `/proc/uptime`.
fn host(text: &str) -> Value {
    let uptime = text.split('.').next().and_then(|digits| digits.parse::<u64>().ok());
    json!({
        "uptime": uptime.unwrap_or_default(),
        "os": std::env::consts::OS,
        "kernelArch": std::env::consts::ARCH,
    })
}

/// Parses lines of `name : value`.
fn named_lines(text: &str) -> BTreeMap<&str, &str> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (name.trim(), value.trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_the_kernel_become_members() {
        let cpu =
            "processor\t: 0\nvendor_id\t: X\ncpu MHz\t\t: 2100.5\nflags\t: a b\n\nprocessor\t: 1\n";
        let shown = processors(cpu);
        assert_eq!((&shown[0]["mhz"], &shown[0]["flags"][1]), (&json!(2100.5), &json!("b")));
        assert_eq!(shown[1]["cpu"], 1);
        let times = processor_times("cpu  9 9\ncpu0 150 20 30 40\nintr 5\n");
        assert_eq!((&times[0]["user"], times.as_array().unwrap().len()), (&json!(1.5), 1));
        let memory = memory("MemTotal: 8 kB\nMemAvailable: 3 kB\n");
        assert_eq!((&memory["total"], &memory["used"]), (&json!(8_192), &json!(5_120)));
    }
}
