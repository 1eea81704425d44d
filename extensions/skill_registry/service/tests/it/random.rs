//! Pseudo-random numbers that depend only on the seed.

pub(crate) struct SeededRandom(u64);

impl SeededRandom {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    /// Returns a number below a bound.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Returns one of several values; `None` for an empty slice.
    pub(crate) fn one_of<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        let at = self.next() as usize;
        of.get(at.checked_rem(of.len())?)
    }
}
