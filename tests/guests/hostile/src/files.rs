//! Files by the bare interface: paths as they are given, below a directory it was given.

use serde::Deserialize;
use serde_json::{Value, json};
use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{
    Descriptor, DescriptorFlags, ErrorCode, NewTimestamp, OpenFlags, PathFlags,
};

/// One use of a path.
#[derive(Debug, Deserialize)]
pub(crate) struct File {
    /// The directory, as the guest sees it.
    at: String,
    path: String,
    /// What to do: `read`, `write`, `create`, `list`, `stat`, `handle`, `readlink`, `remove`, `mkdir`,
    /// `symlink`, `link`, `rename`, `touch`, `open-loop`.
    #[serde(rename = "do")]
    what: String,
    /// The other directory and path, of links and renames; the text to write.
    #[serde(default)]
    to: (String, String),
    #[serde(default)]
    follow: bool,
    /// How often to try.
    #[serde(default = "once")]
    times: usize,
}

fn once() -> usize {
    1
}

/// The directories it sees.
pub(crate) fn directories() -> Value {
    get_directories().into_iter().map(|(_, path)| path).collect()
}

fn directory(path: &str) -> Result<Descriptor, String> {
    let found = get_directories().into_iter().find(|(_, name)| name == path);
    found.map(|(directory, _)| directory).ok_or_else(|| format!("there is no {path}"))
}

/// Does it.
pub(crate) fn run(file: &File) -> Result<Value, String> {
    let at = directory(&file.at)?;
    let flags = if file.follow { PathFlags::SYMLINK_FOLLOW } else { PathFlags::empty() };
    let path = file.path.as_str();
    let shown = |code: ErrorCode| code.name().to_owned();
    match file.what.as_str() {
        "read" => {
            let opened = at
                .open_at(flags, path, OpenFlags::empty(), DescriptorFlags::READ)
                .map_err(shown)?;
            let (bytes, _) = opened.read(65_536, 0).map_err(shown)?;
            Ok(json!({ "text": String::from_utf8_lossy(&bytes) }))
        }
        "write" | "create" => {
            let open = if file.what == "create" { OpenFlags::CREATE } else { OpenFlags::empty() };
            let opened = at.open_at(flags, path, open, DescriptorFlags::WRITE).map_err(shown)?;
            let count = opened.write(file.to.1.as_bytes(), 0).map_err(shown)?;
            Ok(json!({ "written": count }))
        }
        "list" => {
            let opened = match path {
                "" => at,
                path => at
                    .open_at(flags, path, OpenFlags::DIRECTORY, DescriptorFlags::READ)
                    .map_err(shown)?,
            };
            let stream = opened.read_directory().map_err(shown)?;
            let mut names = Vec::new();
            while let Some(entry) = stream.read_directory_entry().map_err(shown)? {
                names.push(entry.name);
            }
            names.sort();
            Ok(json!({ "names": names }))
        }
        "stat" => at
            .stat_at(flags, path)
            .map(|stat| json!({ "type": format!("{:?}", stat.type_) }))
            .map_err(shown),
        "handle" => {
            at.stat().map(|stat| json!({ "type": format!("{:?}", stat.type_) })).map_err(shown)
        }
        "readlink" => at.readlink_at(path).map(|target| json!({ "target": target })).map_err(shown),
        "remove" => at.unlink_file_at(path).map(|()| json!("ok")).map_err(shown),
        "mkdir" => at.create_directory_at(path).map(|()| json!("ok")).map_err(shown),
        "symlink" => at.symlink_at(&file.to.1, path).map(|()| json!("ok")).map_err(shown),
        "link" => at
            .link_at(PathFlags::empty(), path, &directory(&file.to.0)?, &file.to.1)
            .map(|()| json!("ok"))
            .map_err(shown),
        "rename" => at
            .rename_at(path, &directory(&file.to.0)?, &file.to.1)
            .map(|()| json!("ok"))
            .map_err(shown),
        "touch" => at
            .set_times_at(flags, path, NewTimestamp::Now, NewTimestamp::Now)
            .map(|()| json!("ok"))
            .map_err(shown),
        // Opens again and again while somebody else moves things about, and keeps every text.
        "open-loop" => {
            let mut seen = std::collections::BTreeMap::new();
            for _ in 0..file.times {
                let opened = at.open_at(flags, path, OpenFlags::empty(), DescriptorFlags::READ);
                let read = opened.and_then(|opened| opened.read(4_096, 0));
                let text = match read {
                    Ok((bytes, _)) => String::from_utf8_lossy(&bytes).into_owned(),
                    Err(code) => shown(code),
                };
                *seen.entry(text).or_insert(0) += 1;
            }
            Ok(json!({ "seen": seen }))
        }
        other => Err(format!("there is no {other}")),
    }
}
