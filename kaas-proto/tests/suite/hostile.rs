//! Bytes that are cut, flipped or made up give typed errors.

use bytes::Bytes;
use kaas_proto::messages::*;
use kaas_proto::{DecodeErrorKind, Message, Reader, RequestBody};

use crate::vectors::VECTORS;

/// The longest vector that is cut at every byte; only vectors of the wide variant are longer.
const LENGTH_MAX: usize = 1000;

#[test]
fn a_message_cut_short_is_an_error_wherever_it_is_cut() {
    for vector in VECTORS.iter() {
        let step = vector.bytes.len() / LENGTH_MAX + 1;
        assert!(step == 1 || vector.variant == "wide");
        for length in (0..vector.bytes.len()).step_by(step) {
            let cut = (vector.entry.check)(vector.bytes.slice(..length), vector.version);
            assert!(cut.is_err(), "{} cut to {length} bytes", vector.label());
        }
    }
}

#[test]
fn a_flipped_bit_is_an_error_or_another_message_that_survives() {
    let mut refused = 0;
    for vector in VECTORS.iter().filter(|vector| vector.variant != "wide") {
        // Two bits of every byte: the top one, which lengths and varints turn on, and one that depends on the place.
        for (place, bit) in (0..vector.bytes.len()).flat_map(|place| [(place, 7), (place, place % 7)]) {
            let mut bytes = vector.bytes.to_vec();
            bytes[place] ^= 1 << bit;
            let Ok(decoded) = (vector.entry.decode)(bytes.into(), vector.version) else {
                refused += 1;
                continue;
            };
            // A flip can make a tag unknown or a boolean odd, so the bytes may differ, but not the meaning.
            let again = decoded.again.unwrap().to_bytes().unwrap();
            let reread = (vector.entry.decode)(again, vector.version).unwrap();
            assert_eq!(
                reread.json,
                decoded.json,
                "{} with bit {bit} of byte {place} flipped",
                vector.label()
            );
        }
    }
    assert!(refused > 10_000, "{refused}");
}

#[test]
fn bytes_that_follow_a_message_are_left_alone() {
    for vector in VECTORS.iter().filter(|vector| vector.variant == "filled") {
        let bytes = [&vector.bytes[..], b"rest"].concat();
        let decoded = (vector.entry.decode)(bytes.into(), vector.version).unwrap();
        assert_eq!(&decoded.rest[..], b"rest", "{}", vector.label());
    }
}

#[test]
fn strict_decoding_refuses_bytes_that_follow() {
    let bytes = Bytes::from_static(b"\0\0\0\0\0");
    assert!(ListGroupsResponse::decode(&mut Reader::new(bytes.clone()), 0).is_err());
    assert_eq!(ApiVersionsRequest::decode_exact(Bytes::new(), 0), Ok(ApiVersionsRequest::default()));
    let error = ApiVersionsRequest::decode_exact(bytes, 0).unwrap_err();
    assert_eq!(error.kind, DecodeErrorKind::TrailingBytes);
}

/// What is wrong with a request, as text.
fn error<T: Message + std::fmt::Debug>(bytes: &'static [u8], version: i16) -> String {
    T::decode_exact(Bytes::from_static(bytes), version).expect_err("the bytes are wrong").to_string()
}

#[test]
fn errors_name_the_field() {
    // Topics: one, its name null.
    assert_eq!(error::<MetadataRequest>(b"\x02\x00\x00\x00\x00", 9), "topics.name: null is not allowed here");
    assert_eq!(
        error::<MetadataRequest>(b"\x00\x00\x00\x01\x00\x01\xff", 1),
        "topics.name: string is not UTF-8"
    );
    assert_eq!(error::<MetadataRequest>(b"\xff\xff\xff\xff", 0), "topics: null is not allowed here");
    assert_eq!(error::<MetadataRequest>(b"\xff\xff\xff\xfe", 1), "topics: negative length");
    assert_eq!(
        error::<MetadataRequest>(b"\x7f\xff\xff\xff\x00\x00", 1),
        "topics: array longer than the bytes that remain"
    );
    assert_eq!(error::<MetadataRequest>(b"\x80\x80\x80\x80\x80\x00", 9), "topics: malformed varint");
    assert_eq!(error::<HeartbeatRequest>(b"", 99), "version 99 does not exist");
    // Fetch v0: a topic with a partition that is cut.
    assert_eq!(
        error::<FetchRequest>(
            b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
            0
        ),
        "topics.partitions: array longer than the bytes that remain"
    );
}

#[test]
fn a_value_that_a_version_cannot_carry_is_refused_unless_it_may_be_dropped() {
    let mut w = kaas_proto::Writer::new();
    // Group instance ids came with version 5 and cannot be dropped.
    let join = JoinGroupRequest { group_instance_id: Some("me".into()), ..JoinGroupRequest::default() };
    assert_eq!(
        join.encode(&mut w, 4).unwrap_err().to_string(),
        "group_instance_id: version 4 cannot carry the value"
    );
    assert!(join.encode(&mut w, 5).is_ok());
    // The rack id of a fetch can.
    let fetch = FetchRequest { rack_id: "r".into(), ..FetchRequest::default() };
    assert!(fetch.encode(&mut w, 10).is_ok());
    // Null where the version has no null.
    let metadata = MetadataRequest { topics: None, ..MetadataRequest::default() };
    assert_eq!(metadata.encode(&mut w, 0).unwrap_err().to_string(), "topics: null is not allowed here");
    assert!(metadata.encode(&mut w, 1).is_ok());
    assert!(metadata.encode(&mut w, 13).is_err());
}

#[test]
fn secrets_do_not_print() {
    let secret = Bytes::from_static(b"hunter2");
    let request = SaslAuthenticateRequest { auth_bytes: secret.clone() };
    let text = format!("{:?}", RequestBody::from(request));
    assert!(!text.contains("hunter2") && text.contains("redacted"), "{text}");
    let upsertion = alter_user_scram_credentials_request::ScramCredentialUpsertion {
        name: "alice".into(),
        salt: secret.clone(),
        salted_password: secret,
        ..Default::default()
    };
    let text = format!("{upsertion:?}");
    assert!(!text.contains("hunter2") && text.contains("alice"), "{text}");
}
