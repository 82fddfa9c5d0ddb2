//! Finds the files of a scenario. The configuration contains the paths of the other files, or the files have
//! default names.

use std::path::{Path, PathBuf};

use super::text::{InputText, InputWord, ReadError};

/// The files of a scenario. The result files `completions` and `pauses` are `None` if they do not exist.
#[derive(Debug)]
pub(super) struct InputFiles {
    pub(super) configuration: InputText,
    pub(super) topology: PathBuf,
    pub(super) flows: PathBuf,
    pub(super) completions: Option<PathBuf>,
    pub(super) pauses: Option<PathBuf>,
}

impl InputFiles {
    /// Finds the files of the scenario at `path` and reads the configuration.
    ///
    /// `path` is a configuration file, or a folder with `parameters.txt` or `config.txt`.
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
        let configuration = InputText::read(configuration)?;
        let named = |setting: &str| file_of_setting(&configuration, setting, &folder);
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

/// Returns the file that a setting names. If a setting occurs several times, the last one counts. Returns
/// `None` if the setting is missing.
///
/// The path is relative to the working directory of the simulator, which is unknown. This function therefore
/// tries the folder of the configuration and the three folders above it. If the path exists in none of these
/// folders, the function removes its folders, and returns the file name in the folder of the configuration.
fn file_of_setting(configuration: &InputText, setting: &str, folder: &Path) -> Option<PathBuf> {
    let words: Vec<InputWord<'_>> = configuration.words().collect();
    let index = words.iter().rposition(|word| word.text == setting)?;
    let path = Path::new(words.get(index + 1)?.text);
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf());
    let mut candidates = absolute.ancestors().take(4).map(|above| above.join(path));
    let beside = folder.join(path.file_name()?);
    Some(candidates.find(|file| file.exists()).unwrap_or(beside))
}
