//! The record of the hosts that a run has contacted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The number of hosts that are recorded by name.
const MAX_HOSTS: usize = 128;

/// The name for the hosts beyond that number.
const OTHER_HOSTS: &str = "(others)";

/// The decisions of one kind on a host that a program has tried to contact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostContact {
    /// The name or address that the program gave.
    pub host: String,
    /// The reason, if it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The number of connections.
    pub count: u64,
}

/// The decisions on connections, counted by host and result.
#[derive(Debug, Default)]
pub(crate) struct ContactRecord(BTreeMap<(String, Option<String>), u64>);

impl ContactRecord {
    /// Counts a decision; `refused` has the reason.
    pub(crate) fn add(&mut self, host: &str, refused: Option<&str>) {
        match refused {
            None => tracing::info!(host, "a sandboxed program connects"),
            Some(reason) => tracing::warn!(host, reason, "a sandboxed program was refused a host"),
        }
        let key = (host.to_owned(), refused.map(str::to_owned));
        let is_full = self.0.len() >= MAX_HOSTS && !self.0.contains_key(&key);
        let key = if is_full {
            (OTHER_HOSTS.to_owned(), refused.map(|_| "several reasons".to_owned()))
        } else {
            key
        };
        *self.0.entry(key).or_default() += 1;
    }

    pub(crate) fn list(&self) -> Vec<HostContact> {
        let contact = |((host, refused), count): (&(String, Option<String>), &u64)| HostContact {
            host: host.clone(),
            refused: refused.clone(),
            count: *count,
        };
        self.0.iter().map(contact).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_counted_within_limit() {
        let mut record = ContactRecord::default();
        for number in 0..1000 {
            record.add(&format!("h{number}.org"), Some("no"));
        }
        record.add("h0.org", Some("no"));
        record.add("h0.org", None);
        let list = record.list();
        assert!(list.len() <= MAX_HOSTS + 2, "{}", list.len());
        assert_eq!(list.iter().map(|contact| contact.count).sum::<u64>(), 1002);
        let twice = list.iter().find(|contact| contact.host == "h0.org").unwrap();
        assert_eq!((twice.count, twice.refused.as_deref()), (2, Some("no")));
    }
}
