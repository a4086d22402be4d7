//! The seeded source of every choice.

/// SplitMix64 (Steele, Lea and Flood, 2014): small, and the same on every machine.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not 0. The bias of the remainder is below 2^-32 for the small numbers used here.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(n).unwrap()).unwrap()
    }

    /// True once in `n` times; never if `n` is 0.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        n > 0 && self.below(n) == 0
    }

    /// One of the values, which are not empty.
    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        let index = self.below(of.len());
        &of[index]
    }

    /// `n` of the values, in their order.
    pub(crate) fn some<T: Clone>(&mut self, of: &[T], n: usize) -> Vec<T> {
        let mut indices: Vec<usize> = (0..of.len()).collect();
        while indices.len() > n {
            let index = self.below(indices.len());
            indices.remove(index);
        }
        indices.into_iter().map(|index| of[index].clone()).collect()
    }
}
