//! Which Rust on this machine can build for WebAssembly, and how it wants to be called.
//!
//! Three kinds, best first: one with the target `wasm32-wasip2`, which gives components; one
//! with `wasm32-wasip1`, which gives core modules; and Debian's, which has neither but brings
//! the sources of the standard library and a C library, from which the target is built.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::BuildError;
use toolhost_process::{self as process, Command, End};

/// Where Debian puts its C library for WebAssembly.
const WASI_LIBC: &str = "/usr/lib/wasm32-wasi";
/// Variables of an outer cargo or of rustup which would choose another compiler or other flags.
const NOT_PASSED_ON: [&str; 7] = [
    "CARGO",
    "RUSTC",
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "RUSTC_WRAPPER",
    "RUSTUP_TOOLCHAIN",
    "CARGO_BUILD_TARGET",
];

/// A Rust toolchain that can build plugins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RustToolchain {
    cargo: PathBuf,
    kind: ToolchainKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ToolchainKind {
    Wasip2,
    Wasip1,
    FromSources { linker: OsString },
}

impl RustToolchain {
    /// Looks for a toolchain along `PATH`.
    ///
    /// # Errors
    /// If there is none; the error says what was looked at and what to install.
    pub async fn find(environment: &[(OsString, OsString)]) -> Result<RustToolchain, BuildError> {
        let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value);
        let folders: Vec<PathBuf> = path.map(std::env::split_paths).into_iter().flatten().collect();
        let compilers: Vec<PathBuf> = folders
            .iter()
            .map(|folder| folder.join("rustc"))
            .filter(|rustc| rustc.is_file() && rustc.with_file_name("cargo").is_file())
            .collect();
        for (target, kind) in
            [("wasm32-wasip2", ToolchainKind::Wasip2), ("wasm32-wasip1", ToolchainKind::Wasip1)]
        {
            for rustc in &compilers {
                let folder =
                    ask(rustc, &["--print", "target-libdir", "--target", target], environment)
                        .await;
                if folder.is_some_and(|folder| has_standard_library(&folder)) {
                    return Ok(RustToolchain { cargo: rustc.with_file_name("cargo"), kind });
                }
            }
        }
        for rustc in &compilers {
            let Some(sysroot) = ask(rustc, &["--print", "sysroot"], environment).await else {
                continue;
            };
            let sources = sysroot.join("lib/rustlib/src/rust/library/std/Cargo.toml");
            // Building the standard library takes a compiler that is not moved by rustup.
            let linker = linker(&folders);
            if let (true, true, Some(linker)) =
                (sources.is_file(), Path::new(WASI_LIBC).is_dir(), linker)
            {
                let cargo = rustc.with_file_name("cargo");
                return Ok(RustToolchain { cargo, kind: ToolchainKind::FromSources { linker } });
            }
        }
        let looked_at = match compilers.as_slice() {
            [] => "there is no cargo beside a rustc in PATH".to_owned(),
            compilers => {
                let shown: Vec<String> =
                    compilers.iter().map(|rustc| rustc.display().to_string()).collect();
                format!("{}: without a WebAssembly target", shown.join(", "))
            }
        };
        Err(BuildError::NoToolchain { looked_at })
    }

    /// The cargo to run.
    pub(super) fn cargo(&self) -> &Path {
        &self.cargo
    }

    /// The arguments of a release build which says what it made.
    pub(super) fn arguments(&self) -> Vec<OsString> {
        let target = match self.kind {
            ToolchainKind::Wasip2 => "wasm32-wasip2",
            ToolchainKind::Wasip1 | ToolchainKind::FromSources { .. } => "wasm32-wasip1",
        };
        let mut arguments = vec![
            "build",
            "--lib",
            "--release",
            "--message-format=json-render-diagnostics",
            "--target",
            target,
        ];
        if let ToolchainKind::FromSources { .. } = self.kind {
            arguments.push("-Zbuild-std=std,panic_abort");
        }
        arguments.into_iter().map(OsString::from).collect()
    }

    /// The environment to run it in: the given one, with this toolchain first in `PATH`.
    pub(super) fn environment(&self, given: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
        let mut environment: Vec<(OsString, OsString)> = given
            .iter()
            .filter(|(name, _)| !NOT_PASSED_ON.iter().any(|unwanted| name == unwanted))
            .map(|(name, value)| match name.to_str() {
                Some("PATH") => (name.clone(), self.path(value)),
                // Beside the host's own build products: another target, maybe another compiler.
                Some("CARGO_TARGET_DIR") => (name.clone(), Path::new(value).join("plugins").into()),
                _ => (name.clone(), value.clone()),
            })
            .collect();
        if let ToolchainKind::FromSources { linker } = &self.kind {
            // Debian's C library is older than its standard library: the SDK stands in for what
            // is missing, under this flag.
            let flags = format!(
                "-Clink-self-contained=no -Lnative={WASI_LIBC} \
                 -Clink-arg={WASI_LIBC}/crt1-reactor.o -Ctarget-feature=+crt-static \
                 --cfg=toolhost_old_libc"
            );
            environment.extend([
                ("RUSTC_BOOTSTRAP".into(), "1".into()),
                ("CARGO_TARGET_WASM32_WASIP1_LINKER".into(), linker.clone()),
                ("CARGO_TARGET_WASM32_WASIP1_RUSTFLAGS".into(), flags.into()),
            ]);
        }
        environment
    }

    fn path(&self, given: &OsStr) -> OsString {
        let own = self.cargo.parent().map(Path::to_owned);
        std::env::join_paths(own.into_iter().chain(std::env::split_paths(given)))
            .unwrap_or_else(|_| given.to_owned())
    }
}

async fn ask(
    rustc: &Path,
    arguments: &[&str],
    environment: &[(OsString, OsString)],
) -> Option<PathBuf> {
    let command = Command {
        program: rustc.to_owned(),
        arguments: arguments.iter().map(OsString::from).collect(),
        folder: PathBuf::from("/"),
        environment: environment.to_vec(),
        stdin: Vec::new(),
        stdout_bytes_max: 64 << 10,
        show_stderr: false,
    };
    let finished =
        process::run(&command).await.ok().filter(|finished| finished.end == End::Success)?;
    let line = String::from_utf8(finished.stdout).ok()?;
    Some(PathBuf::from(line.trim()))
}

fn has_standard_library(folder: &Path) -> bool {
    let Ok(files) = std::fs::read_dir(folder) else { return false };
    files.flatten().any(|file| file.file_name().to_string_lossy().starts_with("libstd-"))
}

/// Debian's linker carries its version in the name; the newest is taken.
fn linker(folders: &[PathBuf]) -> Option<OsString> {
    let version = |name: &str| match name.strip_prefix("wasm-ld") {
        Some("") => Some(u32::MAX),
        Some(rest) => rest.strip_prefix('-')?.parse().ok(),
        None => None,
    };
    let files = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    files
        .flatten()
        .filter_map(|file| {
            let name = file.file_name();
            Some((version(name.to_str()?)?, name))
        })
        .max()
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use tempfile::TempDir;

    use super::*;

    /// A folder with a rustc that knows these targets, and a cargo.
    fn toolchain(targets: &[&str]) -> TempDir {
        let folder = TempDir::new().expect("a folder");
        let libraries = folder.path().join("lib");
        for target in targets {
            let library = libraries.join(target);
            fs::create_dir_all(&library).expect("a folder");
            fs::write(library.join("libstd-1.rlib"), "").expect("written");
        }
        let rustc = format!(
            "#!/bin/sh\ncase $2 in target-libdir) echo {}/$4 ;; *) echo /nowhere ;; esac\n",
            libraries.display()
        );
        for (name, text) in [("rustc", rustc.as_str()), ("cargo", "#!/bin/sh\n")] {
            let file = folder.path().join(name);
            fs::write(&file, text).expect("written");
            fs::set_permissions(&file, fs::Permissions::from_mode(0o700)).expect("changed");
        }
        folder
    }

    async fn found(folders: &[&TempDir]) -> Result<RustToolchain, BuildError> {
        let path = std::env::join_paths(folders.iter().map(|folder| folder.path()));
        let path = path.expect("a path");
        RustToolchain::find(&[("PATH".into(), path)]).await
    }

    #[tokio::test]
    async fn the_best_target_along_the_path_is_taken() {
        let (none, core, component) =
            (toolchain(&[]), toolchain(&["wasm32-wasip1"]), toolchain(&["wasm32-wasip2"]));
        let both = found(&[&none, &core, &component]).await.expect("a toolchain");
        assert_eq!(both.kind, ToolchainKind::Wasip2);
        assert_eq!(both.cargo(), component.path().join("cargo"));
        let one = found(&[&none, &core]).await.expect("a toolchain");
        assert_eq!(one.kind, ToolchainKind::Wasip1);
        assert!(one.arguments().contains(&OsString::from("wasm32-wasip1")));
        let message = found(&[&none]).await.expect_err("nothing").to_string();
        assert!(message.contains("rustup target add wasm32-wasip2"), "{message}");
    }

    #[test]
    fn building_from_sources_takes_debians_parts() {
        let linker = OsString::from("wasm-ld-22");
        let toolchain = RustToolchain {
            cargo: PathBuf::from("/usr/bin/cargo"),
            kind: ToolchainKind::FromSources { linker },
        };
        assert!(toolchain.arguments().contains(&OsString::from("-Zbuild-std=std,panic_abort")));
        let given = [("PATH", "/opt/bin"), ("RUSTFLAGS", "-g"), ("CARGO_TARGET_DIR", "/t")];
        let given = given.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let environment = toolchain.environment(&given);
        let value = |name: &str| {
            environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
        };
        assert_eq!(value("PATH"), Some("/usr/bin:/opt/bin".into()));
        assert_eq!(value("RUSTFLAGS"), None);
        assert_eq!(value("CARGO_TARGET_DIR"), Some("/t/plugins".into()));
        assert_eq!(value("CARGO_TARGET_WASM32_WASIP1_LINKER"), Some("wasm-ld-22".into()));
    }
}
