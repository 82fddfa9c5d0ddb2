//! The resources that are only read.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header;
use axum::response::IntoResponse;
use serde::Deserialize;
use utoipa::IntoParams;

use super::extract::{Answer, Parameters, PortName, Selected, json_response, to_json};
use crate::error::{ErrorCode, ErrorReply};
use crate::pfc::{PfcPort, pfc_ports_since};
use crate::resources::{
    COUNTERS_SCHEMA, ConfigTables, CountersReply, MacControlFrame, ServerInfo, SwitchSummary, WatermarkKind,
};
use crate::server::ServerState;
use crate::tables::{AddressFamily, Interfaces, LagStatus, MacEntry, Neighbour, RouteEntry};
use crate::target::ControlTarget;
use xoff_telemetry::{LldpReport, LoadBalancingReport, PortReport, SwitchSnapshot, Taint, WatchdogReport};

/// Returns the snapshot. `snapshot` is `None` while the switch starts or stops. In this case, returns
/// an error.
pub(super) fn require_snapshot(snapshot: Option<SwitchSnapshot>) -> Result<SwitchSnapshot, ErrorReply> {
    snapshot.ok_or_else(|| {
        ErrorReply::new(ErrorCode::Unavailable, "the switch is starting or stopping")
            .fix("repeat the request")
    })
}

pub(super) fn snapshot(target: &dyn ControlTarget) -> Result<SwitchSnapshot, ErrorReply> {
    require_snapshot(target.snapshot())
}

/// Returns the server and the names of its switches.
#[utoipa::path(
    get,
    path = "/v1",
    responses((status = 200, body = ServerInfo), (status = "default", body = ErrorReply))
)]
pub(super) async fn server(State(server): State<Arc<ServerState>>) -> Answer {
    let switches = server.switches.iter().map(|switch| switch.name.clone()).collect();
    let info = ServerInfo {
        xoff_version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        switches,
    };
    Ok(json_response(to_json(&info)?))
}

/// Returns the switches of the server.
#[utoipa::path(
    get,
    path = "/v1/switches",
    responses((status = 200, body = Vec<SwitchSummary>), (status = "default", body = ErrorReply))
)]
pub(super) async fn switches(State(server): State<Arc<ServerState>>) -> Answer {
    let switches: Vec<SwitchSummary> = server
        .switches
        .iter()
        .map(|switch| summary(switch.target.as_ref()))
        .collect();
    Ok(json_response(to_json(&switches)?))
}

/// Returns a switch.
#[utoipa::path(
    get,
    path = "/v1/switches/{switch}",
    operation_id = "switch",
    params(("switch" = String, Path, description = "Name of the switch")),
    responses((status = 200, body = SwitchSummary), (status = "default", body = ErrorReply))
)]
pub(super) async fn switch(selected: Selected) -> Answer {
    selected.answer(|target| Ok(summary(target))).await
}

fn summary(target: &dyn ControlTarget) -> SwitchSummary {
    SwitchSummary {
        name: target.name(),
        config_generation: target.config_generation(),
        ports: target.port_names(),
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct CountersQuery {
    /// Kind of the watermarks in the counters. Default: `user`.
    #[param(inline, required = false)]
    #[serde(default)]
    watermarks: WatermarkKind,
}

/// Returns the counters, watermarks and pause states of a switch.
#[utoipa::path(
    get,
    path = "/counters",
    params(CountersQuery),
    responses((status = 200, body = CountersReply), (status = "default", body = ErrorReply))
)]
pub(super) async fn counters(selected: Selected, Parameters(query): Parameters<CountersQuery>) -> Answer {
    let counters = move |target: &dyn ControlTarget| {
        Ok(CountersReply {
            schema: COUNTERS_SCHEMA.to_owned(),
            switch: require_snapshot(target.watermarks(query.watermarks))?.into_report(),
        })
    };
    selected.answer(counters).await
}

/// Returns the counters of all ports.
#[utoipa::path(
    get,
    path = "/ports",
    responses((status = 200, body = Vec<PortReport>), (status = "default", body = ErrorReply))
)]
pub(super) async fn ports(selected: Selected) -> Answer {
    selected.answer(|target| Ok(snapshot(target)?.report.ports)).await
}

/// Returns the counters of a port.
#[utoipa::path(
    get,
    path = "/ports/{port}",
    params(("port" = String, Path, description = "Name of the port, such as `Ethernet0`")),
    responses((status = 200, body = PortReport), (status = "default", body = ErrorReply))
)]
pub(super) async fn port(selected: Selected, PortName(name): PortName) -> Answer {
    let port = move |target: &dyn ControlTarget| {
        let ports = snapshot(target)?.report.ports;
        let found = ports.into_iter().find(|port| port.name == name);
        found.ok_or_else(|| {
            ErrorReply::new(ErrorCode::NotFound, "the port does not exist")
                .at(&name)
                .fix("`GET /v1/ports` lists the ports")
        })
    };
    selected.answer(port).await
}

/// Returns the ports, LAGs and router interfaces with their states.
#[utoipa::path(
    get,
    path = "/interfaces",
    responses((status = 200, body = Interfaces), (status = "default", body = ErrorReply))
)]
pub(super) async fn interfaces(selected: Selected) -> Answer {
    selected.answer(|target| Ok(target.interfaces()?)).await
}

/// Returns the LAGs with their states.
#[utoipa::path(
    get,
    path = "/lags",
    responses((status = 200, body = Vec<LagStatus>), (status = "default", body = ErrorReply))
)]
pub(super) async fn lags(selected: Selected) -> Answer {
    selected.answer(|target| Ok(target.interfaces()?.lags)).await
}

/// Returns the learned MAC addresses, sorted by VLAN and address.
#[utoipa::path(
    get,
    path = "/mac-table",
    responses((status = 200, body = Vec<MacEntry>), (status = "default", body = ErrorReply))
)]
pub(super) async fn mac_table(selected: Selected) -> Answer {
    selected.answer(|target| Ok(target.mac_table()?)).await
}

/// Returns the neighbours of the router, sorted by interface and address.
#[utoipa::path(
    get,
    path = "/neighbours",
    responses((status = 200, body = Vec<Neighbour>), (status = "default", body = ErrorReply))
)]
pub(super) async fn neighbours(selected: Selected) -> Answer {
    selected.answer(|target| Ok(target.neighbours()?)).await
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct RoutesQuery {
    /// The address family. Default: both.
    #[param(inline, required = false)]
    family: Option<AddressFamily>,
}

/// Returns the routes, sorted by prefix. Static routes that are not in use are included.
#[utoipa::path(
    get,
    path = "/routes",
    params(RoutesQuery),
    responses((status = 200, body = Vec<RouteEntry>), (status = "default", body = ErrorReply))
)]
pub(super) async fn routes(selected: Selected, Parameters(query): Parameters<RoutesQuery>) -> Answer {
    let routes = move |target: &dyn ControlTarget| {
        let families = match query.family {
            Some(family) => vec![family],
            None => vec![AddressFamily::Ipv4, AddressFamily::Ipv6],
        };
        let mut routes: Vec<RouteEntry> = Vec::new();
        for family in families {
            routes.extend(target.routes(family)?);
        }
        Ok(routes)
    };
    selected.answer(routes).await
}

/// Returns the load balancing groups, their members and the latest flow moves. The value is null if the switch
/// has no group and counts no reordering.
#[utoipa::path(
    get,
    path = "/load-balancing",
    responses((status = 200, body = Option<LoadBalancingReport>), (status = "default", body = ErrorReply))
)]
pub(super) async fn load_balancing(selected: Selected) -> Answer {
    selected
        .answer(|target| Ok(snapshot(target)?.into_report().load_balancing))
        .await
}

/// Returns the LLDP neighbours of each port, and the results of the DCBX negotiation. The value is null if LLDP is off.
#[utoipa::path(
    get,
    path = "/lldp",
    responses((status = 200, body = Option<LldpReport>), (status = "default", body = ErrorReply))
)]
pub(super) async fn lldp(selected: Selected) -> Answer {
    selected.answer(|target| Ok(snapshot(target)?.report.lldp)).await
}

/// Returns the settings, states and statistics of the PFC watchdog. The value is null if the watchdog watches
/// no queue.
#[utoipa::path(
    get,
    path = "/watchdog",
    responses((status = 200, body = Option<WatchdogReport>), (status = "default", body = ErrorReply))
)]
pub(super) async fn watchdog(selected: Selected) -> Answer {
    selected
        .answer(|target| Ok(snapshot(target)?.report.pfc_watchdog))
        .await
}

/// Returns the PFC state of each port, and its PFC counters since the last clear.
#[utoipa::path(
    get,
    path = "/pfc",
    responses((status = 200, body = Vec<PfcPort>), (status = "default", body = ErrorReply))
)]
pub(super) async fn pfc(selected: Selected) -> Answer {
    let pfc =
        |target: &dyn ControlTarget| Ok(pfc_ports_since(&snapshot(target)?.report, &target.pfc_baseline()));
    selected.answer(pfc).await
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct BuffersQuery {
    /// Whether to include computed fields and the profiles in use. Default: false.
    #[param(required = false)]
    #[serde(default)]
    running: bool,
}

/// Returns the buffer tables of the configuration.
#[utoipa::path(
    get,
    path = "/buffers",
    params(BuffersQuery),
    responses((status = 200, body = ConfigTables), (status = "default", body = ErrorReply))
)]
pub(super) async fn buffers(selected: Selected, Parameters(query): Parameters<BuffersQuery>) -> Answer {
    selected
        .answer(move |target| Ok(target.buffers(query.running)?))
        .await
}

/// Returns the taints of the run. A taint is a reason for which the run proves nothing.
#[utoipa::path(
    get,
    path = "/taints",
    responses((status = 200, body = Vec<Taint>), (status = "default", body = ErrorReply))
)]
pub(super) async fn taints(selected: Selected) -> Answer {
    selected.answer(|target| Ok(target.taints())).await
}

#[derive(Clone, Copy, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ConfigFieldsQuery {
    /// Whether to return only the fields that were written, without computed fields. Default: false.
    #[param(required = false)]
    #[serde(default)]
    written: bool,
}

/// Returns the configuration in use, including computed fields. `ETag` is its generation.
#[utoipa::path(
    get,
    path = "/config",
    params(ConfigFieldsQuery),
    responses(
        (status = 200, body = ConfigTables, headers(("ETag" = String, description = "Generation of the configuration"))),
        (status = "default", body = ErrorReply)
    )
)]
pub(super) async fn config(selected: Selected, Parameters(query): Parameters<ConfigFieldsQuery>) -> Answer {
    let (generation, body) = selected
        .read(move |target| {
            let config = target.config();
            let tables = match query.written {
                true => &config.written_tables,
                false => &config.tables,
            };
            Ok((config.generation, to_json(tables)?))
        })
        .await?;
    Ok(([(header::ETAG, etag(generation))], json_response(body)).into_response())
}

/// Returns the entity tag of a generation.
pub(super) fn etag(generation: u64) -> HeaderValue {
    HeaderValue::try_from(format!("\"{generation}\"")).expect("digits and quotes are valid in a header")
}

/// Returns the latest MAC control frames that a port received, oldest first. The switch keeps the latest 256
/// frames of all its ports.
#[utoipa::path(
    get,
    path = "/ports/{port}/mac-control",
    params(("port" = String, Path, description = "Name of the port, such as `Ethernet0`")),
    responses((status = 200, body = Vec<MacControlFrame>), (status = "default", body = ErrorReply))
)]
pub(super) async fn mac_control(selected: Selected, PortName(name): PortName) -> Answer {
    selected
        .answer(move |target| Ok(target.mac_control(&name)?))
        .await
}
