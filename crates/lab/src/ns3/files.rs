//! Which files a run is made of: those that a configuration names, or those of fixed names.

use std::path::{Path, PathBuf};

use super::text::{ReadError, Text, Word};

/// InputFiles of a run. Those of results are there only if they exist.
#[derive(Debug)]
pub(super) struct InputFiles {
    pub(super) configuration: Text,
    pub(super) topology: PathBuf,
    pub(super) flows: PathBuf,
    pub(super) completions: Option<PathBuf>,
    pub(super) pauses: Option<PathBuf>,
}

impl InputFiles {
    /// `path` is a folder with `parameters.txt` or `config.txt`, or a configuration that names its files.
    pub(super) fn find(path: &Path) -> Result<InputFiles, ReadError> {
        let (folder, configuration) = match path.is_dir() {
            true if !path.join("parameters.txt").exists() && path.join("config.txt").exists() => {
                (path.to_path_buf(), path.join("config.txt"))
            }
            true => (path.to_path_buf(), path.join("parameters.txt")),
            false => (
                path.parent().unwrap_or(Path::new("")).to_path_buf(),
                path.to_path_buf(),
            ),
        };
        let configuration = Text::read(configuration)?;
        let named = |setting: &str| named_file(&configuration, setting, &folder);
        let existing = |names: [&str; 2]| {
            names
                .map(|name| folder.join(name))
                .into_iter()
                .find(|file| file.exists())
        };
        let topology = named("TOPOLOGY_FILE").unwrap_or_else(|| folder.join("topology.txt"));
        let flows = named("FLOW_FILE").unwrap_or_else(|| folder.join("flow.txt"));
        let result = |setting: &str, names: [&str; 2]| match named(setting) {
            Some(file) => file.exists().then_some(file),
            None => existing(names),
        };
        Ok(InputFiles {
            completions: result("FCT_OUTPUT_FILE", ["fct.csv", "fct.txt"]),
            pauses: result("PFC_OUTPUT_FILE", ["pfc.csv", "pfc.txt"]),
            configuration,
            topology,
            flows,
        })
    }
}

/// The file that the last setting of this name gives. Paths are relative to where the simulator was started, which is the
/// configuration's folder or one above it; else the file is looked for beside the configuration.
fn named_file(configuration: &Text, setting: &str, folder: &Path) -> Option<PathBuf> {
    let words: Vec<Word<'_>> = configuration.words().collect();
    let at = words.iter().rposition(|word| word.text == setting)?;
    let path = Path::new(words.get(at + 1)?.text);
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf());
    let mut candidates = absolute.ancestors().take(4).map(|above| above.join(path));
    let beside = folder.join(path.file_name()?);
    Some(candidates.find(|file| file.exists()).unwrap_or(beside))
}
