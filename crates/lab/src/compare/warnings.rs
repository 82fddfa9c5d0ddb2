//! Warnings about lab variants: reordering, settings without effect, and missing references.

use super::super::plan::LabPlan;
use super::report::ComparisonRun;
use super::variants::LabVariant;
use xoff_rdma::Recovery;
use xoff_telemetry::{count_noun, format_percent};

/// The warnings about all variants. A warning that several variants have is one line with their names.
#[derive(Debug, Default)]
pub(super) struct VariantWarnings {
    /// Each warning with the names of its variants.
    warnings: Vec<(String, Vec<String>)>,
}

impl VariantWarnings {
    /// Adds the warnings about a variant and its runs.
    pub(super) fn add(&mut self, variant: &LabVariant, runs: &[ComparisonRun]) {
        let name = variant.scheme.as_deref().unwrap_or("one switch");
        for warning in variant_warnings(variant, runs) {
            match self.warnings.iter_mut().find(|(known, _)| *known == warning) {
                Some((_, names)) if names.iter().any(|known| known == name) => {}
                Some((_, names)) => names.push(name.to_owned()),
                None => self.warnings.push((warning, vec![name.to_owned()])),
            }
        }
    }

    /// Returns one line for each warning, such as `ecmp, flowlet: ...`.
    pub(super) fn into_lines(self) -> impl Iterator<Item = String> {
        let lines = self.warnings.into_iter();
        lines.map(|(warning, names)| format!("{}: {warning}", names.join(", ")))
    }
}

/// Returns the warnings about a variant and its runs.
fn variant_warnings(variant: &LabVariant, runs: &[ComparisonRun]) -> Vec<String> {
    let mut warnings: Vec<String> = reordering_warning(&variant.plan, runs).into_iter().collect();
    // The lab with a single switch has the same transports and jobs. Its warnings would repeat the warnings
    // of the schemes.
    let first_run = runs.first().filter(|_| variant.scheme.is_some());
    let ineffective = first_run.map_or(&[][..], |run| &run.figures.warnings);
    warnings.extend(ineffective.iter().cloned());
    let failed = |run: &&ComparisonRun| !run.figures.failures.is_empty();
    if let (None, Some(run)) = (&variant.scheme, runs.iter().find(failed)) {
        let why = &run.figures.failures[0];
        warnings.push(format!(
            "the run with seed {} failed, so percentages compare with a failed run, or are missing: {why}",
            run.figures.seed
        ));
    }
    warnings
}

/// Warns about packets out of order if a transport recovers with go-back-N or go-back-zero.
fn reordering_warning(plan: &LabPlan, runs: &[ComparisonRun]) -> Option<String> {
    let mut recoveries = plan.workload.jobs.jobs.iter().filter_map(|job| {
        let transport = plan.transports.get(job.transport)?;
        let qp = &transport.qp;
        let word = match qp.recovery {
            Recovery::GoBackN => "go-back-N",
            Recovery::GoBackZero => "go-back-zero",
            Recovery::SelectiveRepeat => return None,
        };
        qp.out_of_order.is_none().then_some((&transport.name, word))
    });
    let (transport, recovery) = recoveries.next()?;
    let share = |run: &ComparisonRun| {
        run.figures.totals.out_of_order_packets as f64 / run.figures.totals.data_packets.max(1) as f64
    };
    let worst = runs
        .iter()
        .max_by(|a, b| share(a).total_cmp(&share(b)))
        .filter(|run| run.figures.totals.out_of_order_packets > 0)?;
    let totals = &worst.figures.totals;
    let lost = match totals.dropped_frames {
        0 => String::new(),
        1 => " or after a dropped packet".to_owned(),
        frames => format!(" or after one of {}", count_noun(frames, "dropped packet")),
    };
    Some(format!(
        "up to {} of the packets arrived out of order{lost} (seed {}), and transport \"{transport}\" recovers by {recovery}, \
         which sends all packets after a gap again: set `out_of_order: true` or `recovery: selective-repeat`",
        format_percent(Some(share(worst))),
        worst.figures.seed,
    ))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::super::plan::TimeMode;
    use super::super::super::resolve::parse_lab;
    use super::*;

    fn per_packet_variant(transport: &str) -> LabVariant {
        let text = format!(
            "name: x\ntopology:\n  fabric:\n    star: {{hosts: 2}}\ntransports:\n  default: {{{transport}}}\nworkload:\n  jobs:\n    - {{name: a, kind: permutation, hosts: all, bytes: 1K}}\n"
        );
        let plan = parse_lab(&text, "x.yml", Path::new(""), TimeMode::Virtual);
        LabVariant {
            scheme: Some("per-packet".to_owned()),
            fields: Vec::new(),
            values: Vec::new(),
            one_switch_for: None,
            plan: plan.unwrap_or_else(|problems| panic!("{problems}")),
            one_switch: None,
        }
    }

    fn run_with_reordering(seed: u64, out_of_order_packets: u64, dropped_frames: u64) -> ComparisonRun {
        let mut run = ComparisonRun {
            scheme: Some("per-packet".to_owned()),
            one_switch_for: None,
            tainted: false,
            taints: Vec::new(),
            figures: Default::default(),
        };
        run.figures.seed = seed;
        run.figures.totals.data_packets = 1_000;
        run.figures.totals.out_of_order_packets = out_of_order_packets;
        run.figures.totals.dropped_frames = dropped_frames;
        run
    }

    #[test]
    fn variants_with_the_same_warning_share_a_line() {
        let mut warnings = VariantWarnings::default();
        for (scheme, reordered) in [
            ("per-packet", 250),
            ("flowlet", 250),
            ("flowlet", 250),
            ("ecmp", 10),
        ] {
            let variant = LabVariant {
                scheme: Some(scheme.to_owned()),
                ..per_packet_variant("recovery: go-back-n")
            };
            warnings.add(&variant, &[run_with_reordering(1, reordered, 0)]);
        }
        let lines: Vec<String> = warnings.into_lines().collect();
        let [both, one] = &lines[..] else {
            panic!("two lines: {lines:?}")
        };
        assert!(both.starts_with("per-packet, flowlet: up to 25"), "{both}");
        assert!(one.starts_with("ecmp: up to 1"), "{one}");
    }

    #[test]
    fn reordering_is_a_warning_for_go_back_n() {
        let runs = [
            run_with_reordering(1, 0, 0),
            run_with_reordering(2, 250, 0),
            run_with_reordering(3, 10, 0),
        ];
        let [warning] = variant_warnings(&per_packet_variant("recovery: go-back-n"), &runs)
            .try_into()
            .expect("one warning");
        for part in ["25", "seed 2", "\"default\"", "go-back-N", "out_of_order: true"] {
            assert!(warning.contains(part), "no {part:?} in {warning}");
        }
        let tolerant = [
            "recovery: selective-repeat",
            "recovery: go-back-n, out_of_order: true",
        ];
        for transport in tolerant {
            assert_eq!(
                variant_warnings(&per_packet_variant(transport), &runs),
                [""; 0],
                "{transport}"
            );
        }
        assert_eq!(
            variant_warnings(&per_packet_variant("mtu: 1024"), &[run_with_reordering(1, 0, 0)]),
            [""; 0]
        );
        let lossy = variant_warnings(&per_packet_variant("mtu: 1024"), &[run_with_reordering(1, 5, 2)]);
        assert!(lossy[0].contains("after one of 2 dropped packets"), "{lossy:?}");
    }
}
