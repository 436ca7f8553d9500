//! Secrets engine for short notes: a shorter form of the example in the SDK's documentation.

use bulkhead_sdk::table::{Field, Row, delete, list, read, write};
use bulkhead_sdk::{Answer, Call, Failure, Host, MountedPlugin, SecretsEngine, stored};
use serde::{Deserialize, Serialize};

/// The secrets engine.
pub struct Notes;

impl MountedPlugin for Notes {
    const NAME: &'static str = "notes";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SCHEMA: u32 = 1;
    const ABOUT: &'static str = "Keeps short notes.";
    const TABLE: &'static [Row] = &[
        read("notes/{name}", show).about("Reads a note.").fields(&[NAME]),
        write("notes/{name}", keep)
            .about("Writes a note.")
            .fields(&[NAME, NOTE])
            .existence("note/{name}"),
        delete("notes/{name}", forget).about("Removes a note.").fields(&[NAME]),
        list("notes", "note/").about("Lists the names of notes."),
    ];
}

impl SecretsEngine for Notes {}

const NAME: &[Field] = &[Field::name_of("name", "the note's name")];
const NOTE: &[Field] = &[Field::text("text", "text to remember").required().secret()];

#[derive(Default, Serialize, Deserialize)]
struct Note {
    text: String,
}

stored!(Note, "note", reads_stored_notes);

fn show(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    let note: Note = host.storage().get(&key(call))?.ok_or_else(Failure::absent)?;
    Answer::data(&note)
}

fn keep(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    // An update without a field keeps the stored value.
    let mut note: Note = host.storage().get(&key(call))?.unwrap_or_default();
    call.merge("text", &mut note.text)?;
    host.storage().put(&key(call), &note)?;
    Ok(Answer::nothing())
}

fn forget(host: &dyn Host, call: &Call) -> Result<Answer, Failure> {
    host.storage().delete(&key(call))?;
    Ok(Answer::nothing())
}

fn key(call: &Call) -> String {
    format!("note/{}", call.text("name"))
}

bulkhead_sdk::export_secrets_engine!(Notes);

#[cfg(test)]
mod tests {
    use super::*;
    use bulkhead_sdk::testbed::TestBed;
    use serde_json::json;

    #[test]
    fn update_without_text_keeps_the_note() {
        let bed = TestBed::<Notes>::new().unwrap();
        bed.write("notes/milk", &json!({ "text": "two bottles" })).unwrap();
        bed.write("notes/milk", &json!({})).unwrap();
        assert_eq!(bed.read("notes/milk").unwrap().data["text"], "two bottles");
        let refused = bed.write("notes/eggs", &json!({})).err().unwrap();
        assert_eq!(refused.message, "text is required: text to remember");
    }
}
