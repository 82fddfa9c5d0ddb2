//! Tests of the output formats, compared with nccl-tests column by column.

use super::*;
use crate::DistributionSummary;

fn job() -> JobResults {
    let size = |bytes: u64, times_ns: Vec<f64>, algbw: f64| SizeResults {
        bytes,
        time_ns: DistributionSummary::of(times_ns.clone()).unwrap(),
        times_ns,
        roofline_ns: 1_000,
        roofline_ratio: Some(1.5),
        algorithm_bandwidth_gbytes_per_s: algbw,
        bus_bandwidth_gbytes_per_s: algbw * 1.75,
    };
    JobResults {
        name: "ring".to_owned(),
        jct_ns: Some(5_000),
        roofline_ns: 4_000,
        jct_ratio: Some(1.25),
        collective: Some(CollectiveResults {
            algorithm: "RingAllReduce".to_owned(),
            operation: "all_reduce".to_owned(),
            ranks: 8,
            gpus_per_node: 4,
            iterations: 2,
            warmup: 1,
            sizes: vec![
                size(1024, vec![12_300.0, 12_400.0], 0.0829),
                size(1 << 30, vec![24_000_000.0, 24_000_000.0], 44.74),
            ],
        }),
        ..JobResults::default()
    }
}

fn with_run<T>(per_iteration: bool, job: &JobResults, give: impl Fn(&NcclRun<'_>) -> T) -> T {
    give(&NcclRun {
        job,
        args: &["xoff".to_owned()],
        hosts: &["h0".to_owned(), "h1".to_owned()],
        per_iteration,
        xoff: json!({ "drops": 0 }),
    })
}

#[test]
fn table_has_the_columns_of_nccl_tests() {
    let table = with_run(false, &job(), |run| run.table()).unwrap();
    let lines: Vec<&str> = table.lines().collect();
    let after = lines
        .iter()
        .position(|line| line.contains("out-of-place"))
        .unwrap();
    let expected = [
        "#                                                              out-of-place                       in-place          ",
        "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong ",
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         ",
        "        1024           256     float     sum      -1    12.35    0.08    0.15     N/A    12.35    0.08    0.15     N/A",
        "  1073741824     268435456     float     sum      -1  24000.0   44.74   78.30     N/A  24000.0   44.74   78.30     N/A",
        "# Out of bounds values : 0 OK",
        "# Avg bus bandwidth    : 39.22 ",
        "#",
        "# Collective test concluded: all_reduce_perf",
    ];
    assert_eq!(lines[after..], expected);
    assert!(lines[..after].iter().all(|line| line.starts_with('#')));
    assert!(
        table
            .contains("minBytes 1024 maxBytes 1073741824 step: 1048576(factor) warmup iters: 1 iters: 2 agg")
    );
}

#[test]
fn columns_of_single_iterations_line_up() {
    let table = with_run(true, &job(), |run| run.table()).unwrap();
    let line = |begin: &str| {
        table
            .lines()
            .find(|line| line.trim_start_matches('#').trim_start().starts_with(begin))
    };
    let (titles, values) = (line("size").unwrap(), line("1024").unwrap());
    assert_eq!(titles.trim_end().len(), values.len());
    assert_eq!(
        values.split_whitespace().count(),
        titles.split_whitespace().count() - 1
    );
    assert!(values.ends_with("12.30    12.40    12.40     0.40"), "{values}");
}

#[test]
fn json_has_the_keys_of_nccl_tests() {
    let value = with_run(false, &job(), |run| run.json()).unwrap();
    assert_eq!(value["version"], 2);
    assert_eq!(value["config"]["iterations"], 2);
    assert_eq!(value["config"]["devices"][1]["hostname"], "h1");
    let first = &value["results"][0];
    assert_eq!(
        (&first["size"], &first["count"], &first["redop"]),
        (&json!(1024), &json!(256), &json!("sum"))
    );
    assert_eq!(first["out_of_place"]["time"], 12.35);
    assert_eq!(first["out_of_place"]["nwrong"], Value::Null);
    assert_eq!(first["out_of_place_per_iter"]["min_us"], 12.3);
    assert_eq!(first["out_of_place_per_iter"]["times_us"], json!([12.3, 12.4]));
    let average = value["average_bus_bandwidth"]["bandwidth"].as_f64().unwrap();
    assert!((average - (0.0829 + 44.74) * 1.75 / 2.0).abs() < 1e-9);
    assert_eq!(
        (&value["xoff"]["jct_ratio"], &value["xoff"]["drops"]),
        (&json!(1.25), &json!(0))
    );
}

#[test]
fn counts_are_those_of_one_rank_except_for_all_reduce() {
    let mut job = job();
    if let Some(collective) = &mut job.collective {
        collective.operation = "alltoall".to_owned();
    }
    let value = with_run(false, &job, |run| run.json()).unwrap();
    assert_eq!(
        (&value["results"][0]["count"], &value["results"][0]["redop"]),
        (&json!(32), &json!("none"))
    );
    job.collective = None;
    assert!(with_run(false, &job, |run| run.table()).is_none());
}

#[test]
fn numbers_have_the_width_of_nccl_tests() {
    let cases = [
        (0.0, "   0.00"),
        (9_999.994, "9999.99"),
        (12_345.67, "12345.7"),
        (123_456.7, " 123457"),
        (1_234_567.8, "1234568"),
    ];
    for (value, text) in cases {
        assert_eq!(format_float(value, 7), text);
    }
    assert_eq!(format_float(12_345_678.0, 7), "1.2e+07");
    assert_eq!(format_float(1_234.5, 6), "1234.5");
    assert_eq!(
        [
            format_general(0.0),
            format_general(39.217_5),
            format_general(1_234_567.0),
            format_general(1.5)
        ],
        ["0", "39.2175", "1234567", "1.5"]
    );
}
