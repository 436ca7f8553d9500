//! The size of a database plugin's answer, which counts as held for the engine's call.
//!
//! This file prevents a plugin from taking memory of the host that no limit of the mount counts.

use crate::bindings::secrets_engine::bulkhead::plugin::database_types::{
    Account, Configured, CreatedUser, Refusal,
};
use crate::outcome::EntryResult;

/// An answer of a nested plugin, which the host holds on its way to the engine.
pub(crate) trait NestedAnswer {
    /// Returns the bytes of all texts.
    fn bytes(&self) -> usize;
}

impl NestedAnswer for () {
    fn bytes(&self) -> usize {
        0
    }
}

impl NestedAnswer for Option<bool> {
    fn bytes(&self) -> usize {
        0
    }
}

impl NestedAnswer for Option<u32> {
    fn bytes(&self) -> usize {
        0
    }
}

impl NestedAnswer for Vec<String> {
    fn bytes(&self) -> usize {
        self.iter().map(String::len).sum()
    }
}

impl NestedAnswer for String {
    fn bytes(&self) -> usize {
        self.len()
    }
}

impl NestedAnswer for Configured {
    fn bytes(&self) -> usize {
        let listed = self.targets.iter().chain(&self.warnings).map(String::len);
        listed.sum::<usize>() + self.settings.len() + pair_bytes(&self.ext)
    }
}

impl NestedAnswer for CreatedUser {
    fn bytes(&self) -> usize {
        let accounts: usize = self.accounts.iter().map(account_bytes).sum();
        self.username.len() + accounts + pair_bytes(&self.ext)
    }
}

impl NestedAnswer for Refusal {
    fn bytes(&self) -> usize {
        let said = self.setting.iter().chain(&self.vendor_code).map(String::len);
        said.sum::<usize>() + self.code.len() + pair_bytes(&self.ext)
    }
}

fn account_bytes(account: &Account) -> usize {
    let host = account.host.as_ref().map_or(0, String::len);
    account.name.len() + host + account.identity.len() + pair_bytes(&account.ext)
}

fn pair_bytes(pairs: &[(String, String)]) -> usize {
    pairs.iter().map(|(name, value)| name.len() + value.len()).sum()
}

/// Returns the bytes of the answer or refusal; 0 for a call that was cut or trapped.
pub(crate) fn answer_bytes<T: NestedAnswer>(outcome: &EntryResult<T, Refusal>) -> usize {
    match outcome {
        Ok(Ok(Ok(answer))) => answer.bytes(),
        Ok(Ok(Err(refused))) => refused.bytes(),
        Ok(Err(_)) | Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_counts_all_texts_of_answers_and_refusals() {
        let ext = vec![("ab".to_owned(), "cde".to_owned())];
        let configured = Configured {
            settings: "x".repeat(10),
            targets: vec!["x".repeat(20); 3],
            warnings: vec!["x".to_owned()],
            ext: ext.clone(),
        };
        assert_eq!(answer_bytes(&Ok(Ok(Ok(configured)))), 10 + 60 + 1 + 5);
        let account = Account {
            name: "xxx".to_owned(),
            host: Some("%".to_owned()),
            identity: "xxxxxxx".to_owned(),
            ext: ext.clone(),
        };
        let user =
            CreatedUser { username: "xx".to_owned(), accounts: vec![account; 2], ext: ext.clone() };
        assert_eq!(answer_bytes(&Ok(Ok(Ok(user)))), 2 + 2 * (3 + 1 + 7 + 5) + 5);
        let refusal = Refusal {
            code: "xx".to_owned(),
            setting: Some("xxx".to_owned()),
            statement: None,
            vendor_code: Some("xxxx".to_owned()),
            ext,
        };
        assert_eq!(answer_bytes::<()>(&Ok(Ok(Err(refusal)))), 2 + 3 + 4 + 5);
        assert_eq!(answer_bytes::<()>(&Ok(Ok(Ok(())))), 0);
        assert_eq!(answer_bytes(&Ok(Ok(Ok(vec!["xx".to_owned(), "xxx".to_owned()])))), 5);
    }
}
