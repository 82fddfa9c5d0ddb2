//! The resources of the API. One list of routes gives the router and the OpenAPI document.

mod change;
mod extract;
mod read;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::timeout::TimeoutLayer;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::error::{ErrorCode, ErrorReply};
use crate::resources::{EventGap, REQUEST_BYTES_MAX};
use crate::server::ServerState;

/// Longest time until the head of a response. Event streams have no limit after the head.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// The parts of the OpenAPI document that no route gives.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "xoff control API",
        description = "The control API of running switches. docs/control-api.md describes it.",
        license(name = "Apache-2.0 OR MIT", identifier = "Apache-2.0 OR MIT")
    ),
    servers((url = "http://localhost", description = "The Unix socket of `--api PATH` or of a lab")),
    components(schemas(EventGap))
)]
struct Document;

/// Returns the routes of one switch.
fn switch_routes() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::new()
        .routes(routes!(read::counters))
        .routes(routes!(read::ports))
        .routes(routes!(read::port))
        .routes(routes!(read::interfaces))
        .routes(routes!(read::lags))
        .routes(routes!(read::mac_table))
        .routes(routes!(read::neighbours))
        .routes(routes!(read::routes))
        .routes(routes!(read::load_balancing))
        .routes(routes!(read::lldp))
        .routes(routes!(read::watchdog))
        .routes(routes!(read::pfc))
        .routes(routes!(read::buffers))
        .routes(routes!(read::taints))
        .routes(routes!(stream::events))
        .routes(routes!(
            read::config,
            change::replace_config,
            change::patch_config
        ))
        .routes(routes!(change::clear))
        .routes(routes!(read::mac_control, change::send_mac_control))
}

/// Returns all routes. The resources of a switch exist twice: below the name of the switch, and without a name
/// for the only switch.
fn all_routes() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(read::server))
        .routes(routes!(read::switches))
        .routes(routes!(read::switch))
        .nest("/v1/switches/{switch}", switch_routes())
        .nest("/v1", switch_routes())
}

/// Returns the OpenAPI document of the API.
pub fn api_document() -> Value {
    let document = all_routes().split_for_parts().1;
    let mut document = serde_json::to_value(document).expect("the document has string keys only");
    document["info"]["version"] = env!("CARGO_PKG_VERSION").into();
    remove_code_links(&mut document);
    if let Some(Value::Object(paths)) = document.get_mut("paths") {
        for (path, methods) in paths.iter_mut() {
            let Some(methods) = methods.as_object_mut() else {
                continue;
            };
            for operation in methods.values_mut() {
                complete_operation(path, operation);
            }
        }
    }
    document
}

/// Replaces links of rustdoc in all descriptions by their texts.
fn remove_code_links(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = text_without_links(text);
            }
            fields.values_mut().for_each(remove_code_links);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_code_links),
        _ => {}
    }
}

/// Returns a text with ``[`name`]`` and ``[`name`](target)`` replaced by `` `name` ``.
fn text_without_links(text: &str) -> String {
    let mut parts = text.split("[`");
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once("`]").unwrap_or((part, ""));
        let target = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        result.push_str(&format!("`{name}`{}", target.map_or(rest, |(_, rest)| rest)));
    }
    result
}

/// Completes the operation of a path. Responses need a description, nested routes lack the parameter of their
/// prefix, and both forms of a path have the same operation name.
fn complete_operation(path: &str, operation: &mut Value) {
    let responses = operation.get_mut("responses").and_then(Value::as_object_mut);
    for (status, response) in responses.into_iter().flatten() {
        if response["description"] == "" {
            let text = if status == "default" {
                "An error"
            } else {
                "The result"
            };
            response["description"] = text.into();
        }
    }
    if !path.contains("{switch}") || path.ends_with("{switch}") {
        return;
    }
    let name = operation["operationId"].as_str().unwrap_or_default().to_owned();
    operation["operationId"] = format!("switch_{name}").into();
    let parameter = json!({
        "name": "switch",
        "in": "path",
        "description": "Name of the switch",
        "required": true,
        "schema": {"type": "string"}
    });
    match operation.get_mut("parameters").and_then(Value::as_array_mut) {
        Some(parameters) => parameters.insert(0, parameter),
        None => operation["parameters"] = json!([parameter]),
    }
}

/// Returns the router of a server.
pub(crate) fn router(server: Arc<ServerState>) -> Router {
    all_routes()
        .split_for_parts()
        .0
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(RequestBodyLimitLayer::new(REQUEST_BYTES_MAX))
        .layer(TimeoutLayer::with_status_code(
            StatusCode::REQUEST_TIMEOUT,
            REQUEST_TIMEOUT,
        ))
        .layer(map_response(with_json_error))
        .with_state(server)
}

async fn unknown_path(uri: Uri) -> ErrorReply {
    ErrorReply::new(ErrorCode::NotFound, "no such resource")
        .at(uri.path())
        .fix("`xoff schema api` lists the resources")
}

async fn wrong_method(method: Method, request: Request) -> ErrorReply {
    ErrorReply::new(
        ErrorCode::MethodNotAllowed,
        format!("the resource has no method {method}"),
    )
    .at(request.uri().path())
    .fix("`Allow` lists its methods")
}

/// Gives a JSON body to an error that a library has created, such as a timeout.
async fn with_json_error(response: Response) -> Response {
    let status = response.status();
    let headers = response.headers();
    let json = HeaderValue::from_static("application/json");
    if !(status.is_client_error() || status.is_server_error())
        || headers.get(header::CONTENT_TYPE) == Some(&json)
    {
        return response;
    }
    let what = match status {
        StatusCode::PAYLOAD_TOO_LARGE => format!("the body is longer than {REQUEST_BYTES_MAX} bytes"),
        StatusCode::REQUEST_TIMEOUT => {
            format!(
                "the request was not answered within {} s",
                REQUEST_TIMEOUT.as_secs()
            )
        }
        status => status
            .canonical_reason()
            .unwrap_or("the request failed")
            .to_lowercase(),
    };
    let mut error = ErrorReply::new(ErrorCode::of_status(status), what).into_response();
    for (name, value) in headers {
        if !matches!(*name, header::CONTENT_TYPE | header::CONTENT_LENGTH) {
            error.headers_mut().insert(name, value.clone());
        }
    }
    error
}
