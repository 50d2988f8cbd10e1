//! Random messages as bytes, written straight from the schemas: an encoder that shares nothing with the generated one.
//!
//! What it writes is canonical (tags in order, no default tagged, minimal varints), so a codec that reads it must
//! write the same bytes again.

#![allow(clippy::unwrap_used)] // The committed schemas are part of the test.

use std::path::Path;
use std::sync::LazyLock;

use kaas_codegen::model::{Default, Field, Message, Schema, Struct, Type};

/// The committed schemas.
pub(crate) static SCHEMA: LazyLock<Schema> =
    LazyLock::new(|| kaas_codegen::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../schema")).unwrap());

/// A message of `version` with values that depend on `seed` alone.
pub(crate) fn message(message: &Message, version: i16, seed: u64) -> Vec<u8> {
    let mut random = Random { state: seed, message, version, out: Vec::new() };
    random.of_struct(&message.structs[0]);
    random.out
}

struct Random<'a> {
    state: u64,
    message: &'a Message,
    version: i16,
    out: Vec<u8>,
}

impl<'a> Random<'a> {
    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn flexible(&self) -> bool {
        self.message.flexible_from.is_some_and(|from| self.version >= from)
    }

    fn declared(&self, name: &str) -> &'a Struct {
        self.message.structs.iter().find(|declared| declared.name == name).unwrap()
    }

    fn of_struct(&mut self, declared: &'a Struct) {
        let version = self.version;
        let here: Vec<&Field> =
            declared.fields.iter().filter(|field| field.versions.contains(version)).collect();
        for field in here.iter().filter(|field| field.tag.is_none()) {
            self.of_field(field);
        }
        if !self.flexible() {
            return;
        }
        let mut tagged: Vec<(u32, Vec<u8>)> = Vec::new();
        for field in here {
            let Some(tag) = field.tag else { continue };
            let (value, default) = (self.aside(|r| r.of_field(field)), self.aside(|r| r.of_default(field)));
            if value != default && !self.one_in(3) {
                tagged.push((tag, value));
            }
        }
        tagged.sort();
        self.uvarint(tagged.len());
        for (tag, value) in tagged {
            self.uvarint(tag as usize);
            self.uvarint(value.len());
            self.out.extend(value);
        }
    }

    /// What `write` writes, apart from the rest.
    fn aside(&mut self, write: impl FnOnce(&mut Self)) -> Vec<u8> {
        let before = std::mem::take(&mut self.out);
        write(self);
        std::mem::replace(&mut self.out, before)
    }

    fn of_field(&mut self, field: &'a Field) {
        let flex = self.flexible() && !field.never_flexible;
        let nullable = field.nullable_versions.contains(self.version);
        if nullable && self.one_in(4) {
            return self.null(&field.ty, flex);
        }
        if nullable && matches!(field.ty, Type::Struct(_)) {
            self.out.push(1);
        }
        self.value(&field.ty, flex);
    }

    /// The default of a tagged field.
    fn of_default(&mut self, field: &'a Field) {
        match (&field.default, &field.ty) {
            (Default::Null, ty) => self.null(ty, true),
            (Default::Integer(number), ty) => {
                let bytes = number.to_be_bytes();
                self.out.extend(&bytes[8 - ty.size_min(true)..]);
            }
            (Default::True, _) => self.out.push(1),
            (Default::Zero, Type::Struct(name)) => {
                for field in &self.declared(name).fields {
                    if field.tag.is_none() && field.versions.contains(self.version) {
                        self.of_default(field);
                    }
                }
                self.out.push(0);
            }
            (Default::Zero, Type::String | Type::Bytes | Type::Records | Type::Array(_)) => self.out.push(1),
            (Default::Zero, ty) => {
                self.out.resize(self.out.len() + ty.size_min(true), 0);
            }
        }
    }

    fn null(&mut self, ty: &Type, flex: bool) {
        match ty {
            Type::Struct(_) => self.out.push(0xff),
            _ if flex => self.out.push(0),
            Type::String => self.out.extend([0xff; 2]),
            _ => self.out.extend([0xff; 4]),
        }
    }

    fn value(&mut self, ty: &'a Type, flex: bool) {
        match ty {
            Type::Bool => {
                let value = self.below(2) as u8;
                self.out.push(value);
            }
            Type::String => {
                let symbols = ["a", "B", "-", "é", "€", "𝄞", "\0"];
                let count = self.length(140);
                let text: String = (0..count).map(|_| symbols[self.below(symbols.len())]).collect();
                if flex {
                    self.uvarint(text.len() + 1)
                } else {
                    self.out.extend((text.len() as u16).to_be_bytes())
                }
                self.out.extend(text.as_bytes());
            }
            Type::Bytes | Type::Records => {
                let length = self.length(1500);
                self.count(length, flex);
                let fill = self.next() as u8;
                self.out.resize(self.out.len() + length, fill);
            }
            Type::Array(element) => {
                let scalar = !matches!(**element, Type::Struct(_) | Type::String);
                let count = if scalar { self.length(140) } else { self.below(4) };
                self.count(count, flex);
                (0..count).for_each(|_| self.value(element, flex));
            }
            Type::Struct(name) => self.of_struct(self.declared(name)),
            fixed => self.fixed(fixed.size_min(flex)),
        }
    }

    /// An integer, a float or a uuid: extremes are as likely as anything else.
    fn fixed(&mut self, size: usize) {
        let bytes = match self.below(5) {
            0 => [0; 16],
            1 => [0xff; 16],
            2 => std::array::from_fn(|index| if index == 0 { 0x80 } else { 0 }),
            3 => std::array::from_fn(|index| if index == 0 { 0x7f } else { 0xff }),
            _ => (u128::from(self.next()) << 64 | u128::from(self.next())).to_be_bytes(),
        };
        self.out.extend(&bytes[..size]);
    }

    /// A length: mostly small, now and then around `large`.
    fn length(&mut self, large: usize) -> usize {
        if self.one_in(12) { large - self.below(large / 2) } else { self.below(5) }
    }

    fn count(&mut self, count: usize, flex: bool) {
        if flex { self.uvarint(count + 1) } else { self.out.extend((count as i32).to_be_bytes()) }
    }

    fn uvarint(&mut self, mut value: usize) {
        while value >= 0x80 {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }
}
