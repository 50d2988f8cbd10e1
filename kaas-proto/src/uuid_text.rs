//! Kafka's text form of a uuid: URL-safe base64 without padding, 22 characters.

use uuid::Uuid;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The length of the text form.
pub const LENGTH: usize = 22;

/// The text form of `uuid`.
pub fn encode(uuid: &Uuid) -> String {
    // 132 bits: the 128 of the uuid and four zeros.
    let number = uuid.as_u128();
    let digit = |index: usize| match index {
        21 => (number << 4) & 0x3f,
        _ => (number >> (128 - 6 * (index + 1))) & 0x3f,
    };
    (0..LENGTH).map(|index| char::from(ALPHABET[digit(index) as usize])).collect()
}

/// The uuid that `text` stands for; `None` unless it has 22 characters of the alphabet and no stray bits.
pub fn decode(text: &str) -> Option<Uuid> {
    if text.len() != LENGTH {
        return None;
    }
    let mut number: u128 = 0;
    for (index, byte) in text.bytes().enumerate() {
        let digit = ALPHABET.iter().position(|&symbol| symbol == byte)? as u128;
        number = match index {
            21 if digit & 0xf != 0 => return None,
            21 => (number << 2) | (digit >> 4),
            _ => (number << 6) | digit,
        };
    }
    Some(Uuid::from_u128(number))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(number: u128) {
            let uuid = Uuid::from_u128(number);
            prop_assert_eq!(decode(&encode(&uuid)), Some(uuid));
        }
    }

    #[test]
    fn the_form_is_kafkas() {
        assert_eq!(encode(&Uuid::nil()), "AAAAAAAAAAAAAAAAAAAAAA");
        // Base64 of the bytes 00 01 .. 0f.
        let uuid = Uuid::from_bytes(std::array::from_fn(|index| index as u8));
        assert_eq!(encode(&uuid), "AAECAwQFBgcICQoLDA0ODw");
        assert_eq!(encode(&Uuid::max()), "_____________________w");
        for bad in ["", "AAECAwQFBgcICQoLDA0OD", "AAECAwQFBgcICQoLDA0ODx", "AAECAwQFBgcICQoLDA0OD+"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
