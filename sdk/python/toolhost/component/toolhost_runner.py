"""The runner: what componentize-py makes a component of when its script comes from the host."""

import sys

from wit_world.imports import script

import toolhost_component
from toolhost import loader
from toolhost_component import Availability, Hooks, SchemaOverride, WitWorld  # noqa: F401
from toolhost_preload import preload


def load():
    """Loads the host's script."""
    return loader.Script([(module.path, module.text) for module in script.modules()]).load()


preload()
sys.toolhost_is_runner = True
toolhost_component.set_up()
toolhost_component.plugin.load = load
toolhost_component.seal()
