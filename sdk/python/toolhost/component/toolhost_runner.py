"""The runner: what componentize-py makes a component of when its script comes from the host."""

import sys

from wit_world.imports import script

import toolhost_component
from toolhost import compiled, loader
from toolhost_component import Availability, Hooks, SchemaOverride, WitWorld  # noqa: F401
from toolhost_preload import preload


def load():
    """Loads the host's script, from what was kept of it where that is possible."""
    ready = compiled.Compiled.loads(script.kept())
    loaded = loader.Script(modules if ready else modules(), ready)
    compiled.current = loaded.compiled
    return loaded.load()


def modules():
    """Returns the path and the text of each module."""
    return [(module.path, module.text) for module in script.modules()]


def keep():
    """Keeps what was compiled for the instances that follow."""
    loaded = loader.Script.current
    script.keep(loaded.compiled.dumps(loaded.texts))
    compiled.current = None


preload()
sys.toolhost_is_runner = True
toolhost_component.set_up()
toolhost_component.plugin.load = load
toolhost_component.plugin.keep = keep
compiled.install()
toolhost_component.seal()
