//! The layers of broker configuration and where each value came from.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use super::def::{Effect, InvalidValue};
use super::{broker, ignored, suggest};

/// The prefix of environment variables: `KAAS_LOG_DIRS` is `log.dirs`.
pub const ENV_PREFIX: &str = "KAAS_";

/// Where a value came from, the weakest first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The definition table, or what the program chooses when nobody says anything.
    Default,
    /// A line of a properties file.
    File(String),
    /// An environment variable.
    Env(String),
    /// `--override key=value`.
    Override,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => write!(f, "default"),
            Origin::File(path) => write!(f, "file {path}"),
            Origin::Env(name) => write!(f, "variable {name}"),
            Origin::Override => write!(f, "--override"),
        }
    }
}

/// Why the configuration was refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A key that neither kaas nor Kafka knows.
    #[error("unknown configuration key {key} ({origin}){}", hint(.nearest))]
    Unknown {
        /// The key.
        key: String,
        /// Who set it.
        origin: Origin,
        /// The key that was probably meant.
        nearest: Option<&'static str>,
    },
    /// A value that its key does not take.
    #[error("{invalid} ({origin})")]
    Invalid {
        /// What is wrong.
        invalid: InvalidValue,
        /// Who set it.
        origin: Origin,
    },
    /// `--override` without `=`.
    #[error("--override {0} is not of the form key=value")]
    NotAPair(String),
    /// A properties file that cannot be read.
    #[error("cannot read {path}: {why}")]
    File {
        /// Its path.
        path: String,
        /// What the system or the parser said.
        why: String,
    },
    /// Listeners that do not fit together.
    #[error(transparent)]
    Listeners(#[from] super::ListenerError),
}

fn hint(nearest: &Option<&'static str>) -> String {
    nearest.map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}

/// A value and who set it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The canonical text.
    pub value: String,
    /// Who set it.
    pub origin: Origin,
}

/// All layers merged, with the warnings that merging them gave.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    settings: BTreeMap<&'static str, Setting>,
    warnings: Vec<String>,
}

impl Layers {
    /// Reads a properties file, the environment and the overrides, in this order.
    pub fn load(
        file: Option<&Path>,
        env: impl Iterator<Item = (String, String)>,
        overrides: &[String],
    ) -> Result<Layers, ConfigError> {
        let mut layers = Layers::default();
        if let Some(path) = file {
            layers.add_file(path)?;
        }
        layers.add_env(env)?;
        for pair in overrides {
            let (key, value) = pair.split_once('=').ok_or_else(|| ConfigError::NotAPair(pair.clone()))?;
            layers.set(key.trim(), value, Origin::Override)?;
        }
        Ok(layers)
    }

    fn add_file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let name = path.display().to_string();
        let failed = |why: String| ConfigError::File { path: name.clone(), why };
        let file = std::fs::File::open(path).map_err(|error| failed(error.to_string()))?;
        let pairs = java_properties::read(file).map_err(|error| failed(error.to_string()))?;
        let sorted: BTreeMap<_, _> = pairs.into_iter().collect();
        for (key, value) in sorted {
            self.set(&key, &value, Origin::File(name.clone()))?;
        }
        Ok(())
    }

    /// A variable whose key nobody knows only warns: Kubernetes puts `KAAS_PORT` and the like into pods beside a Service called kaas.
    fn add_env(&mut self, env: impl Iterator<Item = (String, String)>) -> Result<(), ConfigError> {
        let sorted: BTreeMap<_, _> = env.filter(|(name, _)| name.starts_with(ENV_PREFIX)).collect();
        for (name, value) in sorted {
            let key = name[ENV_PREFIX.len()..].to_lowercase().replace('_', ".");
            match self.set(&key, &value, Origin::Env(name)) {
                Err(ConfigError::Unknown { origin, .. }) => {
                    self.warnings.push(format!("{origin} is not a configuration key and does nothing"));
                }
                other => other?,
            }
        }
        Ok(())
    }

    /// Sets one key in the newest layer.
    pub fn set(&mut self, key: &str, value: &str, origin: Origin) -> Result<(), ConfigError> {
        let Some(def) = broker::find(key) else {
            let Some(reason) = ignored::reason(key) else {
                return Err(ConfigError::Unknown {
                    key: key.to_owned(),
                    origin,
                    nearest: suggest::broker_key(key),
                });
            };
            self.warnings.push(format!("{key} ({origin}) does nothing here: {reason}"));
            return Ok(());
        };
        let value = match def.normalise(value) {
            Ok(value) => value,
            Err(invalid) => return Err(ConfigError::Invalid { invalid, origin }),
        };
        if let Effect::None(reason) = def.effect {
            self.warnings.push(format!("{key} ({origin}) does nothing here: {reason}"));
        }
        self.settings.insert(def.name, Setting { value, origin });
        Ok(())
    }

    /// Sets a key that nobody has set, as a default of the program.
    pub fn fall_back(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        if self.settings.contains_key(key) { Ok(()) } else { self.set(key, value, Origin::Default) }
    }

    /// The value of a key, or its default.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.settings.get(key).map(|setting| setting.value.as_str()).or_else(|| broker::find(key)?.default)
    }

    /// What somebody set, without defaults.
    pub fn setting(&self, key: &str) -> Option<&Setting> {
        self.settings.get(key)
    }

    /// One line for every key that was given and does nothing.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(env: &[(&str, &str)], overrides: &[&str]) -> Result<Layers, ConfigError> {
        let env = env.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        let overrides: Vec<String> = overrides.iter().map(|pair| pair.to_string()).collect();
        Layers::load(None, env, &overrides)
    }

    #[test]
    fn the_later_layer_wins_and_says_who_it_is() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, b"num.partitions=3\nmessage.max.bytes = 5\nnode.id: 1\n")
            .unwrap();
        let env = [("KAAS_NUM_PARTITIONS", "4"), ("KAAS_NODE_ID", "2"), ("PATH", "/bin")];
        let env = env.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        let layers = Layers::load(Some(file.path()), env, &["node.id=3".to_owned()]).unwrap();
        assert_eq!(layers.get("message.max.bytes"), Some("5"));
        assert_eq!(layers.get("num.partitions"), Some("4"));
        assert_eq!(
            layers.setting("num.partitions").unwrap().origin,
            Origin::Env("KAAS_NUM_PARTITIONS".to_owned())
        );
        assert_eq!(layers.get("node.id"), Some("3"));
        assert_eq!(layers.get("fetch.max.bytes"), Some("57671680"));
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest_one() {
        let error = load(&[], &["log.dir.s=/x"]).unwrap_err().to_string();
        assert!(error.contains("did you mean log.dirs?"), "{error}");
    }

    #[test]
    fn a_kafka_key_without_effect_warns_once_with_its_reason() {
        let layers = load(&[], &["zookeeper.connect=a:1", "background.threads=1"]).unwrap();
        assert_eq!(layers.warnings().len(), 2);
        assert!(layers.warnings()[0].contains("no ZooKeeper"));
    }

    #[test]
    fn service_variables_of_kubernetes_do_not_stop_the_broker() {
        let layers = load(&[("KAAS_PORT", "tcp://10.0.0.1:9092")], &[]).unwrap();
        assert!(layers.warnings()[0].contains("KAAS_PORT"));
    }

    #[test]
    fn a_bad_value_names_its_origin() {
        let error = load(&[("KAAS_NODE_ID", "x")], &[]).unwrap_err().to_string();
        assert!(error.contains("KAAS_NODE_ID"), "{error}");
    }
}
