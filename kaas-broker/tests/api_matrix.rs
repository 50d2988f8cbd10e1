//! The book's API matrix, the program's table and a running broker's answer are the same.

mod support;

use std::path::Path;

use kaas_broker::api_matrix;
use kaas_broker::apis::APIS;
use kaas_proto::messages::ApiVersionsRequest;
use support::Kaas;

#[test]
fn the_book_shows_the_programs_table() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../book/src/api-matrix.md");
    let book = std::fs::read_to_string(page).unwrap();
    assert_eq!(book, api_matrix::markdown(), "run: kaas api-matrix > book/src/api-matrix.md");
}

#[test]
fn a_running_broker_advertises_the_table_and_answers_each_api_in_it() {
    let kaas = Kaas::start();
    let request =
        ApiVersionsRequest { client_software_name: "test".into(), client_software_version: "1".into() };
    for version in 0..=3 {
        let answer = kaas.connect().call(&request, version);
        let advertised: Vec<_> =
            answer.api_keys.iter().map(|api| (api.api_key, api.min_version, api.max_version)).collect();
        let table: Vec<_> =
            APIS.iter().map(|api| (api.key.code(), api.versions.min, api.versions.max)).collect();
        assert_eq!(advertised, table);
    }
}
