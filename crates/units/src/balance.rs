//! Measures of how evenly a load is distributed.

/// Returns Jain's fairness index `(sum x)^2 / (n * sum x^2)` (Jain, Chiu, Hawe: DEC-TR-301, 1984). If all
/// values are equal, the index is 1. If only one of n values is not zero, the index is 1/n. The values must
/// not be negative. Returns `None` if the slice is empty or all values are zero.
pub fn jain_index(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|x| x * x).sum();
    (squares > 0.0).then(|| sum * sum / (values.len() as f64 * squares))
}

/// Returns the largest value divided by the mean value. The result is 1 if all values are equal. The largest
/// possible result is the number of values. The values must not be negative. Returns `None` if the slice is
/// empty or all values are zero.
pub fn max_mean_ratio(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().sum();
    let max = values.iter().copied().fold(0.0, f64::max);
    (sum > 0.0).then(|| max * values.len() as f64 / sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_of_equals_and_of_one() {
        assert_eq!(jain_index(&[3.0; 8]), Some(1.0));
        assert_eq!(jain_index(&[5.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain_index(&[]), None);
        assert_eq!(max_mean_ratio(&[1.0, 3.0]), Some(1.5));
        assert_eq!(max_mean_ratio(&[0.0]), None);
    }
}
