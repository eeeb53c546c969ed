//! Building JavaScript and TypeScript plugins: `build.mjs`, of the SDK.

use std::ffi::OsString;
use std::path::Path;

use super::kit::{self, Kit};
use super::{BuildError, BuildRequest};

/// What the tools have if they are there.
const COMPILER: &str = "node_modules/@bytecodealliance/componentize-js/package.json";

/// Builds the script whose main file this is.
pub(super) async fn build(
    request: &BuildRequest,
    kit: &Kit,
    main: &Path,
) -> Result<Vec<u8>, BuildError> {
    let Some(node) = kit.program("node") else {
        return Err(BuildError::NoTools {
            what: "Node.js 20 or later, which builds JavaScript plugins,",
            command: "apt-get install nodejs npm".to_owned(),
        });
    };
    let Some(tools) = kit.tools_with(COMPILER) else {
        return Err(kit.no_tools("componentize-js, which builds JavaScript plugins,"));
    };
    let arguments = |out: &Path| {
        let named: [(&str, &Path); 4] =
            [("--tools", tools), ("--wit", &kit.wit), ("--main", main), ("--out", out)];
        let mut arguments: Vec<OsString> = vec![kit.sdk.join("build.mjs").into(), "--quiet".into()];
        for (name, path) in named {
            arguments.extend([name.into(), path.into()]);
        }
        arguments
    };
    let environment = kit::without(&request.environment, &["NODE_OPTIONS", "NODE_PATH"]);
    kit::run(request, node, arguments, environment).await
}
