"""A plugin with its modules: what componentize-py makes a component of for one author.

`toolhost_script.py`, which the build writes, has the modules. They are run once, while the
component is built, so a call finds them as they are then.
"""

import sys

import toolhost_component
from toolhost import loader, runtime
from toolhost_component import Availability, Hooks, SchemaOverride, WitWorld  # noqa: F401
from toolhost_preload import preload
from toolhost_script import MODULES

preload(optional=True)
compiler = sys.stderr
toolhost_component.set_up()
try:
    toolhost_component.plugin.baked = loader.Script(MODULES).load()
    toolhost_component.plugin.registration = runtime.registration(toolhost_component.plugin.baked)
except loader.LoadError as error:
    sys.stderr = compiler
    raise SystemExit(f"toolhost: {error}") from None
toolhost_component.seal()
