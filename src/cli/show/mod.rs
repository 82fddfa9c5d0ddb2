//! `xoff show`: prints the state of a running switch in tables with SONiC's layout.

mod args;
mod balancing;
mod buffer;
mod buffer_args;
mod counters;
mod interfaces;
mod neighbours;
mod pfc;
mod pfcwd;
mod queues;
mod routes;
mod tabulate;
mod trimming;
mod watermarks;

pub(crate) use args::{
    LoadBalancingPart, ShowCommand, ShowCounters, ShowInterfaceCounters, ShowInterfaces, ShowIp,
    ShowLoadBalancing, ShowMac, ShowPfc, ShowPfcCounters, ShowPfcwd, ShowPfcwdStats, ShowPorts,
    ShowSwitchTrimming, ShowTable,
};
pub(crate) use buffer_args::{ClearWatermarks, ShowBuffer, ShowQueueCounters};

use super::{TargetArguments, output};
use xoff_runtime::control::{AddressFamily, Client, ControlAddress};
use xoff_telemetry::failure::{Exit, Failure};

/// Connects to the switch of the arguments.
pub(super) fn connect(target: &TargetArguments) -> Result<Client, Failure> {
    match (&target.api, &target.lab) {
        (Some(path), _) => Client::connect(&ControlAddress::Path(path.clone())),
        (None, Some(name)) => Client::connect(&super::lab::control_address(name)?),
        (None, None) => Err(Failure::usage("which switch?").fix("give --api PATH or --lab NAME")),
    }
}

pub(super) fn run(command: &ShowCommand) -> Result<Exit, Failure> {
    match command {
        ShowCommand::Counters(options) => counters::counters(options),
        ShowCommand::Mac(options) => neighbours::mac(options),
        ShowCommand::Arp(options) => neighbours::arp(options),
        ShowCommand::Ndp(options) => neighbours::ndp(options),
        ShowCommand::Ip(command) => ip(AddressFamily::Ipv4, command),
        ShowCommand::Ipv6(command) => ip(AddressFamily::Ipv6, command),
        ShowCommand::SwitchTrimming(ShowSwitchTrimming::Global(options)) => trimming::global(options),
        ShowCommand::Interfaces(command) => match command {
            ShowInterfaces::Status(options) => interfaces::status(options),
            ShowInterfaces::Counters(options) => interfaces::counters(options),
            ShowInterfaces::Portchannel(options) => interfaces::portchannel(options),
        },
        ShowCommand::LoadBalancing(options) => balancing::balancing(options),
        ShowCommand::PriorityGroup(command) => watermarks::groups(command),
        ShowCommand::Queue(command) => watermarks::queues(command),
        ShowCommand::BufferPool(command) => watermarks::pools(command, false),
        ShowCommand::HeadroomPool(command) => watermarks::pools(command, true),
        ShowCommand::Buffer(command) => buffer::buffer(command),
        ShowCommand::Pfc(command) => match command {
            ShowPfc::Counters(options) => pfc::counters(options),
            ShowPfc::Asymmetric(options) => pfc::asymmetric(options),
            ShowPfc::Priority(options) => pfc::priority(options),
        },
        ShowCommand::Pfcwd(command) => match command {
            ShowPfcwd::Config(options) => pfcwd::config(options),
            ShowPfcwd::Stats(options) => pfcwd::stats(options),
        },
    }
}

/// Clears watermarks.
pub(super) fn clear(command: &ClearWatermarks) -> Result<Exit, Failure> {
    watermarks::clear(command)
}

fn ip(family: AddressFamily, command: &ShowIp) -> Result<Exit, Failure> {
    match command {
        ShowIp::Route(options) => routes::routes(family, options),
        ShowIp::Interfaces(options) => interfaces::addresses(family, options),
    }
}

/// Prints a value as JSON or as the text of `table`.
fn print<T: serde::Serialize>(
    json: bool,
    what: &T,
    table: impl FnOnce(&T) -> String,
) -> Result<Exit, Failure> {
    if json {
        output::print_json(what)?;
    } else {
        output::print(&table(what))?;
    }
    Ok(Exit::Ok)
}
