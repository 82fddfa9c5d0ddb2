//! Flows of a scenario and pauses of the model.

/// A flow of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Number of the sending host.
    pub src: u32,
    /// Number of the receiving host.
    pub dst: u32,
    /// Priority, 1 to 7.
    pub priority: u8,
    /// UDP destination port. The ECMP hash of the model uses it.
    pub dst_port: u16,
    /// Payload bytes.
    pub bytes: u64,
    /// Start time in nanoseconds.
    pub start_ns: u64,
    /// Time from the start of the flow to its last acknowledgement in the model. `None` if the
    /// time is unknown.
    pub reference_ns: Option<u64>,
    /// The same time without other flows in the model.
    pub ideal_ns: Option<u64>,
}

/// A pause or resume frame that a node received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseEvent {
    /// Arrival time in nanoseconds.
    pub time_ns: u64,
    /// Number of the receiving node.
    pub node: u32,
    /// Interface of the node, from 1.
    pub interface: u32,
    /// Whether the frame is a pause. Otherwise it is a resume.
    pub is_pause: bool,
}
