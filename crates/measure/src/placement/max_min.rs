//! Max-min fair rates, by progressive filling.

/// The max-min fair rate of each flow: no flow's can be raised but at the cost of one that has no more. `flows` are the links
/// that each crosses, as places in `capacities`; all of them want as much as there is.
///
/// All rates rise together until a link is full; its flows then have their rate, and the others rise on. Every round fills the
/// link whose flows would get least, so there are at most as many rounds as links.
pub fn max_min<const LINKS: usize>(capacities: &[f64], flows: &[[usize; LINKS]]) -> Vec<f64> {
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
