//! Building Python plugins: `python -m toolhost.build`, of the SDK.

use std::ffi::OsString;
use std::path::Path;

use super::kit::{self, Kit};
use super::{BuildError, BuildRequest};

/// Variables that would give the builder other modules than the SDK's, or bury what it says.
const NOT_PASSED_ON: [&str; 6] = [
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONSTARTUP",
    "VIRTUAL_ENV",
    "RUST_BACKTRACE",
    "RUST_LIB_BACKTRACE",
];

/// Builds the script at `source`, a file or a folder.
pub(super) async fn build(
    request: &BuildRequest,
    kit: &Kit,
    source: &Path,
) -> Result<Vec<u8>, BuildError> {
    // The version that the SDK is tested with, before any other.
    let (python, compiler) = match kit.tools_with("bin/componentize-py") {
        Some(tools) => (Some(tools.join("bin/python")), Some(tools.join("bin/componentize-py"))),
        None => (kit.program("python3"), kit.program("componentize-py")),
    };
    let (Some(python), Some(compiler)) = (python, compiler) else {
        return Err(kit.no_tools("componentize-py, which builds Python plugins,"));
    };
    let mut packages = Vec::new();
    for folder in &request.packages {
        let folder = std::fs::canonicalize(folder).map_err(super::io(folder))?;
        packages.extend([OsString::from("--path"), folder.into()]);
    }
    let arguments = |out: &Path| {
        let mut arguments: Vec<OsString> = ["-m", "toolhost.build"].map(OsString::from).into();
        arguments.extend([source.into(), out.into()]);
        arguments.extend(["--componentize-py".into(), compiler.into_os_string()]);
        arguments.extend(["--wit".into(), kit.wit.clone().into_os_string()]);
        arguments.extend(packages);
        arguments
    };
    let mut environment = kit::without(&request.environment, &NOT_PASSED_ON);
    // Nothing is written beside the SDK.
    environment.push(("PYTHONDONTWRITEBYTECODE".into(), "1".into()));
    // Modules come from there and from nowhere else, not from the folder that it runs in.
    environment.push(("PYTHONSAFEPATH".into(), "1".into()));
    environment.push(("PYTHONPATH".into(), kit.sdk.clone().into_os_string()));
    kit::run(request, python, arguments, environment).await
}
