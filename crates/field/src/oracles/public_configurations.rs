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
pub(super) struct RepositoryFile {
    pub(super) repository: &'static str,
    pub(super) path: &'static str,
}

/// A public configuration with its inputs and its published results.
#[derive(Clone, Copy, Debug)]
pub(super) struct PublicConfiguration {
    /// Name of the run in the table and in the file of its result.
    pub(super) name: &'static str,
    /// Commit of the repository that contains the configuration. Inputs from other repositories are read at
    /// their newest commit.
    pub(super) commit: &'static str,
    pub(super) configuration: RepositoryFile,
    pub(super) topology: RepositoryFile,
    /// File with the flows. If the value is `None`, the flows are read from the results, which contain the
    /// sender, receiver, ports, length and start time of each flow.
    pub(super) flows: Option<RepositoryFile>,
    /// File with the published results. `None` if the repository publishes no results.
    pub(super) results: Option<RepositoryFile>,
    /// Whether the run takes more than two minutes.
    pub(super) is_long: bool,
    /// Reason why the completion times differ by more than the bound. `None` if they must be within
    /// the bound.
    pub(super) difference: Option<&'static str>,
}

const fn repository_file(repository: &'static str, path: &'static str) -> RepositoryFile {
    RepositoryFile { repository, path }
}

const fn public_configuration(
    name: &'static str,
    commit: &'static str,
    configuration: RepositoryFile,
    [topology, flows]: [RepositoryFile; 2],
    results: Option<RepositoryFile>,
) -> PublicConfiguration {
    PublicConfiguration {
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

const fn dons_configuration(
    name: &'static str,
    configuration: &'static str,
    paths: [&'static str; 3],
) -> PublicConfiguration {
    let [topology, flows, results] = paths;
    public_configuration(
        name,
        "985e5cf",
        repository_file(DONS, configuration),
        [repository_file(DONS, topology), repository_file(DONS, flows)],
        Some(repository_file(DONS, results)),
    )
}

const fn shawn_configuration(
    name: &'static str,
    configuration: &'static str,
    results: &'static str,
) -> PublicConfiguration {
    let inputs = [
        repository_file(SHAWN918, "simulation/mix/fat.txt"),
        repository_file(SHAWN918, "simulation/mix/tmp_traffic.txt"),
    ];
    PublicConfiguration {
        is_long: true,
        ..public_configuration(
            name,
            "cc99842",
            repository_file(SHAWN918, configuration),
            inputs,
            Some(repository_file(SHAWN918, results)),
        )
    }
}

const DIVERGES_AFTER_FIRST_FLOWS: &str = "the first flows are equal; two events in the same nanosecond are then in another order, and all later flows differ";

/// All configurations in the order of the table.
pub(super) const CONFIGURATIONS: [PublicConfiguration; 16] = [
    // The published results belong to the topology and the flows in the repository of the HPCC authors, and
    // not to the files of this repository.
    public_configuration(
        "two flows to a host, HPCC",
        "39f0a97",
        repository_file(TIANFENGFRANK, "simulation/mix/config_topology_flow_hp95ai50.txt"),
        [
            repository_file(ALIBABA, "simulation/mix/topology.txt"),
            repository_file(ALIBABA, "simulation/mix/flow.txt"),
        ],
        Some(repository_file(
            TIANFENGFRANK,
            "simulation/mix/fct_topology_flow_hp95ai50.txt",
        )),
    ),
    public_configuration(
        "short flows, HPCC",
        "39f0a97",
        repository_file(TIANFENGFRANK, "simulation/mix/config.txt"),
        [
            repository_file(TIANFENGFRANK, "simulation/mix/topology.txt"),
            repository_file(TIANFENGFRANK, "simulation/mix/flow.txt"),
        ],
        Some(repository_file(TIANFENGFRANK, "simulation/mix/fct.txt")),
    ),
    public_configuration(
        "two flows to a host, HPCC with other increases",
        "cc99842",
        repository_file(SHAWN918, "simulation/mix/config.txt"),
        [
            repository_file(SHAWN918, "simulation/mix/topology.txt"),
            repository_file(SHAWN918, "simulation/mix/flow.txt"),
        ],
        Some(repository_file(SHAWN918, "simulation/mix/fct.txt")),
    ),
    public_configuration(
        "two flows to a host, DCQCN",
        "217f1ec",
        repository_file(LWANG, "mix/original/config_topology_flow_dcqcn.txt"),
        [
            repository_file(LWANG, "mix/original/topology.txt"),
            repository_file(LWANG, "mix/original/flow.txt"),
        ],
        Some(repository_file(LWANG, "mix/original/fct_topology_flow_dcqcn.txt")),
    ),
    PublicConfiguration {
        flows: None,
        ..public_configuration(
            "ten flows to a host, DCQCN",
            "42c1fc0",
            repository_file(CYUE, "simulation/mix/config_topo_test_flow_test_dcqcn.txt"),
            [
                repository_file(CYUE, "simulation/mix/topo_test.txt"),
                repository_file(CYUE, "simulation/mix/flow_test.txt"),
            ],
            Some(repository_file(
                CYUE,
                "simulation/mix/fct_topo_test_flow_test_dcqcn.txt",
            )),
        )
    },
    public_configuration(
        "twenty flows to a host, DCQCN with windows",
        "42c1fc0",
        repository_file(CYUE, "simulation/mix/config.txt"),
        [
            repository_file(CYUE, "simulation/mix/topology.txt"),
            repository_file(CYUE, "simulation/mix/flow.txt"),
        ],
        None,
    ),
    dons_configuration(
        "fat-tree of 16 hosts",
        "mix/config.txt",
        [
            "mix/fattree4_topo.txt",
            "mix/fattree4_flow.txt",
            "mix/fct_fattree4.txt",
        ],
    ),
    dons_configuration(
        "GEANT network",
        "parallel_distributed/distributed_config.txt",
        [
            "mix/geanet_topo.txt",
            "mix/geanet_flow.txt",
            "parallel_distributed/fct_parallel1_geanet.txt",
        ],
    ),
    dons_configuration(
        "Abilene network",
        "parallel_distributed/distributed_config.txt",
        [
            "mix/abi_topo.txt",
            "mix/abi_flow.txt",
            "parallel_distributed/fct_parallel1_abi.txt",
        ],
    ),
    PublicConfiguration {
        is_long: true,
        ..dons_configuration(
            "fat-tree of 128 hosts",
            "mix/config.txt",
            [
                "mix/fattree8_topo.txt",
                "mix/fattree8_flow.txt",
                "mix/fct_fattree8.txt",
            ],
        )
    },
    PublicConfiguration {
        difference: Some(DIVERGES_AFTER_FIRST_FLOWS),
        ..shawn_configuration(
            "320 hosts at 30 % load, HPCC",
            "simulation/mix/config_topology_flow_hp95ai50.txt",
            "simulation/mix/fct_topology_flow_hp95ai50.txt",
        )
    },
    PublicConfiguration {
        difference: Some(DIVERGES_AFTER_FIRST_FLOWS),
        ..shawn_configuration(
            "320 hosts at 30 % load, TIMELY",
            "simulation/mix/config_fat_flow_timely.txt",
            "simulation/mix/fct_fat_flow_timely.txt",
        )
    },
    PublicConfiguration {
        difference: Some(DIVERGES_AFTER_FIRST_FLOWS),
        ..shawn_configuration(
            "the same with fixed windows",
            "simulation/mix/config_fat_flow_timely_fixwin.txt",
            "simulation/mix/fct_fat_flow_timely_fixwin.txt",
        )
    },
    PublicConfiguration {
        difference: Some(DIVERGES_AFTER_FIRST_FLOWS),
        ..shawn_configuration(
            "the same without windows",
            "simulation/mix/config_fat_flow_timely_nowin.txt",
            "simulation/mix/fct_fat_flow_timely_nowin.txt",
        )
    },
    PublicConfiguration {
        difference: Some("the branch `skip-sim` of the simulator passes over parts of long flows"),
        ..public_configuration(
            "four flows to a host, HPCC",
            "9be7870",
            repository_file(TIANCAI, "simulation/mix/config.txt"),
            [
                repository_file(TIANCAI, "simulation/mix/topology.txt"),
                repository_file(TIANCAI, "simulation/mix/flow.txt"),
            ],
            Some(repository_file(TIANCAI, "simulation/mix/fct.txt")),
        )
    },
    public_configuration(
        "the authors' own example",
        "9f4be2a",
        repository_file(ALIBABA, "simulation/mix/config.txt"),
        [
            repository_file(ALIBABA, "simulation/mix/topology.txt"),
            repository_file(ALIBABA, "simulation/mix/flow.txt"),
        ],
        None,
    ),
];
