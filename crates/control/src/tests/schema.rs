//! The OpenAPI document against the router, and responses against the document.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::{Value, json};

use super::TestServer;
use super::http::Response;
use crate::api_document;

/// The document. Its objects permit no other fields than their own, so that a missing field of the document is
/// found.
static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let mut document = api_document();
    close_objects(&mut document);
    document
});

fn close_objects(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.contains_key("properties") && !fields.contains_key("additionalProperties") {
                fields.insert("additionalProperties".to_owned(), false.into());
            }
            fields.values_mut().for_each(close_objects);
        }
        Value::Array(items) => items.iter_mut().for_each(close_objects),
        _ => {}
    }
}

const METHODS: [&str; 6] = ["get", "put", "post", "patch", "delete", "options"];

fn matches(template: &str, path: &str) -> bool {
    let (template, path): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
    template.len() == path.len()
        && template
            .iter()
            .zip(path)
            .all(|(known, part)| known.starts_with('{') || *known == part)
}

/// Checks that a response has the form that the document states for its path, method and status.
pub(super) fn check_response(method: &str, path: &str, response: &Response) {
    let path = path.split('?').next().unwrap_or_default();
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let found = paths.iter().filter(|(template, _)| matches(template, path));
    let operation = found.min_by_key(|(template, _)| template.matches('{').count());
    let responses = operation.map(|(_, methods)| &methods[method.to_ascii_lowercase()]["responses"]);
    let error = json!({"$ref": "#/components/schemas/ErrorReply"});
    let stated = responses.map(|responses| match &responses[response.status.to_string()] {
        Value::Null => &responses["default"],
        stated => stated,
    });
    let schema = match stated {
        // Errors of unknown paths and methods have the same form as other errors.
        None | Some(Value::Null) if response.status >= 400 => &error,
        Some(stated) if !stated.is_null() => match &stated["content"] {
            Value::Null => {
                assert!(response.body.is_empty(), "{method} {path}: {response:?}");
                return;
            }
            content => &content["application/json"]["schema"],
        },
        _ => panic!("{method} {path} is not in the document"),
    };
    assert_eq!(
        response.header("content-type"),
        Some("application/json"),
        "{method} {path}: {response:?}"
    );
    let mut root = schema.clone();
    root["components"] = DOCUMENT["components"].clone();
    let validator = jsonschema::validator_for(&root).expect("a valid schema");
    let body = response.json();
    let errors: Vec<String> = validator
        .iter_errors(&body)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{method} {path}: {errors:#?}\n{body:#}");
}

/// Returns the path of a template for the fake switch.
fn concrete_path(template: &str) -> String {
    template.replace("{switch}", "sw0").replace("{port}", "Ethernet0")
}

#[test]
fn the_router_answers_exactly_the_methods_of_the_document() {
    let running = TestServer::start();
    let paths = DOCUMENT["paths"].as_object().unwrap();
    assert!(paths.len() > 30, "{} paths", paths.len());
    for (template, methods) in paths {
        let path = concrete_path(template);
        for method in METHODS {
            let response = running.request(&method.to_ascii_uppercase(), &path, &[], "");
            match methods[method].is_null() {
                true => {
                    assert_eq!(response.status, 405, "{method} {path}");
                    assert!(response.header("allow").is_some(), "{method} {path}");
                }
                // A change without a body has no media type.
                false if method == "get" => assert_eq!(response.status, 200, "{method} {path}"),
                false => assert_eq!(response.status, 415, "{method} {path}"),
            }
        }
    }
}

#[test]
fn operation_names_are_unique_and_path_parameters_are_declared() {
    let mut names = BTreeSet::new();
    for (path, methods) in DOCUMENT["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap_or_default();
            assert!(
                !name.is_empty() && names.insert(name.to_owned()),
                "{method} {path}: {name:?}"
            );
            let declared: BTreeSet<&str> = operation["parameters"]
                .as_array()
                .into_iter()
                .flatten()
                .filter(|parameter| parameter["in"] == "path")
                .map(|parameter| parameter["name"].as_str().unwrap())
                .collect();
            let used = path
                .split('/')
                .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
            assert_eq!(declared, used.collect(), "{method} {path}");
        }
    }
}

#[test]
fn a_response_that_does_not_match_its_schema_is_found() {
    let wrong = |body: Value| Response {
        status: 200,
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body: body.to_string().into_bytes(),
    };
    let server = json!({"xoff_version": "1", "pid": 1, "switches": []});
    check_response("GET", "/v1", &wrong(server.clone()));
    for (field, value) in [("pid", json!("x")), ("more", json!(1))] {
        let mut body = server.clone();
        body[field] = value;
        let response = wrong(body);
        let result = std::panic::catch_unwind(|| check_response("GET", "/v1", &response));
        assert!(result.is_err(), "{field}");
    }
}

#[test]
fn descriptions_have_no_links_to_code() {
    let text = DOCUMENT.to_string();
    assert!(
        text.contains("`WatchdogRule` explains the rules"),
        "the link has become its text"
    );
    assert!(!text.contains("[`"), "a link is left");
}
