//! Max-min fair rates, computed by progressive filling.

/// Returns the max-min fair rate of each flow. Max-min fair means that no flow can get more unless a flow
/// with the same or a lower rate gets less. `capacities` has the capacity of each link. `flows` has the links
/// of each flow, as indices of `capacities`. A flow uses each link at most once. Rates have the unit of the
/// capacities. Every flow has unlimited demand.
///
/// The algorithm raises all rates together until a link is full. The flows of this link then keep their rate,
/// and the next round raises the rates of all remaining flows. Each round fills at least one link, so the
/// number of rounds is at most the number of links.
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
