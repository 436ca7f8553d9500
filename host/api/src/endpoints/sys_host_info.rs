//! `sys/host-info`: processors, memory, disks and load of the machine, from `/proc`.
//!
//! The answer tells much about the machine, so the endpoint needs `sudo`. Typed clients demand
//! every member that published servers show, so an unknown figure is 0 or empty and never absent.

mod disks;

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
    let parts: [HostInfoSource; 3] = [
        ("cpu", "/proc/cpuinfo", processors),
        ("cpu_times", "/proc/stat", processor_times),
        ("memory", "/proc/meminfo", memory),
    ];
    for (name, path, parse) in parts {
        match tokio::fs::read_to_string(path).await {
            Ok(text) => drop(data.insert(name.to_owned(), parse(&text))),
            Err(error) => warnings.push(format!("{name} is left out: {path}: {}", error.kind())),
        }
    }
    data.insert("host".to_owned(), read_host().await);
    let disks = tokio::task::spawn_blocking(disks::read_disks).await;
    data.insert("disk".to_owned(), disks.unwrap_or_default().into());
    data.insert("timestamp".to_owned(), timestamp(call.core.store.now() / 1_000));
    Ok(Reply::from(ReplyBody::Data(data)).with_warnings(warnings))
}

/// Returns the name of the machine; empty if the kernel does not show the name.
pub(super) async fn hostname() -> String {
    read_text("/proc/sys/kernel/hostname").await
}

/// Returns the text of a file, without white space at the ends; empty if the file is unreadable.
async fn read_text(path: &str) -> String {
    let text = tokio::fs::read_to_string(path).await;
    text.map(|text| text.trim().to_owned()).unwrap_or_default()
}

/// Describes the operating system. `hostId` is the number of this boot, because the machine's own
/// number is confidential.
async fn read_host() -> Value {
    let (uptime, stat) = (read_text("/proc/uptime").await, read_text("/proc/stat").await);
    let release = read_text("/etc/os-release").await;
    let release = SystemRelease::parse(&release);
    json!({
        "hostname": hostname().await,
        "uptime": whole_number(uptime.split('.').next()),
        "bootTime": whole_number(stat.lines().find_map(|line| line.strip_prefix("btime "))),
        "procs": count_processes().await,
        "os": std::env::consts::OS,
        "platform": release.platform,
        "platformFamily": release.family,
        "platformVersion": release.version,
        "kernelVersion": read_text("/proc/sys/kernel/osrelease").await,
        "kernelArch": std::env::consts::ARCH,
        "virtualizationSystem": "",
        "virtualizationRole": "",
        "hostId": read_text("/proc/sys/kernel/random/boot_id").await,
    })
}

/// Returns the number of processes: of the folders of `/proc` that a number names.
async fn count_processes() -> u64 {
    let Ok(mut folder) = tokio::fs::read_dir("/proc").await else { return 0 };
    let mut count = 0;
    while let Ok(Some(entry)) = folder.next_entry().await {
        let is_process = entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit);
        count += u64::from(is_process);
    }
    count
}

fn whole_number(text: Option<&str>) -> u64 {
    text.and_then(|digits| digits.trim().parse().ok()).unwrap_or_default()
}

/// The name of the operating system's distribution, from `os-release`.
#[derive(Debug, Default, PartialEq)]
struct SystemRelease<'a> {
    platform: &'a str,
    family: &'a str,
    version: &'a str,
}

impl<'a> SystemRelease<'a> {
    /// Parses lines of `NAME=value`, with or without quotes.
    fn parse(text: &'a str) -> Self {
        let value = |wanted: &str| {
            let pairs = text.lines().filter_map(|line| line.split_once('='));
            let found = pairs.filter(|(name, _)| *name == wanted).map(|(_, value)| value).next();
            found.unwrap_or_default().trim_matches(['"', '\''])
        };
        let (platform, like) = (value("ID"), value("ID_LIKE"));
        let family = like.split_whitespace().next().unwrap_or(platform);
        Self { platform, family, version: value("VERSION_ID") }
    }
}

/// Parses `/proc/cpuinfo`: a paragraph for each processor.
fn processors(text: &str) -> Value {
    let paragraphs = text.trim().split("\n\n").map(|paragraph| {
        let values = named_lines(paragraph);
        let word = |name: &str| values.get(name).copied().unwrap_or_default();
        json!({
            "cpu": whole_number(Some(word("processor"))),
            "vendorId": word("vendor_id"),
            "family": word("cpu family"),
            "model": word("model"),
            "stepping": whole_number(Some(word("stepping"))),
            "cacheSize": whole_number(word("cache size").split_whitespace().next()),
            "modelName": word("model name"),
            "mhz": word("cpu MHz").parse::<f64>().unwrap_or_default(),
            "physicalId": word("physical id"),
            "coreId": word("core id"),
            "cores": whole_number(Some(word("cpu cores"))),
            "flags": word("flags").split_whitespace().collect::<Vec<_>>(),
            "microcode": word("microcode"),
        })
    });
    paragraphs.collect()
}

/// Parses `/proc/stat`: seconds of each processor by their use.
fn processor_times(text: &str) -> Value {
    let names = [
        "user",
        "nice",
        "system",
        "idle",
        "iowait",
        "irq",
        "softirq",
        "steal",
        "guest",
        "guestNice",
    ];
    let lines = text.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "));
    let shown = lines.map(|line| {
        let mut words = line.split_whitespace();
        let mut times = Map::new();
        times.insert("cpu".to_owned(), json!(words.next()));
        for name in names {
            let ticks = words.next().and_then(|ticks| ticks.parse::<f64>().ok());
            let seconds = ticks.unwrap_or_default() / TICKS_PER_SECOND;
            times.insert(name.to_owned(), json!(seconds));
        }
        Value::Object(times)
    });
    shown.collect()
}

/// Members of the memory, each with the name of the kernel. Names in lower case are the names of
/// published servers; `swapTotal` and `swapFree` are the names of earlier releases.
const MEMORY: [(&str, &str); 33] = [
    ("total", "MemTotal"),
    ("available", "MemAvailable"),
    ("free", "MemFree"),
    ("active", "Active"),
    ("inactive", "Inactive"),
    ("buffers", "Buffers"),
    ("cached", "Cached"),
    ("writeback", "Writeback"),
    ("dirty", "Dirty"),
    ("writebacktmp", "WritebackTmp"),
    ("shared", "Shmem"),
    ("slab", "Slab"),
    ("sreclaimable", "SReclaimable"),
    ("sunreclaim", "SUnreclaim"),
    ("pagetables", "PageTables"),
    ("swapcached", "SwapCached"),
    ("commitlimit", "CommitLimit"),
    ("committedas", "Committed_AS"),
    ("hightotal", "HighTotal"),
    ("highfree", "HighFree"),
    ("lowtotal", "LowTotal"),
    ("lowfree", "LowFree"),
    ("swaptotal", "SwapTotal"),
    ("swapfree", "SwapFree"),
    ("swapTotal", "SwapTotal"),
    ("swapFree", "SwapFree"),
    ("mapped", "Mapped"),
    ("vmalloctotal", "VmallocTotal"),
    ("vmallocused", "VmallocUsed"),
    ("vmallocchunk", "VmallocChunk"),
    ("hugepagesize", "Hugepagesize"),
    // Kernels without these two figures are those of other systems.
    ("wired", ""),
    ("laundry", ""),
];

/// Parses `/proc/meminfo`: bytes.
fn memory(text: &str) -> Value {
    let values = named_lines(text);
    let number =
        |name: &str| whole_number(values.get(name).and_then(|value| value.split(' ').next()));
    let bytes = |name: &str| number(name).saturating_mul(1_024);
    let mut shown: Map<String, Value> =
        MEMORY.iter().map(|(name, source)| ((*name).to_owned(), json!(bytes(source)))).collect();
    let (total, available) = (bytes("MemTotal"), bytes("MemAvailable"));
    let used = total.saturating_sub(available);
    shown.insert("used".to_owned(), json!(used));
    shown.insert("usedPercent".to_owned(), json!(disks::percent_of(used, total)));
    shown.insert("hugepagestotal".to_owned(), json!(number("HugePages_Total")));
    shown.insert("hugepagesfree".to_owned(), json!(number("HugePages_Free")));
    Value::Object(shown)
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
        assert_eq!((&memory["usedPercent"], &memory["slab"]), (&json!(62.5), &json!(0)));
        let release = "NAME=\"X Y\"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID='24.04'\n";
        let seen = SystemRelease { platform: "ubuntu", family: "debian", version: "24.04" };
        assert_eq!(SystemRelease::parse(release), seen);
        assert_eq!(SystemRelease::parse(""), SystemRelease::default());
    }
}
