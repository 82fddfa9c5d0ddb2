//! The parts of requests, with errors as JSON.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Query, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::LengthLimitError;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{ErrorCode, ErrorReply};
use crate::resources::REQUEST_BYTES_MAX;
use crate::server::{BodyMemory, ServedSwitch, ServerState};
use crate::target::ControlTarget;

/// The result of a handler.
pub(super) type Answer = Result<Response, ErrorReply>;

/// The switch of a path. A path without a name means the only switch.
pub(super) struct Selected {
    server: Arc<ServerState>,
    switch: Arc<ServedSwitch>,
}

impl FromRequestParts<Arc<ServerState>> for Selected {
    type Rejection = ErrorReply;

    async fn from_request_parts(
        parts: &mut Parts,
        server: &Arc<ServerState>,
    ) -> Result<Selected, ErrorReply> {
        let named = path_parameter(parts, server, "switch").await;
        let names = || {
            server
                .switches
                .iter()
                .map(|switch| switch.name.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let switch = match (named, server.switches.as_slice()) {
            (Some(name), switches) => {
                switches
                    .iter()
                    .find(|switch| switch.name == name)
                    .ok_or_else(|| {
                        ErrorReply::new(ErrorCode::NotFound, format!("no switch is called {name:?}")).fix(
                            xoff_units::suggest(
                                &name,
                                switches.iter().map(|switch| switch.name.as_str()),
                                "switches",
                            ),
                        )
                    })?
            }
            (None, [only]) => only,
            (None, _) => {
                return Err(
                    ErrorReply::new(ErrorCode::SwitchNotNamed, "the server has several switches")
                        .because(format!("the switches are {}", names()))
                        .fix("name one of them: `--switch NAME`, or the path /v1/switches/NAME/... in a request"),
                );
            }
        };
        Ok(Selected {
            server: Arc::clone(server),
            switch: Arc::clone(switch),
        })
    }
}

impl Selected {
    /// Returns the switch.
    pub(super) fn target(&self) -> &Arc<dyn ControlTarget> {
        &self.switch.target
    }

    /// Answers with the value that `read` returns.
    pub(super) async fn answer<T: Serialize + 'static>(
        self,
        read: impl FnOnce(&dyn ControlTarget) -> Result<T, ErrorReply> + Send + 'static,
    ) -> Answer {
        let body = self
            .server
            .read(&self.switch, move |target| to_json(&read(target)?))
            .await?;
        Ok(json_response(body))
    }

    /// Calls `read` in a thread that may wait for the switch.
    pub(super) async fn read<R: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn ControlTarget) -> Result<R, ErrorReply> + Send + 'static,
    ) -> Result<R, ErrorReply> {
        self.server.read(&self.switch, read).await
    }

    /// Calls `change` in its turn. The change ends even if the client has gone.
    pub(super) async fn change<R: Send + 'static>(
        &self,
        change: impl FnOnce(&dyn ControlTarget) -> Result<R, ErrorReply> + Send + 'static,
    ) -> Result<R, ErrorReply> {
        self.server.change(&self.switch, change).await
    }
}

/// The parameter `port` of a path: the name of a port that the switch has.
pub(super) struct PortName(pub(super) String);

impl FromRequestParts<Arc<ServerState>> for PortName {
    type Rejection = ErrorReply;

    async fn from_request_parts(
        parts: &mut Parts,
        server: &Arc<ServerState>,
    ) -> Result<PortName, ErrorReply> {
        let selected = Selected::from_request_parts(parts, server).await?;
        let name = path_parameter(parts, server, "port").await.unwrap_or_default();
        let ports = selected.target().port_names();
        match ports.contains(&name) {
            true => Ok(PortName(name)),
            false => Err(
                ErrorReply::new(ErrorCode::NotFound, format!("the switch has no port {name:?}"))
                    .fix(format!("its ports are {}", ports.join(", "))),
            ),
        }
    }
}

async fn path_parameter(parts: &mut Parts, server: &Arc<ServerState>, name: &str) -> Option<String> {
    let parameters = RawPathParams::from_request_parts(parts, server).await.ok()?;
    parameters
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, value)| value.to_owned())
}

/// The query of a request.
pub(super) struct Parameters<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Parameters<T> {
    type Rejection = ErrorReply;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Parameters<T>, ErrorReply> {
        let query = Query::<T>::try_from_uri(&parts.uri);
        query.map(|Query(value)| Parameters(value)).map_err(|error| {
            ErrorReply::new(ErrorCode::BadRequest, "a parameter is missing, unknown or wrong")
                .because(error.body_text())
                .fix("see docs/control-api.md")
        })
    }
}

/// The JSON body of a request.
pub(super) struct JsonBody<T> {
    pub(super) value: T,
    /// The memory of the body is reserved until the end of the request.
    _memory: BodyMemory,
}

impl<T: DeserializeOwned> FromRequest<Arc<ServerState>> for JsonBody<T> {
    type Rejection = ErrorReply;

    async fn from_request(request: Request, server: &Arc<ServerState>) -> Result<JsonBody<T>, ErrorReply> {
        check_media_type(request.headers())?;
        let length = request.headers().get(header::CONTENT_LENGTH);
        let length = length
            .and_then(|value| value.to_str().ok())
            .and_then(|text| text.parse().ok());
        let memory = server.reserve_body(length)?;
        let bytes = read_body(request.into_body()).await?;
        let value = serde_json::from_slice(&bytes).map_err(|error| {
            ErrorReply::new(ErrorCode::BadRequest, "the body is not the expected JSON")
                .because(error)
                .fix("see docs/control-api.md")
        })?;
        Ok(JsonBody {
            value,
            _memory: memory,
        })
    }
}

fn check_media_type(headers: &HeaderMap) -> Result<(), ErrorReply> {
    let value = headers
        .get(header::CONTENT_TYPE)
        .map(HeaderValue::as_bytes)
        .unwrap_or_default();
    let media_type = value
        .split(|byte| *byte == b';')
        .next()
        .unwrap_or_default()
        .trim_ascii();
    let accepted: [&[u8]; 2] = [b"application/json", b"application/merge-patch+json"];
    match accepted
        .iter()
        .any(|known| media_type.eq_ignore_ascii_case(known))
    {
        true => Ok(()),
        false => Err(ErrorReply::new(
            ErrorCode::UnsupportedMediaType,
            "the body has no accepted media type",
        )
        .fix("send `Content-Type: application/json`; a change also accepts application/merge-patch+json")),
    }
}

async fn read_body(body: Body) -> Result<Bytes, ErrorReply> {
    axum::body::to_bytes(body, REQUEST_BYTES_MAX)
        .await
        .map_err(|error| {
            let mut cause: Option<&dyn std::error::Error> = Some(&error);
            while let Some(error) = cause {
                if error.is::<LengthLimitError>() {
                    return ErrorReply::new(
                        ErrorCode::TooLarge,
                        format!("the body is longer than {REQUEST_BYTES_MAX} bytes"),
                    )
                    .fix("send several shorter changes");
                }
                cause = error.source();
            }
            ErrorReply::new(ErrorCode::BadRequest, "the body is incomplete")
                .because(error)
                .fix("send as many bytes as `Content-Length` states")
        })
}

/// Converts a resource to JSON.
pub(super) fn to_json(value: &impl Serialize) -> Result<Bytes, ErrorReply> {
    serde_json::to_vec(value).map(Bytes::from).map_err(|error| {
        ErrorReply::new(ErrorCode::Internal, "the resource has no JSON form")
            .because(error)
            .fix("report this bug of xoff")
    })
}

/// Returns a response with a JSON body.
pub(super) fn json_response(body: Bytes) -> Response {
    let media_type = HeaderValue::from_static("application/json");
    (StatusCode::OK, [(header::CONTENT_TYPE, media_type)], body).into_response()
}
