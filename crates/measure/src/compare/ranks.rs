//! What the test of two samples takes, without a list of all pairs: that of 20 000 values with as many has 400 million.

/// The differences of each value of the second sample and each of the first, counted and picked as if they were sorted.
pub(super) struct Differences {
    a: Vec<f64>,
    b: Vec<f64>,
}

impl Differences {
    pub(super) fn new(a: &[f64], b: &[f64]) -> Differences {
        let sorted = |values: &[f64]| {
            let mut sorted = values.to_vec();
            sorted.sort_by(f64::total_cmp);
            sorted
        };
        Differences {
            a: sorted(a),
            b: sorted(b),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.a.len() * self.b.len()
    }

    /// How many are at most this.
    fn at_most(&self, limit: f64) -> usize {
        // The larger a value of b is, the larger those of a have to be.
        let mut from = 0;
        let mut count = 0;
        for b in &self.b {
            while self.a.get(from).is_some_and(|a| b - a > limit) {
                from += 1;
            }
            count += self.a.len() - from;
        }
        count
    }

    /// Twice the number of those above nothing, a tie being half of one.
    pub(super) fn twice_larger(&self) -> usize {
        let (smaller, not_larger) = (self.at_most(-f64::from_bits(1)), self.at_most(0.0));
        2 * (self.count() - not_larger) + (not_larger - smaller)
    }

    /// The one that would be at this place: numbers are bisected, all that there are between the least and the largest difference.
    pub(super) fn nth(&self, place: usize) -> f64 {
        let ends = (self.a.first(), self.a.last(), self.b.first(), self.b.last());
        let (Some(a_least), Some(a_most), Some(b_least), Some(b_most)) = ends else {
            return 0.0;
        };
        let (mut low, mut high) = (place_of(b_least - a_most), place_of(b_most - a_least));
        while low < high {
            let middle = low + (high - low) / 2;
            match self.at_most(number_at(middle)) > place {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        // Adding nothing makes a nothing with a sign one without.
        number_at(low) + 0.0
    }

    pub(super) fn median(&self) -> f64 {
        match self.count() {
            0 => 0.0,
            count => (self.nth((count - 1) / 2) + self.nth(count / 2)) / 2.0,
        }
    }
}

const SIGN: u64 = 1 << 63;

/// Where a number stands among all of them.
fn place_of(number: f64) -> u64 {
    let bits = number.to_bits();
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

fn number_at(place: u64) -> f64 {
    f64::from_bits(if place & SIGN == 0 { !place } else { place & !SIGN })
}

/// Pairs up to which their distribution is counted out: 128 values with 128. Above, that takes seconds and more.
const COUNTED_OUT: usize = 1 << 14;

/// In how many pairs the second sample is the larger one, if there is no shift.
pub(super) enum RankSums {
    /// The probability of each number.
    Exact(Vec<f64>),
    /// The normal distribution of this mean and deviation. The true one has thinner tails, so intervals are no shorter than they may be.
    Normal { mean: f64, deviation: f64 },
}

impl RankSums {
    pub(super) fn new(first: usize, second: usize) -> RankSums {
        let pairs = first * second;
        if pairs <= COUNTED_OUT {
            return RankSums::Exact(counted_out(first, second));
        }
        let pairs = pairs as f64;
        RankSums::Normal {
            mean: pairs / 2.0,
            deviation: (pairs * (first + second + 1) as f64 / 12.0).sqrt(),
        }
    }

    /// Probability of so many or fewer.
    pub(super) fn at_most(&self, count: usize) -> f64 {
        match self {
            RankSums::Exact(chances) => chances.iter().take(count + 1).sum(),
            RankSums::Normal { mean, deviation } => tail((mean - count as f64 - 0.5) / deviation),
        }
    }

    /// How many differences are cut off at each end for what an interval may miss.
    pub(super) fn cut(&self, alpha: f64) -> usize {
        match self {
            RankSums::Exact(chances) => super::statistics::cut(chances, alpha),
            RankSums::Normal { mean, .. } => {
                let (mut least, mut most) = (0, *mean as usize);
                while least < most {
                    let middle = least + (most - least) / 2;
                    match self.at_most(middle) <= alpha / 2.0 {
                        true => least = middle + 1,
                        false => most = middle,
                    }
                }
                least
            }
        }
    }
}

fn counted_out(first: usize, second: usize) -> Vec<f64> {
    // The same whichever is the first; with the smaller one inside, what is kept of it is small.
    let (first, second) = (first.max(second), first.min(second));
    // f(i, j)[u]: as the largest of all is in the second sample with j / (i + j), and then larger than i.
    let mut rows: Vec<Vec<f64>> = vec![vec![1.0]; second + 1];
    for i in 1..=first {
        let mut next: Vec<Vec<f64>> = vec![vec![1.0]];
        for j in 1..=second {
            let share = j as f64 / (i + j) as f64;
            let mut row = vec![0.0; i * j + 1];
            for (u, p) in next[j - 1].iter().enumerate() {
                row[u + i] += share * p;
            }
            for (u, p) in rows[j].iter().enumerate() {
                row[u] += (1.0 - share) * p;
            }
            next.push(row);
        }
        rows = next;
    }
    rows.pop().unwrap_or_else(|| vec![1.0])
}

/// Probability that a normal deviate is above this.
fn tail(z: f64) -> f64 {
    if z < 0.0 {
        return 1.0 - tail(-z);
    }
    let density = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if z > 3.0 {
        // Laplace's continued fraction, from its end.
        let fraction = (1..=60).rev().fold(z, |below, n| z + f64::from(n) / below);
        return density / fraction;
    }
    // z + z^3 / 3 + z^5 / (3 * 5) + ...
    let (mut term, mut sum) = (z, z);
    for n in 1..=60 {
        term *= z * z / f64::from(2 * n + 1);
        sum += term;
    }
    0.5 - density * sum
}

#[cfg(test)]
mod tests {
    use rand_core::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    fn drawn(count: usize, seed: u64, steps: f64) -> Vec<f64> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let uniform =
            |random: &mut Xoshiro256PlusPlus| (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        // In steps, so that there are ties.
        (0..count)
            .map(|_| (uniform(&mut random) * steps).round() / steps - 0.5)
            .collect()
    }

    #[test]
    fn differences_are_those_of_a_sorted_list() {
        for (first, second, steps) in [(1, 1, 8.0), (7, 12, 8.0), (31, 5, 1e9), (40, 40, 3.0)] {
            let (a, b) = (drawn(first, 1, steps), drawn(second, 2, steps));
            let mut list: Vec<f64> = b.iter().flat_map(|b| a.iter().map(move |a| b - a)).collect();
            list.sort_by(f64::total_cmp);
            let differences = Differences::new(&a, &b);
            for (place, difference) in list.iter().enumerate() {
                assert_eq!(
                    differences.nth(place),
                    *difference,
                    "{place} of {first} x {second}"
                );
            }
            let twice = |d: &f64| if *d > 0.0 { 2 } else { usize::from(*d == 0.0) };
            assert_eq!(differences.twice_larger(), list.iter().map(twice).sum::<usize>());
        }
    }

    #[test]
    fn normal_tails_as_in_tables() {
        for (z, p) in [
            (0.0, 0.5),
            (1.0, 0.158_655_253_931),
            (1.959_963_984_540, 0.025),
            (2.999_999, 0.001_349_902_5),
            (3.000_001, 0.001_349_893_6),
            (3.290_526_731_492, 0.000_5),
            (6.0, 9.865_876_450e-10),
        ] {
            assert!((tail(z) / p - 1.0).abs() < 1e-7, "{z}: {} {p}", tail(z));
        }
        assert!((tail(-1.0) - 0.841_344_746_069).abs() < 1e-9);
    }

    #[test]
    fn the_normal_distribution_takes_over_where_it_is_near_and_on_the_safe_side() {
        let exact = RankSums::Exact(counted_out(100, 100));
        let normal = RankSums::Normal {
            mean: 5_000.0,
            deviation: (10_000.0 * 201.0 / 12.0_f64).sqrt(),
        };
        for alpha in [0.05, 0.001, 0.000_01] {
            let (exact, normal) = (exact.cut(alpha), normal.cut(alpha));
            assert!(
                normal <= exact && 100 * (exact - normal) < exact,
                "{alpha}: {exact} {normal}"
            );
        }
        assert!(matches!(RankSums::new(128, 128), RankSums::Exact(_)));
        assert!(matches!(RankSums::new(129, 128), RankSums::Normal { .. }));
    }

    #[test]
    fn probabilities_sum_to_one() {
        for (first, second) in [(7, 5), (5, 7), (0, 3), (16_384, 1)] {
            let sum: f64 = counted_out(first, second).iter().sum();
            assert!((sum - 1.0).abs() < 1e-9, "{first} {second} {sum}");
        }
    }
}
