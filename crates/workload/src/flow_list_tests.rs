//! Tests of both formats and of their errors.

use super::*;

/// Finds a host by name or by index.
fn host(name: &str) -> Result<u32, String> {
    let by_name = ["gpu0", "gpu1", "2"].iter().position(|known| *known == name);
    let by_index = name.parse().ok().filter(|index| *index < 3);
    let found = by_name.map(|at| at as u32).or(by_index);
    found.ok_or_else(|| format!("there is no host `{name}`"))
}

fn parse(text: &str, format: FlowListFormat) -> Result<Vec<ListedFlow>, FlowListError> {
    parse_flow_list(text, format, &host)
}

#[test]
fn csv_takes_names_and_indices() {
    let text = "src,dst,bytes,start_ns\n# storage\n gpu0 , gpu1,4096,0\n\n1,2,1,1000.0005\n";
    let flows = parse(text, FlowListFormat::Csv).unwrap();
    let short: Vec<_> = flows
        .iter()
        .map(|flow| (flow.src, flow.dst, flow.bytes, flow.start))
        .collect();
    assert_eq!(short, [(0, 1, 4096, Picos(0)), (1, 2, 1, Picos(1_000_000))]);
    assert_eq!(flows[0].priority, None);
}

#[test]
fn ns3_start_times_keep_nanoseconds() {
    let text = "2\n0 1 3 100 30000 2.000000001\n1 2 0 65535 1 9000000.123456789\n";
    let flows = parse(text, FlowListFormat::Ns3).unwrap();
    assert_eq!(
        flows[0],
        ListedFlow {
            src: 0,
            dst: 1,
            bytes: 30_000,
            start: Picos(2_000_000_001_000),
            priority: Some(3),
            dst_port: Some(100),
        }
    );
    assert_eq!(flows[1].start, Picos(9_000_000_123_456_789_000));
}

/// `third.cc` reads with `>>`. Words can be separated by any white space. The first word is the number of
/// flows, and later text is ignored.
#[test]
fn ns3_lists_end_at_the_announced_count() {
    let flow = |text: &str| parse(text, FlowListFormat::Ns3).unwrap();
    let expected = flow("2\n0 1 3 100 5 1\n1 2 3 101 6 2\n");
    for text in [
        "2 0 1 3 100 5 1 1 2 3 101 6 2",
        "2\n\n0 1 3\n100 5 1\n1\t2 3  101 6 2e0",
        "2\n0 1 3 100 5 1\n1 2 3 101 6 2\n0 2 3 100 7 3\n",
        "2\n0 1 3 100 5 1\n1 2 3 101 6 2\n\nFirst line: # of flows\nsrc0 dst0 3 ...\n",
    ] {
        assert_eq!(flow(text), expected, "{text:?}");
    }
    assert_eq!(flow("0\nnothing follows"), []);
}

#[test]
fn errors_name_line_and_column() {
    let csv = [
        ("gpu0,gpu9,1,0", "line 1, column 6: there is no host `gpu9`"),
        ("gpu0,3,1,0", "line 1, column 6: there is no host `3`"),
        (
            "gpu0,gpu1,1,0\ngpu0,gpu1, x,0",
            "line 2, column 12: `x` is not a whole number (bytes)",
        ),
        ("gpu0,gpu1,1,-5", "line 1, column 13: `-5` is not a time"),
        ("gpu0,gpu1,1,", "line 1, column 13: `` is not a time"),
        (
            "gpu0,gpu1,1,99999999999999999999",
            "line 1, column 13: `99999999999999999999` is later than model time can say",
        ),
        (
            "gpu0,gpu1,1",
            "line 1, column 12: 3 fields where `src,dst,bytes,start_ns` are expected",
        ),
        ("gpu1,1,1,0", "line 1, column 6: a flow from a host to itself"),
    ];
    let ns3 = [
        ("1\n0  1 8 1 1 0", "line 2, column 6: priority 8 is more than 7"),
        (
            "2\n0 1 3 1 1 0",
            "line 3, column 1: 2 flows announced, but only 1 here; a flow is `src dst priority dst_port bytes start_s`",
        ),
        (
            "1\n0 1 3 1 1\n",
            "line 3, column 1: 1 flow announced, but only 0 here; a flow is `src dst priority dst_port bytes start_s`",
        ),
        (
            "",
            "line 1, column 1: the list is empty; the first word is the number of flows",
        ),
        ("1\n0 9 3 1 1 0", "line 2, column 3: there is no host `9`"),
        (
            "1\n0 1 3 70000 1 0",
            "line 2, column 7: destination port 70000 is more than 65535",
        ),
        ("1\n0 1 3 1 1 -1e3", "line 2, column 11: `-1e3` is not a time"),
    ];
    let csv = csv.map(|(text, error)| (FlowListFormat::Csv, text, error));
    for (format, text, error) in csv
        .into_iter()
        .chain(ns3.map(|(text, error)| (FlowListFormat::Ns3, text, error)))
    {
        assert_eq!(parse(text, format).unwrap_err().to_string(), error, "{text}");
    }
}
