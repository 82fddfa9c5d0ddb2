//! The `curl` examples of docs/control-api.md.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use libtest_mimic::Failed;
use serde_json::Value;

use super::check;

/// An example: a command, and the output that the page shows.
#[derive(Debug)]
pub(crate) struct CurlExample {
    pub(crate) command: String,
    output: String,
}

/// Returns the reason why this machine cannot run the examples. `None`: it can.
pub(crate) fn curl_refusal() -> Option<String> {
    let help = match Command::new("curl").args(["--help", "all"]).output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(error) => return Some(format!("curl cannot be started: {error}")),
    };
    let missing = ["--abstract-unix-socket", "--json"]
        .into_iter()
        .find(|option| !help.contains(option));
    missing.map(|option| format!("this curl has no option {option}"))
}

/// Returns the examples of the page in their order.
pub(crate) fn curl_examples() -> Vec<CurlExample> {
    let page = include_str!("../../docs/control-api.md");
    let mut examples: Vec<CurlExample> = Vec::new();
    let (mut is_console, mut is_continued) = (false, false);
    for line in page.lines() {
        if line.starts_with("```") {
            is_console = line == "```console";
            continue;
        }
        if !is_console {
            continue;
        }
        let text = match line.strip_prefix("$ ") {
            Some(command) => {
                examples.push(CurlExample {
                    command: String::new(),
                    output: String::new(),
                });
                command
            }
            None => line,
        };
        let Some(example) = examples.last_mut() else {
            continue;
        };
        match is_continued || line.starts_with("$ ") {
            true => example.command.push_str(text.strip_suffix('\\').unwrap_or(text)),
            false => example.output.push_str(text),
        }
        is_continued = text.ends_with('\\');
    }
    examples
}

impl CurlExample {
    /// Runs the example in a folder. `socket` are the text of the socket in the page and the real one.
    pub(crate) fn run(&self, folder: &Path, socket: (&str, &str)) -> Result<(), Failed> {
        let command = self.command.replace(socket.0, socket.1);
        let measured = command.replacen("curl ", "curl -sS -w '%{stderr}%{http_code}' ", 1);
        let output = Command::new("sh")
            .args(["-c", &measured])
            .current_dir(folder)
            .output()?;
        let status = String::from_utf8_lossy(&output.stderr).into_owned();
        let body = String::from_utf8_lossy(&output.stdout).into_owned();
        let described = || format!("{command}: {} {status}\n{body}", output.status);
        // An event stream ends by the timeout of the example.
        let is_stream = command.contains("text/event-stream");
        let code = output.status.code();
        check(code == Some(0) || (is_stream && code == Some(28)), described)?;
        let expected: Value = serde_json::from_str(&self.output).unwrap_or(Value::Null);
        let class = if expected["code"].is_string() { '4' } else { '2' };
        check(is_stream || status.starts_with(class), described)?;
        if let Value::Object(expected) = &expected {
            let body: Value = serde_json::from_str(&body)?;
            let names = |value: &Value| -> BTreeSet<String> {
                value
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(name, _)| name.clone())
                    .collect()
            };
            let expected_names: BTreeSet<String> = expected.keys().cloned().collect();
            check(
                names(&body) == expected_names
                    && body["code"] == expected.get("code").cloned().unwrap_or(Value::Null),
                described,
            )?;
        }
        Ok(())
    }
}
