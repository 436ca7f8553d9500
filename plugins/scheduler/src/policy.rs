//! ACL policies, as stored and as shown.

use crate::body;
use crate::content_hash::content_hash;
use crate::names::{LONGEST_TEXT, is_name, is_short_text};
use crate::policy_rules;
use crate::refusal::{ApiRefusal, RecordProblems};
use bulkhead_sdk::host::Entry;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A policy as stored under `policy/<name>`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Policy {
    /// Description for human readers.
    pub(crate) description: String,
    /// Rules in HCL or JSON, as given.
    pub(crate) rules: String,
    /// Jobs whose workloads have the policy without a token's link.
    pub(crate) job_acl: Option<JobAcl>,
}

bulkhead_sdk::stored!(Policy, "policy", reads_stored_policies);

/// The workloads that have a policy. An empty level means all workloads of the level above.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct JobAcl {
    /// Task group of the job.
    pub(crate) group: String,
    /// Job of the namespace.
    #[serde(rename = "JobID")]
    pub(crate) job_id: String,
    /// Namespace.
    pub(crate) namespace: String,
    /// Task of the group.
    pub(crate) task: String,
}

/// A policy in a list. Keys are in alphabetical order.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct PolicyStub {
    create_index: u64,
    description: String,
    hash: String,
    #[serde(rename = "JobACL")]
    job_acl: Option<JobAcl>,
    modify_index: u64,
    name: String,
}

/// A single policy as shown: the stub, the rules, and their parsed form.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ShownPolicy {
    #[serde(flatten)]
    stub: PolicyStub,
    rules: String,
    #[serde(rename = "RulesJSON")]
    rules_json: Value,
}

impl Policy {
    /// Returns the storage key of a policy.
    #[must_use]
    pub(crate) fn key(name: &str) -> String {
        format!("policy/{name}")
    }

    /// Parses the policy `name` in a request's body.
    ///
    /// # Errors
    /// 400 for a body that is not a policy, or names another policy.
    pub(crate) fn read(name: &str, bytes: &[u8]) -> Result<Self, ApiRefusal> {
        let fields = body::object(bytes)?;
        if body::text(&fields, "Name")? != name {
            return Err(ApiRefusal::invalid("ACL policy name does not match request path"));
        }
        Ok(Self {
            description: body::text(&fields, "Description")?,
            rules: body::text(&fields, "Rules")?,
            job_acl: JobAcl::read(&fields)?,
        })
    }

    /// Checks the policy under this name.
    ///
    /// # Errors
    /// 400 with a list of all problems.
    pub(crate) fn check(&self, name: &str) -> Result<(), ApiRefusal> {
        let mut problems = RecordProblems::default();
        problems.demand(is_name(name), format!("invalid name '{name}'"));
        if let Err(why) = policy_rules::check(&self.rules) {
            problems.demand(false, format!("failed to parse rules: {why}"));
        }
        problems.demand(
            is_short_text(&self.description),
            format!("description longer than {LONGEST_TEXT}"),
        );
        if let Some(job_acl) = &self.job_acl {
            job_acl.check(&mut problems);
        }
        problems.refuse("policy 0 invalid")
    }

    pub(crate) fn hash(&self, name: &str) -> String {
        let own = [name, &self.description, &self.rules].into_iter();
        let job = self.job_acl.iter().flat_map(|job| {
            [&job.namespace, &job.job_id, &job.group, &job.task].map(String::as_str)
        });
        content_hash(own.chain(job))
    }
}

impl JobAcl {
    fn read(fields: &Map<String, Value>) -> Result<Option<Self>, ApiRefusal> {
        let Some(value) = fields.get("jobacl").filter(|value| !value.is_null()) else {
            return Ok(None);
        };
        let job = body::member("JobACL", value)?;
        Ok(Some(Self {
            group: body::text(job, "Group")?,
            job_id: body::text(job, "JobID")?,
            namespace: body::text(job, "Namespace")?,
            task: body::text(job, "Task")?,
        }))
    }

    /// Checks that each level has the level above.
    fn check(&self, problems: &mut RecordProblems) {
        let levels = [
            ("namespace", &self.namespace),
            ("job ID", &self.job_id),
            ("group", &self.group),
            ("task", &self.task),
        ];
        for pair in levels.windows(2) {
            let [(above, of_above), (below, of_below)] = pair else { continue };
            let holds = of_below.is_empty() || !of_above.is_empty();
            problems.demand(holds, format!("{above} must be set to set {below}"));
        }
    }
}

impl PolicyStub {
    /// Creates the stub of the policy `name`, with the indexes of its creation and last change.
    #[must_use]
    pub(crate) fn of(name: &str, entry: Entry<Policy>) -> Self {
        let hash = entry.value.hash(name);
        Self {
            create_index: entry.created,
            description: entry.value.description,
            hash,
            job_acl: entry.value.job_acl,
            modify_index: entry.modified,
            name: name.to_owned(),
        }
    }
}

impl ShownPolicy {
    /// Creates the shown form of the policy `name`, with the indexes of its creation and last
    /// change.
    #[must_use]
    pub(crate) fn of(name: &str, entry: Entry<Policy>) -> Self {
        let rules = entry.value.rules.clone();
        let rules_json = policy_rules::shown(&rules);
        Self { stub: PolicyStub::of(name, entry), rules, rules_json }
    }
}
