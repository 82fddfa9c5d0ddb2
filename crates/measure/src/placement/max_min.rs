//! Max-min fair rates, computed by progressive filling.

/// Returns the max-min fair rate of each flow. The rate of a flow can be increased only by reducing
/// a flow that has no higher rate. `flows` holds the links of each flow, as indices into
/// `capacities`. The demand of all flows is unlimited.
///
/// All rates increase together until a link is full. The flows of this link keep their rate, and
/// the other flows continue. Each round fills at least one link, so there are at most as many
/// rounds as links.
pub fn max_min_rates<const LINKS: usize>(capacities: &[f64], flows: &[[usize; LINKS]]) -> Vec<f64> {
    let mut left = capacities.to_vec();
    let mut open = vec![0_u32; capacities.len()];
    for link in flows.iter().flatten() {
        open[*link] += 1;
    }
    let mut rates = vec![None; flows.len()];
    loop {
        let share = |link: usize| left[link] / f64::from(open[link]);
        let crossed = (0..left.len()).filter(|link| open[*link] > 0);
        let Some(fullest) = crossed.min_by(|a, b| share(*a).total_cmp(&share(*b))) else {
            break;
        };
        let rate = share(fullest).max(0.0);
        for (flow, links) in flows.iter().enumerate() {
            if rates[flow].is_none() && links.contains(&fullest) {
                rates[flow] = Some(rate);
                for link in links {
                    left[*link] -= rate;
                    open[*link] -= 1;
                }
            }
        }
    }
    rates.into_iter().map(Option::unwrap_or_default).collect()
}
