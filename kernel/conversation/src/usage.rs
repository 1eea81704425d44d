//! The tokens that requests use, and their cost.

use serde::{Deserialize, Serialize};
use skillhost_home::TokenPrice;

/// The tokens of one or several requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUsage {
    /// Input tokens, including cached ones.
    pub input: u64,
    /// Output tokens, including reasoning.
    pub output: u64,
    /// Input tokens that the provider had cached from an earlier request.
    pub cached: u64,
    /// True if the usage is estimated as a quarter of the characters, without data of the provider.
    pub estimated: bool,
}

impl TokenUsage {
    /// Returns the cost at a price.
    #[must_use]
    pub fn cost_at(&self, price: &TokenPrice) -> f64 {
        let cached = price.cached.unwrap_or(price.input) * self.cached as f64;
        // Saturates: a faulty provider may report more cached tokens than it received.
        let fresh = price.input * self.input.saturating_sub(self.cached) as f64;
        (cached + fresh + price.output * self.output as f64) / 1e6
    }
}

impl std::ops::AddAssign for TokenUsage {
    fn add_assign(&mut self, other: Self) {
        self.input += other.input;
        self.output += other.output;
        // A sum with one estimated part is an estimate.
        self.cached += other.cached;
        self.estimated |= other.estimated;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_tokens_have_own_price() {
        let usage =
            TokenUsage { input: 1_000_000, output: 500_000, cached: 400_000, estimated: false };
        let price = TokenPrice { input: 3.0, output: 15.0, cached: Some(0.3) };
        assert!((usage.cost_at(&price) - (0.12 + 1.8 + 7.5)).abs() < 1e-9);
        let price = TokenPrice { cached: None, ..price };
        assert!((usage.cost_at(&price) - 10.5).abs() < 1e-9);
    }
}
