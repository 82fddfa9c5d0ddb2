//! `xoff show`: prints the state of a running switch in tables with SONiC's layout.

mod args;
mod balancing;
mod buffer;
mod buffer_args;
mod counters;
mod interfaces;
mod lldp;
mod neighbours;
mod pfc;
mod pfcwd;
mod queues;
mod routes;
mod table_args;
mod tabulate;
mod trimming;
mod watermarks;

pub(crate) use args::{
    LoadBalancingPart, ShowCommand, ShowCounters, ShowInterfaceCounters, ShowInterfaces, ShowIp, ShowLldp,
    ShowLoadBalancing, ShowMac, ShowPfc, ShowPfcCounters, ShowPfcWatchdogCommand, ShowPfcwdStats,
    ShowSwitchTrimming,
};
pub(crate) use buffer_args::{ClearWatermarkCommand, ShowBuffer, ShowQueueCounters};
pub(crate) use table_args::{PortTableArguments, TableArguments};

use super::{TargetArguments, output};
use xoff_control::{AddressFamily, Client, ControlAddress};
use xoff_telemetry::failure::{Exit, Failure};

/// Connects to the control API of the running switch that the arguments name.
pub(super) fn connect(target: &TargetArguments) -> Result<Client, Failure> {
    let address = match (&target.address.api, &target.address.lab) {
        (Some(path), _) => ControlAddress::Path(path.clone()),
        (None, Some(name)) => super::running_labs::control_address(name)?,
        (None, None) => {
            return Err(Failure::usage("no switch is named").fix("give --api PATH or --lab NAME"));
        }
    };
    let client = Client::connect(&address)?;
    Ok(match &target.switch {
        Some(name) => client.for_switch(name),
        None => client,
    })
}

/// Runs a command of `xoff show`.
pub(super) fn run(command: &ShowCommand) -> Result<Exit, Failure> {
    match command {
        ShowCommand::Counters(options) => counters::show_counters(options),
        ShowCommand::Mac(options) => neighbours::show_mac(options),
        ShowCommand::Arp(options) => neighbours::show_arp(options),
        ShowCommand::Ndp(options) => neighbours::show_ndp(options),
        ShowCommand::Lldp(ShowLldp::Table(options)) => lldp::show_table(options),
        ShowCommand::Lldp(ShowLldp::Neighbors(options)) => lldp::show_neighbours(options),
        ShowCommand::Ip(command) => show_ip(AddressFamily::Ipv4, command),
        ShowCommand::Ipv6(command) => show_ip(AddressFamily::Ipv6, command),
        ShowCommand::SwitchTrimming(ShowSwitchTrimming::Global(options)) => trimming::show_global(options),
        ShowCommand::Interfaces(command) => match command {
            ShowInterfaces::Status(options) => interfaces::show_status(options),
            ShowInterfaces::Counters(options) => interfaces::show_counters(options),
            ShowInterfaces::Portchannel(options) => interfaces::show_portchannels(options),
        },
        ShowCommand::LoadBalancing(options) => balancing::show_load_balancing(options),
        ShowCommand::PriorityGroup(command) => watermarks::show_priority_groups(command),
        ShowCommand::Queue(command) => watermarks::show_queues(command),
        ShowCommand::BufferPool(command) => watermarks::show_pools(command, false),
        ShowCommand::HeadroomPool(command) => watermarks::show_pools(command, true),
        ShowCommand::Buffer(command) => buffer::show_buffer(command),
        ShowCommand::Pfc(command) => match command {
            ShowPfc::Counters(options) => pfc::show_counters(options),
            ShowPfc::Asymmetric(options) => pfc::show_asymmetric(options),
            ShowPfc::Priority(options) => pfc::show_priority(options),
        },
        ShowCommand::Pfcwd(command) => match command {
            ShowPfcWatchdogCommand::Config(options) => pfcwd::show_config(options),
            ShowPfcWatchdogCommand::Stats(options) => pfcwd::show_stats(options),
        },
    }
}

/// Runs a command of `xoff clear` for watermarks.
pub(super) fn clear_watermarks(command: &ClearWatermarkCommand) -> Result<Exit, Failure> {
    watermarks::clear_watermarks(command)
}

fn show_ip(family: AddressFamily, command: &ShowIp) -> Result<Exit, Failure> {
    match command {
        ShowIp::Route(options) => routes::show_routes(family, options),
        ShowIp::Interfaces(options) => interfaces::show_addresses(family, options),
    }
}

/// Prints a reply of the switch as JSON or as the text of `table`.
fn print<T: serde::Serialize>(
    as_json: bool,
    reply: &T,
    table: impl FnOnce(&T) -> String,
) -> Result<Exit, Failure> {
    if as_json {
        output::print_json(reply);
    } else {
        output::print(&table(reply));
    }
    Ok(Exit::Ok)
}

/// Prints a reply like [`print()`]. If the table is empty, a line on standard error says what is empty and why. The
/// table on standard output keeps the layout of SONiC.
fn print_with_reason<T: serde::Serialize>(
    as_json: bool,
    reply: &T,
    empty: Option<&str>,
    table: impl FnOnce(&T) -> String,
) -> Result<Exit, Failure> {
    let exit = print(as_json, reply, table)?;
    if let Some(reason) = empty.filter(|_| !as_json) {
        output::print_note(&format!("note: {reason}"));
    }
    Ok(exit)
}
