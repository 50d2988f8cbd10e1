//! Seeds the corpora from the golden vectors: the filled form of every message at its highest and lowest version.

#[path = "../../tests/suite/vectors.rs"]
#[allow(dead_code)] // The test suite uses more of it.
mod vectors;

use std::fs;
use std::path::Path;

use kaas_proto::header::RequestHeader;
use kaas_proto::json::CATALOGUE;
use kaas_proto::{APIS, Message, Writer};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for vector in vectors::VECTORS.iter().filter(|vector| vector.variant == "filled") {
        let valid = vector.entry.valid;
        if vector.version != valid.min && vector.version != valid.max {
            continue;
        }
        let which = CATALOGUE.iter().position(|entry| entry.name == vector.entry.name).ok_or("it is in the table")?;
        let name = format!("{}-v{}", vector.entry.name, vector.version);
        let head = [u8::try_from(which)?, u8::try_from(vector.version - valid.min)?];
        fs::write(corpus.join("message").join(&name), [&head[..], &vector.bytes].concat())?;

        let api = APIS.iter().find(|api| name.starts_with(&format!("{}Request-", api.name)));
        if let Some(api) = api {
            let header = RequestHeader {
                api_key: api.key.code(),
                api_version: vector.version,
                correlation_id: 7,
                client_id: Some("seed".into()),
            };
            let mut w = Writer::new();
            header.encode(&mut w, api.request_header_version(vector.version))?;
            w.raw(&vector.bytes);
            fs::write(corpus.join("frame").join(&name), w.into_pieces().to_bytes()?)?;
        }
    }
    Ok(())
}
