//! Resolves the NICs of model hosts: receive buffer, PFC, DCBX and ETS.

use serde_saphyr::{Location, Spanned};
use xoff_dataplane::ids::PRIORITIES;

use super::super::plan::{DcbxPlan, EtsPlan, NicPlan};
use super::super::units;
use super::LabResolver;
use xoff_lab_file::{DcbxFields, EtsFields, NicFields};
use xoff_units::count_noun;

impl LabResolver<'_> {
    /// Resolves the `nic` options of a model host.
    pub(super) fn resolve_nic(&mut self, nic: &Spanned<NicFields>) -> NicPlan {
        let location = nic.referenced;
        let nic = &nic.value;
        let drain = nic.drain.as_ref().map(|text| {
            u64::from(self.parse_quantity(Some(text), 0, units::parse_speed_mbps, units::SPEED)) * 1_000_000
        });
        if nic.buffer_bytes.is_some() != drain.is_some() {
            let fix = "a slow receiver needs both: the size of its buffer and the speed at which it empties";
            self.report_problem(location, "`buffer_bytes` and `drain` go together", fix);
        }
        if nic.buffer_bytes == Some(0) {
            self.report_problem(
                location,
                "`buffer_bytes` is 0",
                "write 1 or more, or leave it out for a receiver that keeps up",
            );
        }
        let pfc_honoured = nic.pfc.as_ref().map(|priorities| {
            let mut bits = 0_u8;
            for priority in priorities {
                bits |= 1 << self.number_in_range(Some(priority), 0, 0..=7, "");
            }
            bits
        });
        let ets = nic.ets.as_ref().and_then(|ets| self.resolve_ets(ets));
        let dcbx = nic
            .dcbx
            .as_ref()
            .and_then(|dcbx| self.resolve_dcbx(dcbx, nic.ets.is_some()));
        if let Some(dcbx) = &dcbx {
            self.check_capabilities(location, dcbx, pfc_honoured, ets.as_ref());
        }
        NicPlan {
            response_ns: nic.response_ns,
            buffer_bytes: nic.buffer_bytes,
            drain_bps: drain,
            pfc_honoured,
            dcbx,
            ets,
        }
    }

    /// Resolves the field `dcbx`. Returns `None` if the host does not use LLDP.
    fn resolve_dcbx(&mut self, dcbx: &Spanned<DcbxFields>, has_ets: bool) -> Option<DcbxPlan> {
        let plan = |pfc_willing, ets_willing| DcbxPlan {
            pfc_willing,
            pfc_capability: 8,
            ets_willing,
            ets_capability: 8,
            ets_recommendation: has_ets,
        };
        match &dcbx.value {
            DcbxFields::Mode(mode) => match mode.as_str() {
                "off" => None,
                "willing" => Some(plan(true, true)),
                "not-willing" => Some(plan(false, false)),
                other => {
                    let fix = "write off, willing or not-willing, or a mapping such as {pfc_willing: true, ets_willing: \
                               false}";
                    self.report_problem(dcbx.referenced, format!("`dcbx` is {other}"), fix);
                    None
                }
            },
            DcbxFields::Settings(fields) => Some(DcbxPlan {
                pfc_capability: self.number_in_range(fields.pfc_capability.as_ref(), 8, 0..=8, "priorities"),
                ets_capability: self.number_in_range(
                    fields.ets_capability.as_ref(),
                    8,
                    1..=8,
                    "traffic classes",
                ),
                ets_recommendation: fields.ets_recommendation.unwrap_or(has_ets),
                ..plan(fields.pfc_willing == Some(true), fields.ets_willing == Some(true))
            }),
        }
    }

    /// Reports a configuration of the host that exceeds its own capability.
    fn check_capabilities(
        &mut self,
        location: Location,
        dcbx: &DcbxPlan,
        pfc_honoured: Option<u8>,
        ets: Option<&EtsPlan>,
    ) {
        // Without `pfc`, a willing host has PFC on no priority and the others on all.
        let enabled = pfc_honoured.unwrap_or(if dcbx.pfc_willing { 0 } else { 0xff });
        if enabled.count_ones() > u32::from(dcbx.pfc_capability) {
            let count = count_noun(enabled.count_ones().into(), "priority");
            let what = format!(
                "the NIC has PFC on {count}, and `pfc_capability` is {}",
                dcbx.pfc_capability
            );
            self.report_problem(
                location,
                what,
                "raise `pfc_capability`, or set `pfc` to fewer priorities",
            );
        }
        // The default has a class for each priority.
        let classes = ets.map_or(PRIORITIES as u8, EtsPlan::traffic_classes);
        if classes > dcbx.ets_capability {
            let what = format!(
                "the NIC has {classes} traffic classes, and `ets_capability` is {}",
                dcbx.ets_capability
            );
            self.report_problem(
                location,
                what,
                "raise `ets_capability`, or set `ets` with fewer classes",
            );
        }
    }

    /// Resolves the field `ets`. Returns `None` after an error.
    fn resolve_ets(&mut self, ets: &Spanned<EtsFields>) -> Option<EtsPlan> {
        let mut plan = EtsPlan {
            traffic_class: [0, 1, 2, 3, 4, 5, 6, 7],
            shares: [None; PRIORITIES],
        };
        if let Some(classes) = &ets.value.classes {
            let numbers = classes.value.iter();
            let numbers: Vec<u8> = numbers
                .map(|class| self.number_in_range(Some(class), 0, 0..=7, ""))
                .collect();
            let Ok(traffic_class) = numbers.try_into() else {
                let what = format!(
                    "`classes` has {}",
                    count_noun(classes.value.len() as u64, "entry")
                );
                let fix =
                    "write the traffic class of each of the 8 priorities, from priority 0 to priority 7";
                self.report_problem(classes.referenced, what, fix);
                return None;
            };
            plan.traffic_class = traffic_class;
        }
        let shares = &ets.value.shares;
        let (needed, given) = (plan.traffic_classes(), shares.value.len());
        if usize::from(needed) != given {
            let what = format!(
                "`shares` has {}, and the priorities have the traffic classes 0 to {}",
                count_noun(given as u64, "entry"),
                needed - 1
            );
            let fix = format!(
                "write {}, each a percentage or strict, or change `classes`",
                count_noun(needed.into(), "entry")
            );
            self.report_problem(shares.referenced, what, fix);
            return None;
        }
        for (share, text) in plan.shares.iter_mut().zip(&shares.value) {
            *share = self.parse_quantity(
                Some(text),
                None,
                parse_share,
                "a percentage from 0 to 100, or strict",
            );
        }
        let sum: u32 = plan.shares.iter().flatten().map(|share| u32::from(*share)).sum();
        if sum != 100 && plan.shares.iter().any(Option::is_some) {
            let what = format!("the sum of the shares is {sum} %");
            self.report_problem(
                shares.referenced,
                what,
                "change the percentages so that their sum is 100",
            );
        }
        Some(plan)
    }
}

/// Parses the share of a traffic class. The result is `None` if the text is invalid, and `Some(None)` for strict
/// priority.
fn parse_share(text: &str) -> Option<Option<u8>> {
    match text.trim() {
        "strict" => Some(None),
        percent => {
            let percent: u8 = percent.strip_suffix('%').unwrap_or(percent).trim().parse().ok()?;
            (percent <= 100).then_some(Some(percent))
        }
    }
}
