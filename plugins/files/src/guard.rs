//! What is refused before a file is opened: devices, binary files, credentials; and why a file
//! cannot be found.

use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use toolhost_sdk::Error;

/// Links followed before giving up, as file systems do.
const HOPS_MAX: usize = 20;
/// What the host answers for a path that leads into no granted directory: `EPERM` of WASI.
const NOT_PERMITTED: i32 = 63;
/// Names offered in place of one that is not there.
const SIMILAR_MAX: usize = 5;
/// How alike a name must be to be offered.
const LIKENESS_MIN: f64 = 0.6;

const ENVIRONMENT_FILES: [&str; 7] = [
    ".env",
    ".env.local",
    ".env.development",
    ".env.production",
    ".env.test",
    ".env.staging",
    ".envrc",
];
const DEVICES: [&str; 9] =
    ["zero", "random", "urandom", "full", "stdin", "tty", "console", "stdout", "stderr"];
const PROCESS_FILES: [&str; 9] =
    ["environ", "cmdline", "maps", "smaps", "smaps_rollup", "numa_maps", "mem", "auxv", "pagemap"];
/// Documents whose text this plugin cannot extract yet.
const DOCUMENTS: [&str; 3] = ["docx", "xlsx", "ipynb"];
const BINARY: [&str; 101] = [
    "png", "jpg", "jpeg", "gif", "bmp", "ico", "webp", "tiff", "tif", "svgz", "heic", "avif",
    "psd", "raw", "mp3", "wav", "flac", "ogg", "m4a", "aac", "wma", "opus", "aiff", "mid", "mp4",
    "avi", "mkv", "mov", "wmv", "flv", "webm", "m4v", "mpg", "mpeg", "3gp", "zip", "tar", "gz",
    "bz2", "xz", "7z", "rar", "zst", "lz4", "tgz", "jar", "war", "iso", "dmg", "cab", "exe", "dll",
    "so", "dylib", "o", "a", "lib", "obj", "bin", "class", "pyc", "pyo", "pyd", "wasm", "deb",
    "rpm", "apk", "msi", "app", "doc", "docx", "xls", "xlsx", "ppt", "pptx", "odt", "ods", "odp",
    "pdf", "epub", "mobi", "ttf", "otf", "woff", "woff2", "eot", "db", "sqlite", "sqlite3", "mdb",
    "dbf", "parquet", "feather", "arrow", "npy", "npz", "pkl", "pickle", "h5", "onnx", "ipynb",
];

/// Refuses what its path tells is not to be read, also through links.
pub(crate) fn check_path(path: &str) -> Result<(), Error> {
    if hops(Path::new(path)).iter().any(|hop| is_device(hop)) {
        return Err(Error::failed(format!(
            "Cannot read '{path}': this is a device file that would block or produce infinite output."
        )));
    }
    check_binary(path)?;
    if is_credential(Path::new(path)) {
        return Err(Error::failed(format!(
            "Access denied: {path} is a secret-bearing environment file and is not read. Ask for \
             the one value you need instead."
        )));
    }
    Ok(())
}

/// Tells whether a file holds credentials, by its name or that of what it links to.
pub(crate) fn is_credential(path: &Path) -> bool {
    hops(path).iter().any(|hop| {
        let name = hop.file_name().unwrap_or_default().to_string_lossy();
        ENVIRONMENT_FILES.contains(&&*name)
    })
}

/// Refuses what the extension tells is binary.
fn check_binary(path: &str) -> Result<(), Error> {
    let extension =
        Path::new(path).extension().unwrap_or_default().to_string_lossy().to_lowercase();
    if DOCUMENTS.contains(&&*extension) {
        return Err(Error::failed(format!(
            "Cannot read binary file '{path}' (.{extension}): extracting the text of such \
             documents is not supported yet. Convert it to text first."
        )));
    }
    if BINARY.contains(&&*extension) {
        return Err(Error::failed(format!(
            "Cannot read binary file '{path}' (.{extension}). Use vision_analyze for images, or \
             terminal to inspect binary files."
        )));
    }
    Ok(())
}

/// Explains why a path cannot be opened, with the names most like it, or how it is granted.
pub(crate) fn not_there(what: &str, path: &str, error: &std::io::Error) -> Error {
    if error.raw_os_error() == Some(NOT_PERMITTED) {
        return Error::failed(format!(
            "Cannot read '{path}': no directory that holds it is granted to this plugin. The \
             operator can grant one with `toolhost grant files --dir DIR:ro`, or for one call with \
             `toolhost call ... --dir DIR:ro`."
        ));
    }
    if error.kind() != ErrorKind::NotFound {
        return Error::failed(format!("Cannot read '{path}': {error}."));
    }
    let similar = similar(Path::new(path));
    let hint = if similar.is_empty() {
        String::new()
    } else {
        format!(". Similar files: {}", similar.join(", "))
    };
    Error::failed(format!("{what} not found: {path}{hint}"))
}

fn similar(path: &Path) -> Vec<String> {
    let wanted = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut near: Vec<(f64, String)> = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .map(|name| (strsim::normalized_damerau_levenshtein(&wanted, &name.to_lowercase()), name))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .collect();
    near.sort_by(|left, right| right.0.total_cmp(&left.0).then_with(|| left.1.cmp(&right.1)));
    let shown = |(_, name): (f64, String)| match path.parent() {
        Some(parent) if parent != Path::new("") => parent.join(name).to_string_lossy().into_owned(),
        _ => name,
    };
    near.into_iter().take(SIMILAR_MAX).map(shown).collect()
}

/// The path, and every path that it leads to through links.
fn hops(path: &Path) -> Vec<PathBuf> {
    let mut hops = vec![normal(path)];
    while hops.len() <= HOPS_MAX {
        let last = &hops[hops.len() - 1];
        let Ok(target) = fs::read_link(last) else { break };
        let next = match last.parent() {
            Some(parent) => parent.join(target),
            None => target,
        };
        hops.push(normal(&next));
    }
    hops
}

/// Without `.`, and with `..` taken by the letter.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if normal.file_name().is_some() => {
                normal.pop();
            }
            part => normal.push(part),
        }
    }
    normal
}

fn is_device(path: &Path) -> bool {
    let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
    match parts.as_slice() {
        ["/", "dev", "fd", "0" | "1" | "2"] => true,
        ["/", "dev", name] => DEVICES.contains(name),
        ["/", "proc", _, "fd", "0" | "1" | "2"] => true,
        ["/", "proc", _, name] => PROCESS_FILES.contains(name),
        _ => false,
    }
}
