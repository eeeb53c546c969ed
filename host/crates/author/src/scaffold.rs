//! Makes the folder of a new plugin, from the templates that the SDKs have: one tool, a test, a
//! README.
//!
//! The hard part is where the plugin finds its SDK on this machine: in the folder that somebody
//! named, else where the caller knows of SDKs. A checkout that the new folder lies in counts only if
//! the caller names it: building a plugin runs the code of its SDK. It comes from no registry: nobody has published it there, so its name is anybody's.

use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use thiserror::Error;

use toolhost_core::text;
use toolhost_core::tool::PluginId;
use toolhost_policy::capability::quoted;
use toolhost_state::read::ReadScope;

/// Bytes of a file that says what an SDK's package is called.
const PACKAGE_BYTES_MAX: u64 = 1 << 20;

/// Characters of an id.
const ID_CHARS_MAX: usize = 40;
/// Ids that nobody's plugin can have, since packages of that name are ours.
const OURS: [&str; 2] = ["toolhost", "toolhost-sdk"];

/// What a plugin can be written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateLanguage {
    /// Rust.
    Rust,
    /// Python.
    Python,
    /// JavaScript.
    JavaScript,
    /// TypeScript.
    TypeScript,
}

/// A file of a template: its path below the plugin's folder, and its text.
type File = (&'static str, &'static str);

macro_rules! template {
    ($folder:literal: $($path:literal)*) => {
        &[$(($path, include_str!(concat!("../../../../sdk/", $folder, "/", $path)))),*]
    };
}

const RUST: &[File] =
    template!("rust/template": "Cargo.toml" "README.md" "src/lib.rs" ".gitignore");
const PYTHON: &[File] = template!("python/template": "README.md" "plugin.py" "test_plugin.py");
const JAVASCRIPT: &[File] =
    template!("javascript/template": "README.md" "package.json" "plugin.js" "plugin.test.js");
const TYPESCRIPT: &[File] = template!(
    "javascript/template-typescript":
    "README.md" "package.json" "plugin.ts" "plugin.test.ts" "tsconfig.json"
);

impl TemplateLanguage {
    /// Every language, in the order in which they are named to people.
    pub const ALL: [TemplateLanguage; 4] = [
        TemplateLanguage::Rust,
        TemplateLanguage::Python,
        TemplateLanguage::JavaScript,
        TemplateLanguage::TypeScript,
    ];

    /// The name, as it is written on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            TemplateLanguage::Rust => "rust",
            TemplateLanguage::Python => "python",
            TemplateLanguage::JavaScript => "javascript",
            TemplateLanguage::TypeScript => "typescript",
        }
    }

    /// The name, for people.
    pub fn name(self) -> &'static str {
        match self {
            TemplateLanguage::Rust => "Rust",
            TemplateLanguage::Python => "Python",
            TemplateLanguage::JavaScript => "JavaScript",
            TemplateLanguage::TypeScript => "TypeScript",
        }
    }

    fn template(self) -> &'static [File] {
        match self {
            TemplateLanguage::Rust => RUST,
            TemplateLanguage::Python => PYTHON,
            TemplateLanguage::JavaScript => JAVASCRIPT,
            TemplateLanguage::TypeScript => TYPESCRIPT,
        }
    }

    /// Where a checkout of toolhost has the SDK.
    pub fn sdk_folder(self) -> &'static str {
        self.sdk().0
    }

    /// The same, and the file by which it is known.
    fn sdk(self) -> (&'static str, &'static str) {
        match self {
            TemplateLanguage::Rust => ("sdk/rust", "Cargo.toml"),
            TemplateLanguage::Python => ("sdk/python", "pyproject.toml"),
            TemplateLanguage::JavaScript | TemplateLanguage::TypeScript => {
                ("sdk/javascript", "package.json")
            }
        }
    }

    /// The command that runs the plugin's own tests, for a shell in its folder.
    fn test_command(self, sdk: &Path) -> String {
        let text = sdk.to_string_lossy();
        let folder = quoted(&text);
        match self {
            // Cargo.toml names the SDK.
            TemplateLanguage::Rust => "cargo test".to_owned(),
            TemplateLanguage::Python => format!("PYTHONPATH={folder} python3 -m unittest"),
            TemplateLanguage::JavaScript | TemplateLanguage::TypeScript => {
                format!("npm install --no-save --install-links {folder} && npm test")
            }
        }
    }
}

/// What to make, and where.
#[derive(Clone, Debug)]
pub struct ScaffoldRequest {
    /// The plugin's id, which is the name of its folder too.
    pub name: String,
    /// What it is written in.
    pub language: TemplateLanguage,
    /// The folder in which its folder is made; it is made too, if it is not there.
    pub into: PathBuf,
    /// The SDK, or a checkout of toolhost.
    pub sdk: Option<PathBuf>,
    /// Folders `sdk` of toolhost with the SDKs; the first that has the one counts. They may be gone.
    /// The plugin names one around its own folder by a relative path.
    pub sdks: Vec<PathBuf>,
}

/// A plugin that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scaffolded {
    /// Its id.
    pub id: PluginId,
    /// Its folder.
    pub folder: PathBuf,
    /// Its files, as paths below the folder.
    pub files: Vec<&'static str>,
    /// The folder in which it finds its SDK; a relative path is below the plugin's.
    pub sdk: PathBuf,
    /// The command that runs its tests, for a shell in its folder.
    pub test_command: String,
}

/// Why no plugin was made.
#[derive(Debug, Error)]
pub enum ScaffoldError {
    /// The name is none for a plugin.
    #[error(
        "`{given}` is no name for a plugin: allowed are 1 to {ID_CHARS_MAX} characters of a-z 0-9 -, the first a letter, and not {}{}",
        OURS.join(" or "), tried(.repaired.as_deref())
    )]
    Name {
        /// What was given, made safe to show.
        given: String,
        /// A name that is much like it, if there is one.
        repaired: Option<String>,
    },
    /// There is something already.
    #[error("{folder} exists, and is left as it is; choose another name, or another folder with `--dir`", folder = .0.display())]
    Exists(PathBuf),
    /// The SDK is not there.
    #[error(
        "{given} has no SDK for {language}: there is neither {file} of `toolhost-sdk` nor {below}; name a checkout of toolhost, or its {below}",
        given = given.display()
    )]
    NoSdk {
        /// What was given.
        given: PathBuf,
        /// The language.
        language: &'static str,
        /// The file by which an SDK is known.
        file: &'static str,
        /// Where a checkout has it.
        below: &'static str,
    },
    /// There is none on this machine.
    #[error(
        "no SDK for {language} was found ({looked_for}); clone the repository of toolhost, and name the clone with `--sdk`"
    )]
    NoSdkFound {
        /// The language.
        language: &'static str,
        /// Where it was looked for.
        looked_for: String,
    },
    /// A file or folder cannot be written.
    #[error("{path}: {error}", path = path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
}

fn tried(repaired: Option<&str>) -> String {
    repaired.map(|name| format!("; try `{name}`")).unwrap_or_default()
}

/// Makes the folder of a new plugin, and writes nothing into one that is there.
///
/// # Errors
/// With the reason and the repair. What was made of the folder is removed again.
pub fn scaffold(request: &ScaffoldRequest) -> Result<Scaffolded, ScaffoldError> {
    let id = read_name(&request.name)?;
    let folder = request.into.join(id.as_str());
    if fs::symlink_metadata(&folder).is_ok() {
        return Err(ScaffoldError::Exists(folder));
    }
    fs::create_dir_all(&request.into).map_err(io(&request.into))?;
    let into = fs::canonicalize(&request.into).map_err(io(&request.into))?;
    let sdk = match &request.sdk {
        Some(given) => named_sdk(given, request.language)?,
        None => found_sdk(&into, &request.sdks, request.language)?,
    };
    // Fails if there is something by now.
    fs::create_dir(&folder).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => ScaffoldError::Exists(folder.clone()),
        _ => io(&folder)(error),
    })?;
    let template = request.language.template();
    let fill = |text: &str| {
        let ident = id.as_str().replace('-', "_");
        let text = text.replace("{{name}}", id.as_str()).replace("{{ident}}", &ident);
        text.replace("{{sdk}}", &dependency(&sdk))
    };
    for (path, text) in template {
        if let Err(error) = write(&folder.join(path), &fill(text)) {
            // Half a plugin would be in the way of the next try.
            let _ = fs::remove_dir_all(&folder);
            return Err(error);
        }
    }
    Ok(Scaffolded {
        id,
        folder,
        files: template.iter().map(|(path, _)| *path).collect(),
        test_command: request.language.test_command(&sdk),
        sdk,
    })
}

fn write(path: &Path, text: &str) -> Result<(), ScaffoldError> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(io(folder))?;
    }
    fs::write(path, text).map_err(io(path))
}

fn read_name(given: &str) -> Result<PluginId, ScaffoldError> {
    let is_allowed = |name: &str| {
        name.starts_with(|first: char| first.is_ascii_lowercase()) && !OURS.contains(&name)
    };
    match PluginId::from_stem(given) {
        // Not folded: the folder, the package and the id have one name.
        Ok(id) if id.as_str() == given && is_allowed(given) => Ok(id),
        _ => {
            let repaired = repaired(given).filter(|name| is_allowed(name) && name != given);
            let given = text::one_line(&text::cut(given, 60));
            Err(ScaffoldError::Name { given, repaired })
        }
    }
}

/// A name that is allowed, made of what is allowed of another.
fn repaired(given: &str) -> Option<String> {
    let folded =
        given.to_ascii_lowercase().replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
    let words: Vec<&str> = folded.split('-').filter(|word| !word.is_empty()).collect();
    let name = words.join("-");
    let name = name.trim_start_matches(|letter: char| !letter.is_ascii_lowercase());
    let name: String = name.chars().take(ID_CHARS_MAX).collect();
    let name = name.trim_end_matches('-');
    match name {
        "" => None,
        name if OURS.contains(&name) => Some(format!("my-{name}")),
        name => Some(name.to_owned()),
    }
}

/// The SDK that was named: its folder, or a checkout of toolhost.
fn named_sdk(given: &Path, language: TemplateLanguage) -> Result<PathBuf, ScaffoldError> {
    let (below, file) = language.sdk();
    let folder = [given.join(below), given.to_owned()]
        .into_iter()
        .find(|folder| is_sdk(folder, file))
        .ok_or_else(|| ScaffoldError::NoSdk {
            given: given.to_owned(),
            language: language.name(),
            file,
            below,
        })?;
    fs::canonicalize(&folder).map_err(io(&folder))
}

/// The first SDK there is; as a path from a folder within `into` where that lies in the same
/// checkout, so that the checkout can be moved.
fn found_sdk(
    into: &Path,
    sdks: &[PathBuf],
    language: TemplateLanguage,
) -> Result<PathBuf, ScaffoldError> {
    let (below, file) = language.sdk();
    let folder = |sdks: &PathBuf| sdks.join(Path::new(below).file_name().unwrap_or_default());
    let has_all = |folder: &PathBuf| {
        // Cargo reads what packages have in common from above: in a checkout, or as installed.
        let mut above = folder.ancestors().skip(1).take(2);
        let is_whole =
            language != TemplateLanguage::Rust || above.any(|root| root.join(file).is_file());
        is_whole && is_sdk(folder, file)
    };
    match sdks.iter().map(folder).find(has_all) {
        Some(folder) => {
            let found = fs::canonicalize(&folder).map_err(io(&folder))?;
            // CHECKOUT/sdk/LANGUAGE
            let around = found.ancestors().nth(2).filter(|_| found.ends_with(below));
            let levels = around.and_then(|checkout| into.strip_prefix(checkout).ok());
            Ok(levels.map_or(found.clone(), |levels| {
                let up = std::iter::repeat_n(Component::ParentDir, levels.components().count() + 1);
                up.collect::<PathBuf>().join(below)
            }))
        }
        None => {
            let shown: Vec<String> = sdks.iter().map(|path| path.display().to_string()).collect();
            let looked_for = match shown.as_slice() {
                [] => "it was looked for nowhere".to_owned(),
                shown => format!("looked into {}", shown.join(" and ")),
            };
            Err(ScaffoldError::NoSdkFound { language: language.name(), looked_for })
        }
    }
}

fn is_sdk(folder: &Path, file: &str) -> bool {
    // A folder around the new plugin may be of a repository that a stranger wrote.
    let place = fs::canonicalize(folder).map(ReadScope::Project);
    let text = place.ok().and_then(|place| place.text(&folder.join(file), PACKAGE_BYTES_MAX).ok());
    let text = text.unwrap_or_default();
    // Each of these files has its package's name in quotes.
    text.contains("\"toolhost-sdk\"")
}

/// How the plugin's Cargo.toml names its SDK. Scripts name it by its package's name alone.
fn dependency(sdk: &Path) -> String {
    // A string of JSON is one of TOML.
    let path = serde_json::Value::from(&*sdk.to_string_lossy());
    format!("{{ path = {path} }}")
}

fn io(path: &Path) -> impl Fn(std::io::Error) -> ScaffoldError {
    let path = path.to_owned();
    move |error| ScaffoldError::Io { path: path.clone(), error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_name(given: &str, repaired: Option<&str>) {
        let error = read_name(given).expect_err(given).to_string();
        assert!(error.contains("1 to 40 characters of a-z 0-9 -, the first a letter"), "{error}");
        match repaired {
            Some(name) => {
                assert!(error.ends_with(&format!("; try `{name}`")), "{error}");
                read_name(name).expect("a name");
            }
            None => assert!(!error.contains("try"), "{error}"),
        }
    }

    #[test]
    fn a_name_is_an_id_that_begins_with_a_letter() {
        for name in ["words", "a", "my-words-2", &"a".repeat(40)] {
            assert_eq!(read_name(name).expect(name).as_str(), name);
        }
        check_name("My_Words", Some("my-words"));
        check_name("my words!", Some("my-words"));
        check_name("2 fast", Some("fast"));
        check_name("../../etc/passwd", Some("etc-passwd"));
        check_name("a\u{1b}[31m", Some("a-31m"));
        check_name(&"x".repeat(41), Some(&"x".repeat(40)));
        check_name("toolhost-sdk", Some("my-toolhost-sdk"));
        check_name("", None);
        check_name("..", None);
        check_name("42", None);
    }

    #[test]
    fn the_sdk_is_the_first_that_is_known() {
        let checkout = tempfile::tempdir().expect("a folder");
        let into = checkout.path().join("a/b");
        fs::create_dir_all(&into).expect("a folder");
        let none = |sdks: &[PathBuf], language| {
            found_sdk(&into, sdks, language).expect_err("no SDK").to_string()
        };
        assert_eq!(
            none(&[], TemplateLanguage::Rust),
            "no SDK for Rust was found (it was looked for nowhere); clone the repository of toolhost, and name the clone with `--sdk`"
        );
        let sdk = checkout.path().join("sdk/rust");
        fs::create_dir_all(&sdk).expect("a folder");
        fs::write(sdk.join("Cargo.toml"), "[package]\nname = \"other\"").expect("written");
        none(&[], TemplateLanguage::Rust);
        named_sdk(checkout.path(), TemplateLanguage::Rust).expect_err("another package");

        fs::write(sdk.join("Cargo.toml"), "[package]\nname = \"toolhost-sdk\"").expect("written");
        fs::write(checkout.path().join("Cargo.toml"), "[workspace]").expect("written");
        // Around it is not enough.
        none(&[], TemplateLanguage::Rust);
        let real_into = fs::canonicalize(&into).expect("a folder");
        let around = [checkout.path().join("sdk")];
        let found = found_sdk(&real_into, &around, TemplateLanguage::Rust).expect("an SDK");
        assert_eq!(found, Path::new("../../../sdk/rust"));
        assert_eq!(dependency(&found), r#"{ path = "../../../sdk/rust" }"#);
        fs::remove_file(checkout.path().join("Cargo.toml")).expect("removed");
        let real = fs::canonicalize(&sdk).expect("a folder");
        assert_eq!(named_sdk(checkout.path(), TemplateLanguage::Rust).expect("an SDK"), real);
        assert_eq!(named_sdk(&sdk, TemplateLanguage::Rust).expect("an SDK"), real);

        // Elsewhere, the first that has it.
        let elsewhere = tempfile::tempdir().expect("a folder");
        let known = |language| {
            let sdks = [checkout.path().join("gone"), checkout.path().join("sdk")];
            found_sdk(elsewhere.path(), &sdks, language)
        };
        let python = checkout.path().join("sdk/python");
        fs::create_dir_all(&python).expect("a folder");
        fs::write(python.join("pyproject.toml"), "name = \"toolhost-sdk\"").expect("written");
        let real_python = fs::canonicalize(&python).expect("a folder");
        assert_eq!(known(TemplateLanguage::Python).expect("an SDK"), real_python);
        // Without what it has in common with other packages, no plugin could be built with it.
        let error = known(TemplateLanguage::Rust).expect_err("half an SDK").to_string();
        assert!(error.contains("gone and "), "{error}");
        fs::write(checkout.path().join("Cargo.toml"), "[workspace]").expect("written");
        assert_eq!(known(TemplateLanguage::Rust).expect("an SDK"), real);
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let blocked = folder.path().join("file");
        fs::write(&blocked, "").expect("written");
        let request = ScaffoldRequest {
            name: "words".into(),
            language: TemplateLanguage::Rust,
            into: blocked,
            sdk: None,
            sdks: Vec::new(),
        };
        scaffold(&request).expect_err("no folder");
        let dangling = folder.path().join("words");
        std::os::unix::fs::symlink(folder.path().join("nowhere"), &dangling).expect("a link");
        let request = ScaffoldRequest { into: folder.path().to_owned(), ..request };
        let error = scaffold(&request).expect_err("a link");
        assert!(matches!(error, ScaffoldError::Exists(_)), "{error}");
        assert!(!folder.path().join("nowhere").exists());
    }

    #[test]
    fn templates_have_no_placeholder_that_is_not_filled() {
        for language in TemplateLanguage::ALL {
            for (path, text) in language.template() {
                let filled =
                    ["name", "ident", "sdk"].iter().fold((*text).to_owned(), |text, word| {
                        text.replace(&format!("{{{{{word}}}}}"), "")
                    });
                assert!(!filled.contains("{{"), "{path}: {filled}");
            }
        }
    }
}
