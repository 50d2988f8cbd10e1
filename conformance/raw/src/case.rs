//! The cases, as the files of `cases/` have them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// One case: a script of what goes out on which connection, and why the answer matters.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// Unique, in words joined by dashes; the file's name goes before it, the version after it.
    pub name: String,
    /// The rule that the case is about; shown with a difference.
    pub why: String,
    /// The topics that exist before the first step: `name`, and what CreateTopics may say of it.
    #[serde(default)]
    pub topics: Vec<Map<String, Value>>,
    /// Whether `$aged` is used: a topic whose leader epoch has already moved.
    #[serde(default)]
    pub aged: bool,
    /// The versions of steps that do not say theirs. The case runs once for each.
    #[serde(default)]
    pub versions: Vec<i16>,
    /// Whether the case runs, in its last version, with the broker killed and started again before each of its steps, too.
    #[serde(default)]
    pub restarts: bool,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// One step of a case.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Step {
    /// Sends a request and waits for its answer.
    Call(Request),
    /// Sends a request.
    Send(Request),
    /// Produces one batch, and waits for the answer.
    Produce(Produce),
    /// Fetches from one partition, and waits for the answer.
    Fetch(Fetch),
    /// Sends bytes that are not a request.
    Bytes(Bytes),
    /// Waits for the next `count` answers, or for the end of the connection.
    Receive {
        /// How many.
        #[serde(default = "one")]
        count: usize,
        /// The connection.
        #[serde(default)]
        on: Connected,
        /// See [`Request::save`].
        #[serde(default)]
        save: Map<String, Value>,
    },
    /// Kills the broker, starts it again, and waits for the coordinators of `$g` and `$x`. What follows may be refused: nothing only
    /// prepares any more.
    Restart,
    /// Tells whether the connection is open with nothing to read.
    Quiet {
        /// The connection.
        #[serde(default)]
        on: Connected,
    },
}

/// A request, possibly mangled.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(crate) struct Request {
    /// The schema's name without `Request`.
    pub api: String,
    /// The version of the body; the case's when not given.
    pub version: Option<i16>,
    /// The fields that differ from their defaults.
    pub body: Value,
    /// The connection.
    pub on: Connected,
    /// Fields of the header that differ from what is right.
    pub header: Map<String, Value>,
    /// The version of the answer's body, when it is not the request's.
    pub answer_version: Option<i16>,
    /// Values to remember: the variable's name and the JSON pointer into the answer's body.
    pub save: Map<String, Value>,
    /// Asks again until the answer's body has these values at these JSON pointers; the earlier answers do not count.
    pub until: Map<String, Value>,
    /// A step that only prepares: its answer is not compared, but must not be an error.
    pub quiet: bool,
    /// Whether no answer is due (produce with `acks=0`).
    pub unanswered: bool,
    /// Bytes to take off the end of the frame.
    pub cut: usize,
    /// Shows the records of the answer decompressed.
    pub unpack: bool,
    /// Hexadecimal bytes to add to the end of the frame.
    pub tail: String,
    /// The length to put before the frame, when it is not the frame's own.
    pub length: Option<i32>,
    /// Sends the frame in writes of so many bytes; the last takes the rest.
    pub pieces: Vec<usize>,
}

/// Bytes that are not a request.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bytes {
    /// As text.
    #[serde(default)]
    pub text: String,
    /// As hexadecimal digits.
    #[serde(default)]
    pub hex: String,
    /// The connection.
    #[serde(default)]
    pub on: Connected,
    /// The API whose answer in version 0 is due.
    pub answer: Option<String>,
}

/// A produce request of one batch.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Produce {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The batch or batches; see [`crate::batch`].
    pub batch: Value,
    /// `acks` of the request.
    pub acks: i16,
    /// The version; the case's when not given, and 9 for a step that only prepares.
    pub version: Option<i16>,
    /// The connection.
    pub on: Connected,
    /// See [`Request::quiet`].
    pub quiet: bool,
    /// Does not wait for the answer; with `acks` 0 there is none.
    pub send: bool,
    /// More fields of the request.
    pub body: Map<String, Value>,
}

impl Default for Produce {
    fn default() -> Self {
        Self {
            topic: "$t".to_owned(),
            partition: 0,
            batch: Value::Null,
            acks: -1,
            version: None,
            on: Connected::default(),
            quiet: false,
            send: false,
            body: Map::new(),
        }
    }
}

impl Produce {
    /// The version of records that a case needs before its own request.
    const PREPARING_VERSION: i16 = 9;

    /// The request, and whether to wait for its answer.
    pub(crate) fn step(&self) -> Step {
        let partition = json!({ "index": self.partition, "records": self.batch });
        let topics = json!([{ "name": self.topic, "partitionData": [partition] }]);
        let mut body = json!({ "acks": self.acks, "timeoutMs": 10_000, "topicData": topics });
        body.as_object_mut().into_iter().for_each(|map| map.extend(self.body.clone()));
        let request = Request {
            api: "Produce".to_owned(),
            version: self.version.or(self.quiet.then_some(Self::PREPARING_VERSION)),
            body,
            on: self.on.clone(),
            quiet: self.quiet,
            unanswered: self.acks == 0,
            ..Request::default()
        };
        if self.send { Step::Send(request) } else { Step::Call(request) }
    }
}

/// A fetch request of one partition, without waiting for data and without a session unless `body` says so.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Fetch {
    /// The topic, a variable; its id goes along.
    pub topic: String,
    /// Fields of the partition.
    pub at: Map<String, Value>,
    /// Fields of the request.
    pub body: Map<String, Value>,
    /// The version; the case's when not given.
    pub version: Option<i16>,
    /// The connection.
    pub on: Connected,
    /// Does not wait for the answer.
    pub send: bool,
    /// See [`Request::quiet`].
    pub quiet: bool,
    /// See [`Request::save`].
    pub save: Map<String, Value>,
    /// See [`Request::unpack`].
    pub unpack: bool,
}

impl Default for Fetch {
    fn default() -> Self {
        Self {
            topic: "$t".to_owned(),
            at: Map::new(),
            body: Map::new(),
            version: None,
            on: Connected::default(),
            send: false,
            quiet: false,
            save: Map::new(),
            unpack: false,
        }
    }
}

impl Fetch {
    /// The request, and whether to wait for its answer.
    pub(crate) fn step(&self) -> Step {
        let mut partition = json!({ "partitionMaxBytes": 1 << 20 });
        partition.as_object_mut().into_iter().for_each(|map| map.extend(self.at.clone()));
        let id = format!("$id:{}", self.topic.trim_start_matches('$'));
        let topics = json!([{ "topic": self.topic, "topicId": id, "partitions": [partition] }]);
        let mut body = json!({ "maxBytes": 10 << 20, "topics": topics });
        body.as_object_mut().into_iter().for_each(|map| map.extend(self.body.clone()));
        let request = Request {
            api: "Fetch".to_owned(),
            version: self.version,
            body,
            on: self.on.clone(),
            quiet: self.quiet,
            save: self.save.clone(),
            unpack: self.unpack,
            ..Request::default()
        };
        if self.send { Step::Send(request) } else { Step::Call(request) }
    }
}

fn one() -> usize {
    1
}

/// The name of a connection; one that was not used yet is opened.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct Connected(pub String);

impl Default for Connected {
    fn default() -> Self {
        Self("a".to_owned())
    }
}

impl Case {
    /// The case with a restart before each step that has something behind it.
    fn with_restarts(&self, name: &str) -> impl Iterator<Item = Self> {
        let first = self.steps.iter().position(|step| !step.only_asks()).unwrap_or(self.steps.len());
        (first + 1..self.steps.len()).map(move |at| {
            let mut steps = self.steps.clone();
            steps.insert(at, Step::Restart);
            let versions = self.versions.last().copied().into_iter().collect();
            Self { name: format!("{name}/restart-before-{}", at + 1), versions, steps, ..self.clone() }
        })
    }

    /// Whether the broker must be one that can be started again.
    pub(crate) fn has_restart(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Restart))
    }
}

impl Step {
    /// Whether the step changes nothing, for it only waits for a coordinator.
    fn only_asks(&self) -> bool {
        let Self::Call(request) = self else { return false };
        request.quiet && ["FindCoordinator", "DescribeGroups"].contains(&request.api.as_str())
    }
}

/// Every case of a folder of case files, in order of file and place, once for each of its versions.
pub(crate) fn load(folder: &Path) -> Result<Vec<Case>> {
    let mut paths: Vec<_> =
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    paths.sort();
    let mut all: Vec<Case> = Vec::new();
    for path in paths {
        let context = || path.display().to_string();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).with_context(context)?;
        let cases: Vec<Case> = serde_json::from_str(&fs::read_to_string(&path)?).with_context(context)?;
        for case in cases {
            let name = format!("{stem}/{}", case.name);
            if case.versions.is_empty() {
                all.push(Case { name: name.clone(), ..case.clone() });
            }
            for version in &case.versions {
                all.push(Case {
                    name: format!("{name}/v{version}"),
                    versions: vec![*version],
                    ..case.clone()
                });
            }
            if case.restarts {
                all.extend(case.with_restarts(&name));
            }
        }
    }
    for (index, case) in all.iter().enumerate() {
        ensure!(
            all[..index].iter().all(|other| other.name != case.name),
            "two cases are called {}",
            case.name
        );
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_cases_are_about_150_or_more() {
        let cases = load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("cases")).unwrap();
        assert!(cases.len() >= 150, "{}", cases.len());
        assert!(cases.iter().all(|case| case.why.ends_with('.') && !case.steps.is_empty()));
    }
}
