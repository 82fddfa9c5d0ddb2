//! The requests that change a switch.

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::Value;
use utoipa::IntoParams;

use super::extract::{Answer, JsonBody, Parameters, PortName, Selected, json_response, to_json};
use super::read::{etag, snapshot};
use crate::error::{ErrorCode, ErrorReply};
use crate::merge_patch::merge_patch;
use crate::pfc::read_pfc_ports;
use crate::resources::{ClearRequest, ConfigApplyReply, ConfigTables, MacControlRequest, NewConfig};
use crate::target::ControlTarget;
use xoff_wire::parse_hex_bytes;

#[derive(Clone, Copy, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ConfigQuery {
    /// Whether to report the changes without applying them. Default: false.
    #[param(required = false)]
    #[serde(default)]
    dry_run: bool,
    /// Whether to apply the change even if it loses lossless frames. Default: false.
    #[param(required = false)]
    #[serde(default)]
    force: bool,
}

/// Replaces the configuration, completely or not at all. With `If-Match`, the configuration must still have one
/// of the stated generations.
#[utoipa::path(
    put,
    path = "/config",
    params(ConfigQuery, ("If-Match" = Option<String>, Header, description = "Generation in quotes, or `*`")),
    request_body = ConfigTables,
    responses(
        (status = 200, body = ConfigApplyReply, headers(("ETag" = String, description = "Generation of the configuration"))),
        (status = "default", body = ErrorReply)
    )
)]
pub(super) async fn replace_config(
    selected: Selected,
    Parameters(query): Parameters<ConfigQuery>,
    headers: HeaderMap,
    JsonBody { value, .. }: JsonBody<Value>,
) -> Answer {
    change_config(selected, query, headers, move |_| NewConfig::Document(value)).await
}

/// Changes the configuration by a JSON merge patch (RFC 7386), completely or not at all. `null` removes a
/// field. With `If-Match`, the configuration must still have one of the stated generations.
#[utoipa::path(
    patch,
    path = "/config",
    params(ConfigQuery, ("If-Match" = Option<String>, Header, description = "Generation in quotes, or `*`")),
    request_body(content = ConfigTables, content_type = "application/merge-patch+json"),
    responses(
        (status = 200, body = ConfigApplyReply, headers(("ETag" = String, description = "Generation of the configuration"))),
        (status = "default", body = ErrorReply)
    )
)]
pub(super) async fn patch_config(
    selected: Selected,
    Parameters(query): Parameters<ConfigQuery>,
    headers: HeaderMap,
    JsonBody { value, .. }: JsonBody<Value>,
) -> Answer {
    let patched = move |target: &dyn ControlTarget| {
        let mut written = target.config().written_tables;
        merge_patch(&mut written, value);
        NewConfig::Written(written)
    };
    change_config(selected, query, headers, patched).await
}

/// Applies the configuration that `new_config` returns.
async fn change_config(
    selected: Selected,
    query: ConfigQuery,
    headers: HeaderMap,
    new_config: impl FnOnce(&dyn ControlTarget) -> NewConfig + Send + 'static,
) -> Answer {
    let expected = expected_generations(&headers)?;
    let (generation, body) = selected
        .change(move |target| {
            // No other change runs now, so the generation stays the same until the end of this change.
            check_generation(expected.as_deref(), target.config_generation())?;
            let config = new_config(target);
            let applied = target.apply_config(config, query.dry_run, query.force)?;
            Ok((applied.generation, to_json(&applied)?))
        })
        .await?;
    Ok(([(header::ETAG, etag(generation))], json_response(body)).into_response())
}

/// Returns the generations of the header `If-Match`. `None` means any generation.
fn expected_generations(headers: &HeaderMap) -> Result<Option<Vec<u64>>, ErrorReply> {
    let mut generations = Vec::new();
    let mut is_present = false;
    for value in headers.get_all(header::IF_MATCH) {
        is_present = true;
        for tag in value.to_str().unwrap_or("?").split(',') {
            let tag = tag.trim();
            if tag == "*" {
                return Ok(None);
            }
            let quoted = tag.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
            let tag = quoted.ok_or_else(|| {
                ErrorReply::new(ErrorCode::BadRequest, "If-Match has no entity tag")
                    .fix("write an entity tag: a word in quotes, such as \"7\"")
            })?;
            // An unknown tag matches no generation.
            generations.extend(tag.parse::<u64>());
        }
    }
    Ok(is_present.then_some(generations))
}

fn check_generation(expected: Option<&[u64]>, current: u64) -> Result<(), ErrorReply> {
    match expected.is_none_or(|expected| expected.contains(&current)) {
        true => Ok(()),
        false => Err(ErrorReply::new(
            ErrorCode::PreconditionFailed,
            "the configuration has changed meanwhile",
        )
        .because(format!("its generation is {current}"))
        .fix("read the configuration again, and repeat the change")),
    }
}

/// Clears counters or watermarks.
#[utoipa::path(
    post,
    path = "/clear",
    request_body = ClearRequest,
    responses((status = 204, description = "Cleared"), (status = "default", body = ErrorReply))
)]
pub(super) async fn clear(selected: Selected, JsonBody { value, .. }: JsonBody<ClearRequest>) -> Answer {
    let clear = move |target: &dyn ControlTarget| {
        match value {
            ClearRequest::Watermarks { kind, part } => target.clear_watermarks(kind, part),
            ClearRequest::Watchdog {} => target.clear_watchdog()?,
            ClearRequest::Pfc {} => target.set_pfc_baseline(read_pfc_ports(&snapshot(target)?.report))?,
        }
        Ok(())
    };
    selected.change(clear).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Sends a MAC control frame from a port, ahead of all queued frames.
#[utoipa::path(
    post,
    path = "/ports/{port}/mac-control",
    params(("port" = String, Path, description = "Name of the port, such as `Ethernet0`")),
    request_body = MacControlRequest,
    responses((status = 204, description = "Sent"), (status = "default", body = ErrorReply))
)]
pub(super) async fn send_mac_control(
    selected: Selected,
    PortName(name): PortName,
    JsonBody { value, .. }: JsonBody<MacControlRequest>,
) -> Answer {
    let frame = parse_hex_bytes(&value.frame).ok_or_else(|| {
        ErrorReply::new(ErrorCode::BadRequest, "the frame is not in hexadecimal digits")
            .because("each byte has two digits")
    })?;
    selected
        .change(move |target| Ok(target.send_mac_control(&name, &frame)?))
        .await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
