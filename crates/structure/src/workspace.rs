//! The members of a workspace and their source files.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::builder;
use crate::files;
use crate::source::SourceFile;
use crate::tree::CrateTree;

/// A workspace: the folder of its root manifest and its members.
#[derive(Clone, Debug)]
pub struct Workspace {
    /// Folder of the root manifest.
    pub root: PathBuf,
    /// Members, in the order of the root manifest. The package of the root manifest comes first.
    pub members: Vec<Member>,
    /// The source files that were read before, by the folder of the member.
    sources: RefCell<BTreeMap<PathBuf, Rc<MemberSources>>>,
}

/// A package of the workspace.
#[derive(Clone, Debug)]
pub struct Member {
    /// Name of the package.
    pub name: String,
    /// Folder of the package, relative to the root of the workspace. Empty for the package of the
    /// root manifest.
    pub folder: PathBuf,
    /// Content of the package's `Cargo.toml`.
    pub manifest: toml::Table,
}

/// The parsed source files of a member.
#[derive(Clone, Debug)]
pub struct MemberSources {
    /// All `.rs` files below `src/`. The keys are paths relative to the root of the workspace.
    pub files: BTreeMap<PathBuf, SourceFile>,
    /// Module trees: one for the library and one for each binary.
    pub crates: Vec<CrateTree>,
    /// Paths of the files that contain only test code, as in `files`.
    pub test_files: Vec<PathBuf>,
}

impl Workspace {
    /// Reads the manifests of the workspace in the folder `root`.
    ///
    /// # Errors
    /// A manifest cannot be read or parsed. The message names the file.
    pub fn open(root: &Path) -> Result<Self, String> {
        let manifest = manifest(&root.join("Cargo.toml"))?;
        let mut members = Vec::new();
        if let Some(name) = package_name(&manifest) {
            members.push(Member {
                name,
                folder: PathBuf::new(),
                manifest: manifest.clone(),
            });
        }
        let patterns = manifest
            .get("workspace")
            .and_then(|workspace| workspace.get("members"))
            .and_then(toml::Value::as_array)
            .map(|list| list.iter().filter_map(toml::Value::as_str).collect::<Vec<_>>())
            .unwrap_or_default();
        for pattern in patterns {
            for folder in member_folders(root, pattern)? {
                let manifest = self::manifest(&root.join(&folder).join("Cargo.toml"))?;
                if let Some(name) = package_name(&manifest) {
                    members.push(Member {
                        name,
                        folder,
                        manifest,
                    });
                }
            }
        }
        Ok(Self {
            root: root.to_owned(),
            members,
            sources: RefCell::default(),
        })
    }

    /// Returns the parsed source files of a member below its folder `src/`. The first call reads and parses them.
    ///
    /// # Errors
    /// A file cannot be read or parsed. The message names the file.
    pub fn read_sources(&self, member: &Member) -> Result<Rc<MemberSources>, String> {
        if let Some(sources) = self.sources.borrow().get(&member.folder) {
            return Ok(Rc::clone(sources));
        }
        let folder = member.folder.join("src");
        let mut files = BTreeMap::new();
        for path in files::files_below(&self.root.join(&folder), "rs")? {
            let text = files::read_text(&path)?;
            let path = path.strip_prefix(&self.root).unwrap_or(&path).to_owned();
            let source = SourceFile::parse(&path, text)?;
            files.insert(path, source);
        }
        let (crates, test_files) = builder::build_crates(&member.name, &folder, &files);
        let sources = Rc::new(MemberSources {
            files,
            crates,
            test_files,
        });
        let mut read = self.sources.borrow_mut();
        read.insert(member.folder.clone(), Rc::clone(&sources));
        Ok(sources)
    }
}

impl Member {
    /// Returns whether the member is a tool for developers. The manifest of a tool contains `publish
    /// = false`.
    pub fn is_tool(&self) -> bool {
        let publish = self
            .manifest
            .get("package")
            .and_then(|package| package.get("publish"));
        publish.and_then(toml::Value::as_bool) == Some(false)
    }
}

impl MemberSources {
    /// Returns the files with production code, sorted by path.
    pub fn production_files(&self) -> impl Iterator<Item = (&PathBuf, &SourceFile)> {
        self.files
            .iter()
            .filter(|(path, _)| !self.test_files.contains(path))
    }
}

fn manifest(path: &Path) -> Result<toml::Table, String> {
    files::read_text(path)?
        .parse()
        .map_err(|error| format!("{}: {error}", path.display()))
}

fn package_name(manifest: &toml::Table) -> Option<String> {
    Some(manifest.get("package")?.get("name")?.as_str()?.to_owned())
}

/// Returns the folders that a member pattern selects. A pattern is the path of a folder, or `FOLDER/*` for
/// every package below `FOLDER`.
fn member_folders(root: &Path, pattern: &str) -> Result<Vec<PathBuf>, String> {
    let Some(parent) = pattern.strip_suffix("/*") else {
        return Ok(vec![PathBuf::from(pattern)]);
    };
    let failed = |error: std::io::Error| format!("{parent}: {error}");
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(root.join(parent)).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.path().join("Cargo.toml").is_file() {
            folders.push(Path::new(parent).join(entry.file_name()));
        }
    }
    folders.sort();
    Ok(folders)
}
