//! Whatever strangers send, memory stays bounded and other clients are served.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;

use kaas_proto::messages::{FetchRequest, MetadataRequest, ProduceRequest};
use kaas_proto::{ApiRequest, Message};
use support::{Client, Kaas, encode, fetch};

/// Resident memory that strangers may cost, all together.
const RSS_GROWTH_MAX: u64 = 40 * 1024 * 1024;

/// Runs an attack between two produces of another client and compares the memory.
fn undisturbed(attack: impl FnOnce(&Kaas) -> Vec<TcpStream>) {
    let kaas = Kaas::start();
    let mut other = kaas.connect();
    other.create_topic("t", 1);
    other.produce("t", 0, b"before");
    let before = kaas.rss_bytes();
    let held = attack(&kaas);
    assert_eq!(other.produce("t", 0, b"during"), 1);
    assert_eq!(kaas.connect().produce("t", 0, b"new connection"), 2);
    let growth = kaas.rss_bytes().saturating_sub(before);
    assert!(growth < RSS_GROWTH_MAX, "{growth} bytes");
    drop(held);
}

/// Sends bytes and reads until the broker closes.
fn send_until_closed(kaas: &Kaas, bytes: &[u8]) -> Vec<u8> {
    let mut stream = Client::to(kaas.address).0.stream;
    // The broker may close before everything is sent.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => answer,
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
            panic!("the connection was left open")
        }
        Err(_) => answer,
    }
}

#[test]
fn random_bytes() {
    undisturbed(|kaas| {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..200 {
            let bytes: Vec<u8> = (0..256)
                .map(|_| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    state as u8
                })
                .collect();
            let mut stream = Client::to(kaas.address).0.stream;
            let _ = stream.write_all(&bytes);
        }
        Vec::new()
    });
}

#[test]
fn an_http_request_and_a_tls_hello_are_closed_without_an_answer() {
    undisturbed(|kaas| {
        assert!(send_until_closed(kaas, b"GET / HTTP/1.1\r\nHost: kaas\r\n\r\n").is_empty());
        assert!(send_until_closed(kaas, &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]).is_empty());
        Vec::new()
    });
}

#[test]
fn a_port_scan() {
    undisturbed(|kaas| {
        for _ in 0..500 {
            drop(TcpStream::connect(kaas.address).unwrap());
        }
        Vec::new()
    });
}

#[test]
fn a_length_of_2_gib_and_other_impossible_lengths_are_closed_at_once() {
    undisturbed(|kaas| {
        for length in [i32::MAX, 104_857_601, 7, 0, -1, i32::MIN] {
            assert!(send_until_closed(kaas, &length.to_be_bytes()).is_empty(), "{length}");
        }
        Vec::new()
    });
}

#[test]
fn half_frames_that_announce_the_most() {
    undisturbed(|kaas| {
        let announce = |_| {
            let mut stream = Client::to(kaas.address).0.stream;
            stream.write_all(&104_857_600_i32.to_be_bytes()).unwrap();
            stream.write_all(&[0, 0, 0, 9, 0, 0, 0, 1]).unwrap();
            stream
        };
        (0..400).map(announce).collect()
    });
}

#[test]
fn a_thousand_idle_connections() {
    undisturbed(|kaas| {
        let streams: Vec<TcpStream> = (0..1000).map(|_| Client::to(kaas.address).0.stream).collect();
        // All are accepted: each answers.
        for stream in streams.iter().step_by(100) {
            let mut client = Client::to(kaas.address);
            client.0.stream = stream.try_clone().unwrap();
            client.call(&MetadataRequest { topics: Some(Vec::new()), ..Default::default() }, 12);
        }
        streams
    });
}

#[test]
fn array_counts_that_no_frame_can_hold() {
    undisturbed(|kaas| {
        let empty = MetadataRequest { topics: Some(Vec::new()), ..Default::default() };
        let mut frame = encode(&empty, 0, 1).unwrap().to_vec();
        let count = frame.len() - 4;
        frame[count..].copy_from_slice(&i32::MAX.to_be_bytes());
        assert!(send_until_closed(kaas, &frame).is_empty());
        let fetch = encode(&FetchRequest::default(), 4, 1).unwrap().to_vec();
        let mut fetch = fetch;
        let at = fetch.len() - 4;
        fetch[at..].copy_from_slice(&0x7fff_fff0_i32.to_be_bytes());
        assert!(send_until_closed(kaas, &fetch).is_empty());
        Vec::new()
    });
}

#[test]
fn keys_and_versions_that_are_not_served_are_closed_without_an_answer() {
    let kaas = Kaas::start();
    for (key, version) in [(200_i16, 0_i16), (-1, 0), (3, 99), (0, 2), (10, 0), (i16::MAX, i16::MIN)] {
        let mut frame = 10_i32.to_be_bytes().to_vec();
        frame.extend(key.to_be_bytes());
        frame.extend(version.to_be_bytes());
        frame.extend([0, 0, 0, 7, 0, 0]);
        assert!(send_until_closed(&kaas, &frame).is_empty(), "{key} {version}");
    }
    assert!(ProduceRequest::VALID.contains(2), "refused though Kafka has it: {}", ProduceRequest::KEY);
}

#[test]
fn a_slow_reader_does_not_grow_memory_or_stop_others() {
    undisturbed(|kaas| {
        let mut writer = kaas.connect();
        writer.create_topic("big", 1);
        for _ in 0..64 {
            writer.produce("big", 0, &vec![7; 900_000]);
        }
        (0..50)
            .map(|_| {
                let mut client = kaas.connect();
                client.send(&fetch("big", 0, 0, 50_000_000), 12);
                client.0.stream
            })
            .collect()
    });
}
