//! The public configurations of the HPCC model.

const ALIBABA: &str = "alibaba-edu/High-Precision-Congestion-Control";
const TIANFENGFRANK: &str = "tianfengfrank/High-Precision-Congestion-Control";
const SHAWN918: &str = "Shawn918/High-Precision-Congestion-Control";
const LWANG: &str = "LWang-Hongyu/simulator";
const DONS: &str = "dons2023/NS3_Experiments";
const CYUE: &str = "cyue03/myTest";
const TIANCAI: &str = "tiancai4652/High-Precision-Congestion-Control";

/// A file of a repository.
#[derive(Clone, Copy, Debug)]
pub(super) struct File {
    pub(super) repository: &'static str,
    pub(super) path: &'static str,
}

/// A public configuration with its inputs and its published results, if there are any.
#[derive(Clone, Copy, Debug)]
pub(super) struct Configuration {
    /// Name of the run in the table and in the file of its result.
    pub(super) name: &'static str,
    /// Commit of the repository. Inputs of other repositories are read at their newest commit.
    pub(super) commit: &'static str,
    pub(super) configuration: File,
    pub(super) topology: File,
    /// File of the flows. With `None`, the flows follow from the results, which contain sender,
    /// receiver, port, length and start.
    pub(super) flows: Option<File>,
    pub(super) results: Option<File>,
    /// Whether the run takes more than two minutes.
    pub(super) is_long: bool,
    /// Reason why the completion times differ by more than the bound.
    pub(super) difference: Option<&'static str>,
}

const fn file(repository: &'static str, path: &'static str) -> File {
    File { repository, path }
}

const fn entry(
    name: &'static str,
    commit: &'static str,
    configuration: File,
    [topology, flows]: [File; 2],
    results: Option<File>,
) -> Configuration {
    Configuration {
        name,
        commit,
        configuration,
        topology,
        flows: Some(flows),
        results,
        is_long: false,
        difference: None,
    }
}

const fn dons(name: &'static str, configuration: &'static str, paths: [&'static str; 3]) -> Configuration {
    let [topology, flows, results] = paths;
    entry(
        name,
        "985e5cf",
        file(DONS, configuration),
        [file(DONS, topology), file(DONS, flows)],
        Some(file(DONS, results)),
    )
}

const fn shawn(name: &'static str, configuration: &'static str, results: &'static str) -> Configuration {
    let inputs = [
        file(SHAWN918, "simulation/mix/fat.txt"),
        file(SHAWN918, "simulation/mix/tmp_traffic.txt"),
    ];
    Configuration {
        is_long: true,
        ..entry(
            name,
            "cc99842",
            file(SHAWN918, configuration),
            inputs,
            Some(file(SHAWN918, results)),
        )
    }
}

const DIVERGES: &str = "the first flows are equal; two events in the same nanosecond are then in another order, and all later flows differ";

/// All configurations in the order of the table.
pub(super) const CONFIGURATIONS: [Configuration; 16] = [
    // The published results belong to the topology and flows of the HPCC authors, not to the files
    // of this repository.
    entry(
        "two flows to a host, HPCC",
        "39f0a97",
        file(TIANFENGFRANK, "simulation/mix/config_topology_flow_hp95ai50.txt"),
        [
            file(ALIBABA, "simulation/mix/topology.txt"),
            file(ALIBABA, "simulation/mix/flow.txt"),
        ],
        Some(file(
            TIANFENGFRANK,
            "simulation/mix/fct_topology_flow_hp95ai50.txt",
        )),
    ),
    entry(
        "short flows, HPCC",
        "39f0a97",
        file(TIANFENGFRANK, "simulation/mix/config.txt"),
        [
            file(TIANFENGFRANK, "simulation/mix/topology.txt"),
            file(TIANFENGFRANK, "simulation/mix/flow.txt"),
        ],
        Some(file(TIANFENGFRANK, "simulation/mix/fct.txt")),
    ),
    entry(
        "two flows to a host, HPCC with other increases",
        "cc99842",
        file(SHAWN918, "simulation/mix/config.txt"),
        [
            file(SHAWN918, "simulation/mix/topology.txt"),
            file(SHAWN918, "simulation/mix/flow.txt"),
        ],
        Some(file(SHAWN918, "simulation/mix/fct.txt")),
    ),
    entry(
        "two flows to a host, DCQCN",
        "217f1ec",
        file(LWANG, "mix/original/config_topology_flow_dcqcn.txt"),
        [
            file(LWANG, "mix/original/topology.txt"),
            file(LWANG, "mix/original/flow.txt"),
        ],
        Some(file(LWANG, "mix/original/fct_topology_flow_dcqcn.txt")),
    ),
    Configuration {
        flows: None,
        ..entry(
            "ten flows to a host, DCQCN",
            "42c1fc0",
            file(CYUE, "simulation/mix/config_topo_test_flow_test_dcqcn.txt"),
            [
                file(CYUE, "simulation/mix/topo_test.txt"),
                file(CYUE, "simulation/mix/flow_test.txt"),
            ],
            Some(file(CYUE, "simulation/mix/fct_topo_test_flow_test_dcqcn.txt")),
        )
    },
    entry(
        "twenty flows to a host, DCQCN with windows",
        "42c1fc0",
        file(CYUE, "simulation/mix/config.txt"),
        [
            file(CYUE, "simulation/mix/topology.txt"),
            file(CYUE, "simulation/mix/flow.txt"),
        ],
        None,
    ),
    dons(
        "fat-tree of 16 hosts",
        "mix/config.txt",
        [
            "mix/fattree4_topo.txt",
            "mix/fattree4_flow.txt",
            "mix/fct_fattree4.txt",
        ],
    ),
    dons(
        "GEANT network",
        "parallel_distributed/distributed_config.txt",
        [
            "mix/geanet_topo.txt",
            "mix/geanet_flow.txt",
            "parallel_distributed/fct_parallel1_geanet.txt",
        ],
    ),
    dons(
        "Abilene network",
        "parallel_distributed/distributed_config.txt",
        [
            "mix/abi_topo.txt",
            "mix/abi_flow.txt",
            "parallel_distributed/fct_parallel1_abi.txt",
        ],
    ),
    Configuration {
        is_long: true,
        ..dons(
            "fat-tree of 128 hosts",
            "mix/config.txt",
            [
                "mix/fattree8_topo.txt",
                "mix/fattree8_flow.txt",
                "mix/fct_fattree8.txt",
            ],
        )
    },
    Configuration {
        difference: Some(DIVERGES),
        ..shawn(
            "320 hosts at 30 % load, HPCC",
            "simulation/mix/config_topology_flow_hp95ai50.txt",
            "simulation/mix/fct_topology_flow_hp95ai50.txt",
        )
    },
    Configuration {
        difference: Some(DIVERGES),
        ..shawn(
            "320 hosts at 30 % load, TIMELY",
            "simulation/mix/config_fat_flow_timely.txt",
            "simulation/mix/fct_fat_flow_timely.txt",
        )
    },
    Configuration {
        difference: Some(DIVERGES),
        ..shawn(
            "the same with fixed windows",
            "simulation/mix/config_fat_flow_timely_fixwin.txt",
            "simulation/mix/fct_fat_flow_timely_fixwin.txt",
        )
    },
    Configuration {
        difference: Some(DIVERGES),
        ..shawn(
            "the same without windows",
            "simulation/mix/config_fat_flow_timely_nowin.txt",
            "simulation/mix/fct_fat_flow_timely_nowin.txt",
        )
    },
    Configuration {
        difference: Some("the branch `skip-sim` of the simulator passes over parts of long flows"),
        ..entry(
            "four flows to a host, HPCC",
            "9be7870",
            file(TIANCAI, "simulation/mix/config.txt"),
            [
                file(TIANCAI, "simulation/mix/topology.txt"),
                file(TIANCAI, "simulation/mix/flow.txt"),
            ],
            Some(file(TIANCAI, "simulation/mix/fct.txt")),
        )
    },
    entry(
        "the authors' own example",
        "9f4be2a",
        file(ALIBABA, "simulation/mix/config.txt"),
        [
            file(ALIBABA, "simulation/mix/topology.txt"),
            file(ALIBABA, "simulation/mix/flow.txt"),
        ],
        None,
    ),
];
