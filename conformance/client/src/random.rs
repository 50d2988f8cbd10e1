//! A small generator, so that a campaign can be repeated from its seed.

/// xorshift64*: repeatable, and good for nothing secret.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Zero is not a state of the generator, so it becomes one.
    pub fn new(seed: u64) -> Random {
        Random(seed.max(1))
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound.max(1)
    }
}
