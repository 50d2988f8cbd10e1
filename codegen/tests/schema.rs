//! The committed schemas and the code that they become.

use std::path::{Path, PathBuf};

use kaas_codegen::import;

fn schema() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../schema")
}

/// The folder into which `conformance/lib/jars.sh` copies Apache's jars.
fn jars() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    cache.unwrap_or_default().join("kaas/jars")
}

/// The jars are not in the repository: where `conformance/lib/jars.sh` has not copied them, this says so and the digest
/// in `schema/VERSION`, which `a_hand_edit_shows` checks, is all that stands between the facts and an edit.
#[test]
fn the_facts_are_what_apaches_jars_say() {
    let names = ["kafka-clients-3.7.2.jar", "kafka-group-coordinator-3.7.2.jar", "kafka_2.13-3.7.2.jar"];
    let jars = names.map(|name| jars().join(name));
    if !jars.iter().all(|jar| jar.exists()) {
        eprintln!("NOT COMPARED: run conformance/lib/jars.sh to have the jars at {}", jars[0].display());
        return;
    }
    let imported = import::read(&jars).unwrap();
    assert_eq!(import::differences(&imported, &import::committed(&schema()).unwrap()), Vec::<String>::new());
    // 158 schemas in kafka-clients, 16 in kafka-group-coordinator, 2 in kafka_2.13, and VERSION.
    assert_eq!(imported.len(), 158 + 16 + 2 + 1);
}

#[test]
fn the_code_is_the_same_every_time() {
    let files = || kaas_codegen::emit::files(&kaas_codegen::load(&schema()).unwrap()).unwrap();
    assert_eq!(files(), files());
}

#[test]
fn six_modules_read_as_expected() {
    for name in [
        "ApiVersionsResponse",
        "ConsumerGroupHeartbeatResponse",
        "CreateTopicsRequest",
        "FetchResponse",
        "RequestHeader",
        "SaslAuthenticateRequest",
    ] {
        insta::assert_snapshot!(name, kaas_codegen::expand(&schema(), name).unwrap());
    }
}

#[test]
fn an_api_expands_to_its_request_and_response() {
    let text = kaas_codegen::expand(&schema(), "Heartbeat").unwrap();
    assert!(text.contains("struct HeartbeatRequest") && text.contains("struct HeartbeatResponse"));
    assert!(kaas_codegen::expand(&schema(), "NoSuchThing").is_err());
}
