//! Compares the MMU with measurements of real switch chips, to the cell.
//!
//! The measurements are in `data/chip-mmu.json`. A new row needs no code. A row has the chip's cell size,
//! pool size (in total, and the number of pipes), shared headroom pool and profile. It also has the number of
//! priority groups, the frame length, and the steps. The results are the frame of each group, counted from 1,
//! that causes XOFF, the first dropped frame, and the number of drained frames until XON. Each step applies
//! to all groups: fill to `xoff` or `drop`, or drain to `xon`, either `together` (a frame of each group in
//! turn) or `one after another`.

use serde::Deserialize;
use xoff_dataplane::PgId;
use xoff_dataplane::config::{BufferProfile, BufferThreshold, PoolConfig, PoolSide, SwitchConfig};
use xoff_dataplane::mmu::Mmu;

mod mmu_support;

#[derive(Deserialize)]
struct MeasurementTable {
    rows: Vec<MeasurementRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MeasurementRow {
    chip: String,
    /// `published` for the chip (measurement or test parameter), or `derived` by the calculation
    /// in the comment.
    origin: RowOrigin,
    comment: String,
    cell_bytes: u32,
    pool_bytes: u64,
    pool_xoff_bytes: u64,
    #[serde(default = "default_pipes")]
    pipes: u64,
    profile: RowProfile,
    frame_bytes: u32,
    groups: u16,
    steps: Vec<(FillOrder, StepEnd)>,
    xoff_at_frame: Option<Vec<u32>>,
    drop_at_frame: Option<Vec<u32>>,
    xon_after_frames: Option<Vec<u32>>,
}

fn default_pipes() -> u64 {
    1
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum RowOrigin {
    Published,
    Derived,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RowProfile {
    size_bytes: u64,
    dynamic_th: Option<i8>,
    static_th: Option<u64>,
    xoff_bytes: u64,
    xon_bytes: u64,
    xon_offset_bytes: u64,
}

#[derive(Clone, Copy, Deserialize)]
enum FillOrder {
    #[serde(rename = "together")]
    Together,
    #[serde(rename = "one after another")]
    OneAfterAnother,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StepEnd {
    Xoff,
    Drop,
    Xon,
}

impl MeasurementRow {
    fn config(&self) -> SwitchConfig {
        let threshold = match (self.profile.dynamic_th, self.profile.static_th) {
            (Some(n), None) => BufferThreshold::Dynamic(n),
            (None, Some(bytes)) => BufferThreshold::Static(bytes),
            _ => panic!("{}: exactly one of dynamic_th and static_th", self.chip),
        };
        let mut config = mmu_support::switch_config(usize::from(self.groups).div_ceil(8));
        config.cell_bytes = self.cell_bytes;
        config.pools = vec![PoolConfig {
            name: "ingress_lossless_pool".into(),
            side: PoolSide::Ingress,
            size_bytes: self.pool_bytes / self.pipes,
            xoff_bytes: self.pool_xoff_bytes / self.pipes,
        }];
        config.profiles = vec![BufferProfile {
            name: "pg_lossless".into(),
            pool: 0,
            size_bytes: self.profile.size_bytes,
            threshold,
            xoff_bytes: self.profile.xoff_bytes,
            xon_bytes: self.profile.xon_bytes,
            xon_offset_bytes: self.profile.xon_offset_bytes,
            trim: false,
        }];
        config
    }
}

/// The results of a group so far, in frames.
#[derive(Clone, Default)]
struct GroupProgress {
    held: u32,
    drained: u32,
    xoff_at: Option<u32>,
    drop_at: Option<u32>,
    xon_after: Option<u32>,
}

struct FillTest {
    mmu: Mmu,
    cells: u32,
    groups: Vec<GroupProgress>,
}

impl FillTest {
    fn run(row: &MeasurementRow) -> Vec<GroupProgress> {
        let mmu = Mmu::new(&row.config());
        let cells = mmu.frame_cells(row.frame_bytes);
        let mut fill = FillTest {
            mmu,
            cells,
            groups: vec![GroupProgress::default(); usize::from(row.groups)],
        };
        for &(order, until) in &row.steps {
            fill.run_step(order, until);
            fill.mmu.assert_consistent();
        }
        fill.groups
    }

    fn run_step(&mut self, order: FillOrder, until: StepEnd) {
        match order {
            FillOrder::OneAfterAnother => {
                for group in 0..self.groups.len() {
                    while self.add_or_remove_frame(group, until) {}
                }
            }
            FillOrder::Together => {
                let mut under_way: Vec<usize> = (0..self.groups.len()).collect();
                while !under_way.is_empty() {
                    under_way.retain(|&group| self.add_or_remove_frame(group, until));
                }
            }
        }
    }

    /// Adds or removes one frame. Returns false if the group has reached the end of the step.
    fn add_or_remove_frame(&mut self, group: usize, until: StepEnd) -> bool {
        match until {
            StepEnd::Xoff => self.groups[group].xoff_at.is_none() && self.add_frame(group),
            StepEnd::Drop => self.add_frame(group),
            StepEnd::Xon => self.groups[group].xon_after.is_none() && self.remove_frame(group),
        }
    }

    /// Adds a frame. Returns false if the frame was dropped.
    fn add_frame(&mut self, group: usize) -> bool {
        let pg = PgId(group as u16);
        let progress = &mut self.groups[group];
        let frame = progress.held + 1;
        let Ok(plan) = self.mmu.plan_ingress(pg, self.cells) else {
            progress.drop_at = Some(frame);
            return false;
        };
        progress.held = frame;
        if self.mmu.commit_ingress(pg, plan) {
            progress.xoff_at.get_or_insert(frame);
        }
        true
    }

    /// Removes a frame. Returns false if none is left.
    fn remove_frame(&mut self, group: usize) -> bool {
        if self.groups[group].held == 0 {
            return false;
        }
        let mut resumed = Vec::new();
        self.mmu
            .release_ingress(PgId(group as u16), self.cells, &mut resumed);
        self.groups[group].held -= 1;
        self.groups[group].drained += 1;
        for pg in resumed {
            let progress = &mut self.groups[pg.index()];
            progress.xon_after.get_or_insert(progress.drained);
        }
        true
    }
}

#[test]
fn mmu_results_equal_chip_measurements_to_the_cell() {
    let table: MeasurementTable =
        serde_json::from_str(include_str!("data/chip-mmu.json")).expect("the table");
    assert!(
        table
            .rows
            .iter()
            .filter(|row| row.origin == RowOrigin::Published)
            .count()
            >= 4
    );
    let mut differences = Vec::new();
    for row in &table.rows {
        let groups = FillTest::run(row);
        let mut compare =
            |what: &str, expected: &Option<Vec<u32>>, found: fn(&GroupProgress) -> Option<u32>| {
                let Some(expected) = expected else { return };
                let expected: Vec<_> = expected.iter().copied().map(Some).collect();
                let found: Vec<_> = groups.iter().map(found).collect();
                if expected != found {
                    let MeasurementRow { chip, comment, .. } = row;
                    differences.push(format!(
                        "{chip}: {what}: expected {expected:?}, found {found:?}\n  {comment}"
                    ));
                }
            };
        compare("XOFF at frame", &row.xoff_at_frame, |group| group.xoff_at);
        compare("drop at frame", &row.drop_at_frame, |group| group.drop_at);
        compare("XON after frames", &row.xon_after_frames, |group| group.xon_after);
    }
    assert!(differences.is_empty(), "\n{}", differences.join("\n"));
}
