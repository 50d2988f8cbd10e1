//! Who the cluster is, and whether this program may touch the volume at all.

use std::io;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::OpenError;
use crate::layout::{
    CLUSTER_DIR, CLUSTER_FILE, FORMAT_VERSION, PRODUCER_IDS_DIR, TOPIC_METADATA_DIR, TOPICS_DIR, VOLUME_FILE,
};
use crate::state_file;
use crate::volume::{Volume, ensure_dir, replace_file};

/// The name of the volume when there is only one.
const VOLUME_NAME: &str = "default";

#[derive(Serialize, Deserialize)]
pub(crate) struct VolumeRecord {
    pub(crate) format_version: u32,
    pub(crate) cluster_id: String,
    volume: String,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ClusterRecord {
    pub(crate) cluster_id: String,
}

/// The cluster id; on a fresh volume everything that must exist is created.
pub(crate) fn load_or_create(
    volume: &dyn Volume,
    new_identity: &dyn Fn() -> Uuid,
) -> Result<String, OpenError> {
    let stored: Option<VolumeRecord> = load(volume, VOLUME_FILE)?;
    if let Some(record) = &stored
        && record.format_version != FORMAT_VERSION
    {
        return Err(OpenError::UnknownFormat { found: record.format_version, known: FORMAT_VERSION });
    }
    for dir in [TOPICS_DIR, CLUSTER_DIR, TOPIC_METADATA_DIR, PRODUCER_IDS_DIR] {
        ensure_dir(volume, dir).map_err(storage(dir))?;
    }
    let cluster = match load::<ClusterRecord>(volume, CLUSTER_FILE)? {
        Some(ClusterRecord { cluster_id }) => cluster_id,
        None => {
            let cluster_id = stored
                .as_ref()
                .map_or_else(|| new_cluster_id(new_identity), |record| record.cluster_id.clone());
            store(volume, CLUSTER_FILE, &ClusterRecord { cluster_id: cluster_id.clone() })?;
            cluster_id
        }
    };
    match stored {
        Some(record) if record.cluster_id != cluster => {
            Err(OpenError::ForeignVolume { volume: record.cluster_id, cluster })
        }
        Some(_) => Ok(cluster),
        None => {
            let (format_version, cluster_id) = (FORMAT_VERSION, cluster.clone());
            store(
                volume,
                VOLUME_FILE,
                &VolumeRecord { format_version, cluster_id, volume: VOLUME_NAME.into() },
            )?;
            Ok(cluster)
        }
    }
}

fn load<T: serde::de::DeserializeOwned>(volume: &dyn Volume, path: &str) -> Result<Option<T>, OpenError> {
    Ok(state_file::load(volume, path).map_err(storage(path))?.transpose()?)
}

fn store<T: Serialize>(volume: &dyn Volume, path: &str, state: &T) -> Result<(), OpenError> {
    let bytes = state_file::encode(state).map_err(storage(path))?;
    replace_file(volume, path, &bytes, true).map_err(storage(path))
}

fn storage(path: &str) -> impl FnOnce(io::Error) -> OpenError {
    let path = path.to_owned();
    move |error| OpenError::Storage { path, error: error.into() }
}

/// Kafka's form of a random UUID: URL-safe base64 without padding, and not starting with a dash, which tools
/// would take for an option.
fn new_cluster_id(new_identity: &dyn Fn() -> Uuid) -> String {
    loop {
        let id = base64(new_identity().as_bytes());
        if !id.starts_with('-') {
            return id;
        }
    }
}

fn base64(bytes: &[u8; 16]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bits = u128::from_be_bytes(*bytes);
    // 22 digits of six bits are 132: the last is filled up with four zero bits.
    let digit = |n: u32| {
        let shifted = if n < 21 { bits >> (122 - 6 * n) } else { bits << 4 };
        char::from(ALPHABET[(shifted & 0x3f) as usize])
    };
    (0..22).map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_url_safe_base64() {
        assert_eq!(base64(&[0; 16]), "AAAAAAAAAAAAAAAAAAAAAA");
        assert_eq!(base64(&[0xff; 16]), "_____________________w");
        // 00 01 .. 0f by any base64 tool.
        let counting: [u8; 16] = std::array::from_fn(|n| n as u8);
        assert_eq!(base64(&counting), "AAECAwQFBgcICQoLDA0ODw");
    }
}
