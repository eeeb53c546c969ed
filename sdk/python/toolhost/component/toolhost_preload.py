"""The standard modules that scripts can import: those which work in a component.

What is not here cannot be imported in a runner. Left out are modules for what a component does
not have (threads, processes, sockets, terminals, C extensions at run time) and for building and
testing Python itself.
"""

import importlib
import sys

MODULES = """
    __future__ abc annotationlib argparse array ast asyncio base64 binascii bisect builtins calendar cmath codecs
    collections collections.abc colorsys compression.gzip compression.zlib concurrent.futures configparser contextlib contextvars copy copyreg csv
    dataclasses datetime decimal difflib dis email email.generator email.header email.headerregistry
    email.iterators email.message email.mime.application email.mime.audio email.mime.base
    email.mime.image email.mime.multipart email.mime.text email.parser email.policy email.utils enum errno filecmp fnmatch fractions functools gc getopt gettext glob
    graphlib gzip hashlib heapq hmac html html.entities html.parser http http.cookies importlib
    importlib.abc importlib.util inspect io ipaddress itertools json keyword linecache locale
    logging logging.handlers marshal math mimetypes numbers opcode operator os os.path pathlib
    pickle pkgutil platform posixpath pprint pyexpat queue quopri random re reprlib sched secrets
    select selectors shlex shutil socket sqlite3 stat statistics string string.templatelib
    stringprep struct symtable sys sysconfig tarfile tempfile textwrap threading time timeit token
    tokenize tomllib traceback types typing unicodedata unittest unittest.mock urllib urllib.error
    urllib.parse uuid warnings wave weakref xml xml.dom xml.dom.expatbuilder
    xml.dom.minidom xml.dom.pulldom xml.etree xml.etree.ElementTree
    xml.parsers.expat xml.sax xml.sax.expatreader xml.sax.saxutils zipfile zlib zoneinfo
    _ast_unparse _colorize _pydatetime _pydecimal _strptime _suggestions _threading_local
    concurrent.futures.thread unittest._log unittest.async_case
""".split()

ENCODINGS = """
    aliases ascii base64_codec big5 charmap cp037 cp437 cp850 cp852 cp855 cp858 cp866 cp874 cp932
    cp949 cp950 cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 euc_jp euc_kr gb18030
    gb2312 gbk hex_codec idna iso2022_jp iso8859_1 iso8859_2 iso8859_3 iso8859_4 iso8859_5 iso8859_6
    iso8859_7 iso8859_8 iso8859_9 iso8859_10 iso8859_11 iso8859_13 iso8859_14 iso8859_15 iso8859_16
    koi8_r koi8_u latin_1 mac_roman punycode quopri_codec raw_unicode_escape rot_13 shift_jis
    undefined unicode_escape utf_16 utf_16_be utf_16_le utf_32 utf_32_be utf_32_le utf_7 utf_8
    utf_8_sig zlib_codec
""".split()


def preload(optional=False):
    """Imports all of it. With `optional`, what cannot be imported is left out."""
    for name in MODULES + [f"encodings.{name}" for name in ENCODINGS]:
        try:
            importlib.import_module(name)
        except ImportError:
            if not optional:
                raise
    _time_zones()
    warm_up()


def _time_zones():
    """Keeps the files of the package tzdata in memory, for `zoneinfo`."""
    import io
    import zoneinfo
    import zoneinfo._common
    import zoneinfo._tzpath
    from importlib import resources

    try:
        root = resources.files("tzdata") / "zoneinfo"
        names = (resources.files("tzdata") / "zones").read_text().split()
    except ImportError:
        return
    zones = {name: root.joinpath(*name.split("/")).read_bytes() for name in names}

    def load_tzdata(key):
        if key not in zones:
            raise zoneinfo.ZoneInfoNotFoundError(f"No time zone found with key {key}")
        return io.BytesIO(zones[key])

    zoneinfo._common.load_tzdata = load_tzdata
    zoneinfo.available_timezones = lambda: set(zones)
    zoneinfo.reset_tzpath(to=[])


def warm_up():
    """Does once what Python does at the first use of something, so that no call has to."""
    import datetime
    import email.message
    import json
    import re
    import traceback
    import typing

    json.loads(json.dumps({"a": [1.5, None, "é"]}))
    datetime.datetime.strptime("2026-01-31", "%Y-%m-%d")
    re.compile(r"\b(\w+)\b", re.I).findall("a b")
    email.message.EmailMessage()
    sys.intern("toolhost")

    def sample(text: str, count: int = 1) -> typing.Optional[str]:
        """Is looked at."""

    typing.get_type_hints(sample)
    try:
        raise ValueError("warm")
    except ValueError as error:
        traceback.format_exception(error)
