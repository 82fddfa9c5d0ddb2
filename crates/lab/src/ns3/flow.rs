//! Flows of a scenario, and pauses in the results of the model.

/// A flow of a scenario, one row of the flow list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Node number of the sending host.
    pub src: u32,
    /// Node number of the receiving host.
    pub dst: u32,
    /// Priority of the data packets, 1 to 7.
    pub priority: u8,
    /// UDP destination port, which is an input of the ECMP hash in the model.
    pub dst_port: u16,
    /// Size of the flow in payload bytes.
    pub bytes: u64,
    /// Start time in nanoseconds since the start of the simulation.
    pub start_ns: u64,
    /// Time in nanoseconds from the start of the flow to its last acknowledgement, as the model measured it.
    /// `None` if the result file is missing or does not contain the flow.
    pub reference_ns: Option<u64>,
    /// The same time without other flows in the network, as the model computed it. `None` if `reference_ns`
    /// is `None`.
    pub ideal_ns: Option<u64>,
}

/// A pause or resume frame that a node received in the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseEvent {
    /// Arrival time in nanoseconds since the start of the simulation.
    pub time_ns: u64,
    /// Number of the receiving node.
    pub node: u32,
    /// Number of the interface of the node that received the frame, from 1.
    pub interface: u32,
    /// True for a pause frame, false for a resume frame.
    pub is_pause: bool,
}
