//! What a reader of a comparison has to know.

use super::super::plan::LabPlan;
use super::report::ComparedRun;
use super::subjects::Subject;
use xoff_rdma::Recovery;
use xoff_telemetry::{format_percent, group_thousands};

/// Warnings about a subject and its runs.
pub(super) fn warnings(subject: &Subject, runs: &[ComparedRun]) -> Vec<String> {
    let name = subject.scheme.as_deref().unwrap_or("one switch");
    let mut warnings: Vec<String> = reordering(&subject.plan, runs)
        .map(|warning| format!("{name}: {warning}"))
        .into_iter()
        .collect();
    // One switch has the transports and jobs of the lab, whose rows have said it.
    let of_lab = runs.first().filter(|_| subject.scheme.is_some());
    let ineffective = of_lab.map_or(&[][..], |run| &run.figures.warnings);
    warnings.extend(ineffective.iter().map(|warning| format!("{name}: {warning}")));
    let failed = |run: &&ComparedRun| !run.figures.failures.is_empty();
    if let (None, Some(run)) = (&subject.scheme, runs.iter().find(failed)) {
        let why = &run.figures.failures[0];
        warnings.push(format!(
            "{name}: the run with seed {} failed, so percentages lack it: {why}",
            run.figures.seed
        ));
    }
    warnings
}

/// Packets out of order at hosts that begin again at the first gap.
fn reordering(plan: &LabPlan, runs: &[ComparedRun]) -> Option<String> {
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
    let share = |run: &ComparedRun| {
        run.figures.totals.out_of_order_packets as f64 / run.figures.totals.data_packets.max(1) as f64
    };
    let worst = runs
        .iter()
        .max_by(|a, b| share(a).total_cmp(&share(b)))
        .filter(|run| run.figures.totals.out_of_order_packets > 0)?;
    let totals = &worst.figures.totals;
    let lost = match totals.dropped_frames {
        0 => String::new(),
        frames => format!(" or behind one of {} that were dropped", group_thousands(frames)),
    };
    Some(format!(
        "up to {} of the packets arrived out of order{lost} (seed {}), and hosts of transport \"{transport}\" recover by {recovery}, \
         which sends all behind a gap again: give it `out_of_order: true`, or `recovery: selective-repeat`",
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

    fn subject(transport: &str) -> Subject {
        let text = format!(
            "name: x\ntopology:\n  fabric:\n    star: {{hosts: 2}}\ntransports:\n  default: {{{transport}}}\nworkload:\n  jobs:\n    - {{name: a, kind: permutation, hosts: all, bytes: 1K}}\n"
        );
        let plan = parse_lab(&text, "x.yml", Path::new(""), TimeMode::Virtual);
        Subject {
            scheme: Some("per-packet".to_owned()),
            chosen: Vec::new(),
            values: Vec::new(),
            one_switch_for: None,
            plan: plan.unwrap_or_else(|problems| panic!("{problems}")),
            one_switch: None,
        }
    }

    fn run(seed: u64, out_of_order_packets: u64, dropped_frames: u64) -> ComparedRun {
        let mut run = ComparedRun {
            scheme: Some("per-packet".to_owned()),
            one_switch_for: None,
            tainted: false,
            figures: Default::default(),
        };
        run.figures.seed = seed;
        run.figures.totals.data_packets = 1_000;
        run.figures.totals.out_of_order_packets = out_of_order_packets;
        run.figures.totals.dropped_frames = dropped_frames;
        run
    }

    #[test]
    fn reordering_matters_to_hosts_that_begin_again() {
        let runs = [run(1, 0, 0), run(2, 250, 0), run(3, 10, 0)];
        let [warning] = warnings(&subject("recovery: go-back-n"), &runs)
            .try_into()
            .expect("one warning");
        for part in [
            "per-packet: ",
            "25",
            "seed 2",
            "\"default\"",
            "go-back-N",
            "out_of_order: true",
        ] {
            assert!(warning.contains(part), "no {part:?} in {warning}");
        }
        let tolerant = [
            "recovery: selective-repeat",
            "recovery: go-back-n, out_of_order: true",
        ];
        for transport in tolerant {
            assert_eq!(warnings(&subject(transport), &runs), [""; 0], "{transport}");
        }
        assert_eq!(warnings(&subject("mtu: 1024"), &[run(1, 0, 0)]), [""; 0]);
        let lossy = warnings(&subject("mtu: 1024"), &[run(1, 5, 2)]);
        assert!(
            lossy[0].contains("behind one of 2 that were dropped"),
            "{lossy:?}"
        );
    }
}
